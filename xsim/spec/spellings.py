"""Three spellings of one value: YAML, textproto, binary. All go through the plain data of ``xsim.spec.codec``.

>>> from xsim.spec.cluster import LinkSpec
>>> link = read_text(LinkSpec, "{bandwidth: 400 Gbps, latency: 2 us}")
>>> print(write_text(link, "textproto"), end="")
bandwidth: "50 GB/s"
latency: "2 us"
>>> read_binary(LinkSpec, write_binary(link)) == read_text(LinkSpec, write_text(link, "textproto"), "textproto") == link
True
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError, Message

from xsim.errors import SpecError
from xsim.spec import xsim_pb2
from xsim.spec.codec import from_plain, to_plain
from xsim.spec.naming import nearest
from xsim.spec.yaml_text import dump, load

__all__ = ["from_message", "read_binary", "read_text", "to_message", "write_binary", "write_text"]

T = TypeVar("T")
Spelling = Literal["yaml", "textproto"]


def read_text(cls: type[T], text: str, spelling: Spelling = "yaml", path: str = "") -> T:
    """The spec that a document describes.

    Raises:
        SpecError: The document is malformed, or ``from_plain`` refuses what it says.
    """
    try:
        return from_plain(cls, load(text)) if spelling == "yaml" else from_message(cls, _parsed(cls, text))
    except SpecError as error:
        raise error.under(path) from None


def write_text(value: object, spelling: Spelling = "yaml") -> str:
    """The document that ``read_text`` reads as an equal value."""
    if spelling == "yaml":
        return dump(to_plain(value))
    return text_format.MessageToString(to_message(value), as_utf8=True)


def read_binary(cls: type[T], data: bytes, path: str = "") -> T:
    """The spec that a serialized message holds.

    Raises:
        SpecError: It is no such message, it has fields that this version does not know, or ``from_plain`` refuses it.
    """
    message = _message_class(cls)()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise SpecError(path, data, f"it is not a serialized {cls.__name__}", "write it with xsim.proto") from None
    length = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != length:
        raise SpecError(path, data, "it has fields that xsim.proto does not know", "write it with this xsim.proto")
    return from_message(cls, message, path)


def write_binary(value: object) -> bytes:
    """The bytes that ``read_binary`` reads as an equal value; equal values give equal bytes."""
    return to_message(value).SerializeToString(deterministic=True)


def from_message(cls: type[T], message: Message, path: str = "") -> T:
    """The spec that a message holds; a field that is not set is absent."""
    return from_plain(cls, json_format.MessageToDict(message, preserving_proto_field_name=True), path)


def to_message(value: object) -> Message:
    """The message of ``xsim.proto`` with the name of the value's class."""
    return json_format.ParseDict(to_plain(value), _message_class(type(value))())


def _message_class(cls: type[Any]) -> type[Message]:
    found: type[Message] = getattr(xsim_pb2, cls.__name__)
    return found


def _parsed(cls: type[Any], text: str) -> Message:
    message = _message_class(cls)()
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise _refused(cls, text, str(error)) from None


def _refused(cls: type[Any], text: str, problem: str) -> SpecError:
    """A parser's complaint, with the nearest name if it met an unknown one."""
    unknown = re.search(r'type "xsim\.(\w+)" has no field named "(\w+)"', problem)
    fix = f"write a {cls.__name__} of xsim.proto"
    if unknown:
        fields = xsim_pb2.DESCRIPTOR.message_types_by_name[unknown[1]].fields_by_name
        fix = nearest(unknown[2], fields)
    place = re.match(r"(\d+):", problem)
    lines = text.splitlines()
    shown = lines[int(place[1]) - 1].strip() if place and int(place[1]) <= len(lines) else text
    return SpecError("", shown, f"it is not textproto: {problem.strip().rstrip('.')}", fix)
