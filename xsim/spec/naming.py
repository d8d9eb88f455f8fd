"""How a dataclass field is spelled in text: the one rule that YAML, textproto and binary share.

A unit suffix ends the name in Python and the value in text: ``latency_ps: int`` is written ``latency: 2 us``.

| field ends in | text name | value in text | example |
|---|---|---|---|
| ``_bytes_per_s`` | without it | bandwidth | ``bandwidth: 400 Gbps`` |
| ``_flops_per_s`` | without it | rate | ``rate: 204.9 TFLOPS`` |
| ``_bytes`` | without it | size | ``memory: 80 GiB`` |
| ``_ps`` | without it | time | ``latency: 2 us`` |
| ``_w`` | without it | power | ``power: 700 W`` |
| anything else | the same | plain | ``price_usd: 10000`` |
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from xsim import units
from xsim.errors import short

__all__ = ["Quantity", "TextField", "nearest", "shown_key", "text_fields"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Text with a unit, both ways."""

    parse: Callable[[object], float]
    format: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class TextField:
    """One field of a dataclass, seen from the text.

    Attributes:
        name: In text.
        attribute: In the dataclass.
        hint: Its type, without ``| None``.
        quantity: How its value reads if it has a unit.
        required: It has no default.
    """

    name: str
    attribute: str
    hint: Any
    quantity: Quantity | None
    required: bool


QUANTITIES = {
    "_bytes_per_s": Quantity(units.parse_bandwidth, units.format_bandwidth),
    "_flops_per_s": Quantity(units.parse_flops, units.format_flops),
    "_bytes": Quantity(units.parse_bytes, units.format_bytes),
    "_ps": Quantity(units.parse_time, units.format_time),
    "_w": Quantity(units.parse_power, units.format_power),
}


def text_fields(cls: Any) -> Mapping[str, TextField]:
    """The fields of a dataclass by their name in text, in the order of the class."""
    return _text_fields(cls)


@cache
def _text_fields(cls: type[Any]) -> Mapping[str, TextField]:
    hints = typing.get_type_hints(cls)
    return {found.name: found for found in (_text_field(item, hints[item.name]) for item in dataclasses.fields(cls))}


def _text_field(item: dataclasses.Field[Any], hint: Any) -> TextField:
    suffix = next((end for end in QUANTITIES if item.name.endswith(end)), "")
    present = [part for part in typing.get_args(hint) if part is not type(None)]
    optional = len(present) < len(typing.get_args(hint))
    return TextField(
        name=item.name.removesuffix(suffix),
        attribute=item.name,
        hint=present[0] if optional else hint,
        quantity=QUANTITIES.get(suffix),
        required=item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING,
    )


def nearest(name: object, offered: Iterable[str]) -> str:
    """The way out of an unknown name: the nearest of those offered, or all of them.

    >>> nearest("bandwith", ["bandwidth", "latency"])
    'did you mean bandwidth?'
    """
    names = list(offered)
    wanted = name[:60].lower() if isinstance(name, str) else ""
    longer = [found for found in names if wanted and found.startswith(wanted)]
    near = longer or difflib.get_close_matches(wanted, names, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"


def shown_key(key: object) -> str:
    """A key as part of a path: an odd one in brackets.

    >>> shown_key("nic"), shown_key(5)
    ('nic', '[5]')
    """
    plain = isinstance(key, str) and len(key) < 60 and key.isprintable() and bool(key)
    return str(key) if plain else f"[{short(key)}]"
