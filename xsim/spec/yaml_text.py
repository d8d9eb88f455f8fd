"""YAML without its surprises: plain data only, no duplicate keys, and ``no`` is a word.

Scalars follow YAML 1.2's core schema: booleans are ``true`` and ``false`` alone, ``1e9`` is a number, ``010``, ``1:30``
and dates are text. There are no tags that make objects and no merge keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from xsim.errors import SpecError, short

__all__ = ["dump", "load"]


def load(text: str) -> Any:
    """The plain data of one document.

    Raises:
        SpecError: It is not YAML, or a mapping holds a key twice; the message tells line and column.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SpecError("", _line(text, mark), f"{place}{error.problem or error.context}", "correct the YAML") from None
    except yaml.YAMLError as error:
        raise SpecError("", text, f"it is not YAML: {error}", "write plain text") from None
    except RecursionError:
        raise SpecError("", text, "it is nested too deeply", "write flat YAML") from None


def dump(value: object) -> str:
    """The document that ``load`` reads as ``value``, keys in their own order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)


def _line(text: str, mark: yaml.Mark | None) -> str:
    lines = text.splitlines()
    return lines[mark.line].strip() if mark and mark.line < len(lines) else ""


class _Loader(yaml.SafeLoader):
    """Knows the core schema only; filled in below."""


class _Dumper(yaml.SafeDumper):
    """Quotes what any YAML, old or new, would not read as text."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    found: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise ConstructorError(None, None, "a key must be text", key_node.start_mark)
        if key in found:
            raise ConstructorError(None, None, f"the key {short(key)} stands here twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


def _list(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


def _scalar(read: Callable[[str], object]) -> Callable[[_Loader, yaml.ScalarNode], object]:
    def construct(_: _Loader, node: yaml.ScalarNode) -> object:
        try:
            return read(node.value)
        except ValueError:
            raise ConstructorError(None, None, f"{short(node.value)} is not such a value", node.start_mark) from None

    return construct


def _float(text: str) -> float:
    return float(text.replace(".inf", "inf").replace(".nan", "nan").lower())


_SCALARS: tuple[tuple[str, Callable[[str], object], str, str], ...] = (
    ("bool", lambda text: text.lower() == "true", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", lambda text: int(text, 0), r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        _float,
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+0123456789.",
    ),
    ("null", lambda _: None, r"~|null|Null|NULL|", "~nN"),
    ("str", str, "", ""),
)

_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {None: yaml.SafeLoader.construct_undefined}
for _name, _read, _pattern, _first in _SCALARS:
    _tag, _regex = f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z")
    _Loader.add_constructor(_tag, _scalar(_read))
    if _first:
        _starts = [*_first, ""] if _name == "null" else [*_first]
        _Loader.add_implicit_resolver(_tag, _regex, _starts)
        _Dumper.add_implicit_resolver(_tag, _regex, _starts)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _list)
