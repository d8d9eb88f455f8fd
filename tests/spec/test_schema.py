"""xsim.proto and the dataclasses name the same fields, by the rule of ``xsim.spec.naming``."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from xsim.spec import cluster, deployment, device, model, scenario, xsim_pb2
from xsim.spec.naming import TextField, text_fields

CLASSES: dict[str, Any] = {
    name: cls
    for module in (device, cluster, deployment, model, scenario)
    for name, cls in vars(module).items()
    if dataclasses.is_dataclass(cls)
}
MESSAGES: dict[str, Descriptor] = dict(xsim_pb2.DESCRIPTOR.message_types_by_name)

TEXT_ONLY = {("DeviceSpec", "library")}  # an entry of devices.yaml to start from
NO_CLASS = {"LayerRange"}  # a Python range

SCALARS = {
    str: FieldDescriptor.TYPE_STRING,
    int: FieldDescriptor.TYPE_INT32,
    float: FieldDescriptor.TYPE_DOUBLE,
    bool: FieldDescriptor.TYPE_BOOL,
}


def test_every_class_is_a_message() -> None:
    assert set(MESSAGES) - NO_CLASS == set(CLASSES)


@pytest.mark.parametrize("name", sorted(set(MESSAGES) - NO_CLASS))
def test_every_field_is_there_with_its_type(name: str) -> None:
    in_proto = {field.name: field for field in MESSAGES[name].fields if (name, field.name) not in TEXT_ONLY}
    in_class = text_fields(CLASSES[name])

    assert sorted(in_proto) == sorted(in_class)
    for key, field in in_class.items():
        assert wire_type(in_proto[key]) == expected(field), key


def wire_type(field: FieldDescriptor) -> tuple[str, object]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return "map", field.message_type.fields_by_name["value"].type
    kind = "many" if field.is_repeated else "one"
    return kind, field.message_type.name if field.message_type else field.type


def expected(field: TextField) -> tuple[str, object]:
    many = typing.get_origin(field.hint) is tuple
    if field.quantity:
        return "map" if many else "one", FieldDescriptor.TYPE_STRING
    hint = typing.get_args(field.hint)[0] if many else field.hint
    return "many" if many else "one", of_hint(hint)


def of_hint(hint: Any) -> object:
    if hint is range:
        return "LayerRange"
    if hint in CLASSES.values():
        return hint.__name__
    return SCALARS[str if typing.get_origin(hint) is typing.Literal else hint]


def test_absent_differs_from_zero() -> None:
    assert all(field.has_presence for each in MESSAGES.values() for field in each.fields if not field.is_repeated)
