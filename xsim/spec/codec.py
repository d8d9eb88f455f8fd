"""Plain data (what YAML or JSON holds: mappings, lists, text, numbers) to specs, and back.

Everything follows from the fields and type hints of the dataclasses, by the rule of ``xsim.spec.naming``; the
shorthands that people write are rewritten first (``xsim.spec.shorthand``). ``null`` means absent. Each error names the
whole path, what was found, the problem and the fix.

>>> from xsim.spec.cluster import DeviceSpec, NicSpec
>>> from_plain(NicSpec, {"bandwidth": "400 Gbps", "latency": "2 us"})
NicSpec(bandwidth_bytes_per_s=50000000000.0, latency_ps=2000000, per_host=None)
>>> from_plain(DeviceSpec, "h100_80").peak("bf16")
989400000000000.0
>>> from_plain(NicSpec, {"bandwidth": 400, "latency": "2 us"}, "cluster.hosts[0].nic")
Traceback (most recent call last):
    ...
xsim.errors.SpecError: cluster.hosts[0].nic.bandwidth = 400: a quantity needs its unit; write a number and one of GB/s, TB/s, Mbps, Gbps, Tbps
"""  # noqa: E501

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xsim.errors import SpecError
from xsim.spec.checks import at_least
from xsim.spec.naming import Quantity, TextField, nearest, shown_key, text_fields
from xsim.spec.shorthand import LARGEST_COUNT, expand

__all__ = ["from_plain", "to_plain"]

T = TypeVar("T")

LARGEST_NUMBER = 1e300


def from_plain(cls: type[T], value: object, path: str = "") -> T:
    """The spec that ``value`` describes.

    Args:
        cls: A dataclass of ``xsim.spec``.
        value: A mapping by text names, or a shorthand (a device by its name).
        path: Where ``value`` stands, for messages: ``cluster``.

    Raises:
        SpecError: Unknown, missing or ill-typed keys, a quantity without its unit, or an impossible value.
    """
    try:
        return _build(cls, expand(cls, value))
    except SpecError as error:
        raise error.under(path) from None


def to_plain(value: object) -> Any:
    """Mappings, lists, text and numbers that ``from_plain`` reads as an equal value; absent fields are left out."""
    if dataclasses.is_dataclass(value):
        found = ((field, getattr(value, field.attribute)) for field in text_fields(type(value)).values())
        return {field.name: _written(item, field.quantity) for field, item in found if item is not None}
    return _written(value, None)


def _written(value: Any, quantity: Quantity | None) -> Any:
    if isinstance(value, range):
        return {"first": value.start, "last": value.stop - 1}
    if isinstance(value, tuple):
        if quantity is None:
            return [to_plain(item) for item in value]
        return {key: quantity.format(item) for key, item in value}
    if quantity is not None:
        return quantity.format(value)
    return to_plain(value) if dataclasses.is_dataclass(value) else value


def _build(cls: type[T], value: object) -> T:
    fields = text_fields(cls)
    found = _mapping(value, [name for name, field in fields.items() if field.required])
    for key, item in found.items():
        if key not in fields:
            raise SpecError(shown_key(key), item, f"{cls.__name__} has no such key", nearest(key, fields))
    for name, field in fields.items():
        if field.required and found.get(name) is None:
            raise SpecError(name, None, "it is missing", f"{cls.__name__} needs it")
    values: dict[str, Any] = {}
    for name, item in found.items():
        if item is not None:
            values[fields[name].attribute] = _read_field(fields[name], item)
    try:
        return cls(**values)
    except SpecError as error:
        raise _as_written(error, fields, found) from None


def _as_written(error: SpecError, fields: Mapping[str, TextField], found: Mapping[str, object]) -> SpecError:
    """The error of a dataclass in the names, and with the quantity, that the author wrote."""
    for name, field in fields.items():
        written = found.get(name)
        if field.quantity is None:
            continue
        if field.attribute == error.field:
            return SpecError(name, error.value if written is None else written, error.problem, error.fix)
        if isinstance(written, Mapping) and error.field.startswith(f"{name}."):
            return SpecError(error.field, written[error.field.removeprefix(f"{name}.")], error.problem, error.fix)
    return error


def _read_field(field: TextField, value: object) -> object:
    try:
        if field.quantity is None:
            return _read(field.hint, value)
        if typing.get_origin(field.hint) is tuple:
            return _read_pairs(field.quantity, value)
        return field.quantity.parse(value)
    except SpecError as error:
        raise error.under(field.name) from None


def _read(hint: Any, value: object) -> object:
    if typing.get_origin(hint) is tuple:
        return tuple(_each(typing.get_args(hint)[0], _list(value)))
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast("type[object]", hint), value)
    if typing.get_origin(hint) is typing.Literal:
        return _text(value)
    return _SCALARS[hint](value)


def _each(hint: Any, values: Sequence[object]) -> Iterator[object]:
    for index, value in enumerate(values):
        try:
            yield _read(hint, value)
        except SpecError as error:
            raise error.under(f"[{index}]") from None


def _read_pairs(quantity: Quantity, value: object) -> tuple[tuple[str, float], ...]:
    """A mapping as pairs in the order of its keys: a protobuf map has no order of its own."""
    pairs = []
    for key, item in _mapping(value, ["bf16"]).items():
        try:
            pairs.append((_text(key), quantity.parse(item)))
        except SpecError as error:
            raise error.under(shown_key(key)) from None
    return tuple(sorted(pairs))


def _mapping(value: object, needed: Sequence[str]) -> Mapping[Any, object]:
    if not isinstance(value, Mapping):
        example = ", ".join(f"{name}: ..." for name in needed)
        raise SpecError("", value, "it is not a mapping", f"write {{{example}}}")
    return value


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise SpecError("", value, "it is not a list", "write [..., ...] or one line with a dash for each")
    return value


def _layers(value: object) -> range:
    """``{first: 1, last: 20}``, both included, is ``range(1, 21)``."""
    layers = _build(_FirstLast, value)
    return range(layers.first, layers.last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FirstLast:
    first: int
    last: int

    def __post_init__(self) -> None:
        at_least(self, "first", 0)
        if self.last < self.first:
            problem = f"the last layer is before the first, {self.first}"
            raise SpecError("last", self.last, problem, "write such as {first: 1, last: 20}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise SpecError("", value, "it is not text", "write it in quotes")
    if not value.isprintable():
        raise SpecError("", value, "it has unprintable characters", "write it in one line of plain text")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError("", value, "it is not a whole number", "write such as 8")
    if abs(value) > LARGEST_COUNT:
        raise SpecError("", value, "it is beyond 32 bits", f"write at most {LARGEST_COUNT}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError("", value, "it is not a number", "write such as 0.5")
    if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        raise SpecError("", value, "it is not a finite number", "write such as 0.5")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise SpecError("", value, "it is neither true nor false", "write true or false, without quotes")
    return value


_SCALARS: Mapping[Any, Callable[[object], object]] = {
    range: _layers,
    str: _text,
    int: _count,
    float: _number,
    bool: _flag,
}
