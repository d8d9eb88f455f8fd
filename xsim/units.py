"""Text with a unit into plain numbers, once, at the door.

Inside the package time is ``int`` picoseconds, size ``int`` bytes and a rate ``float`` per second. A *bit* is a small
``b``, a *byte* a large ``B``; ``GB`` is decimal, ``GiB`` binary (IEC 80000-13). A number without its unit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from xsim.errors import SpecError

__all__ = [
    "PS_PER_S",
    "format_bandwidth",
    "format_bytes",
    "format_flops",
    "format_power",
    "format_time",
    "parse_bandwidth",
    "parse_bytes",
    "parse_flops",
    "parse_power",
    "parse_time",
]

PS_PER_S = 10**12

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

_TIME = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": PS_PER_S}
_BYTES = {f"{prefix}B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
_BANDWIDTH = (
    {f"{unit}/s": Fraction(factor) for unit, factor in _BYTES.items()}
    | {f"{prefix}bps": Fraction(factor, 8) for prefix, factor in _DECIMAL.items()}
    | {f"{prefix}b/s": Fraction(factor, 8) for prefix, factor in _DECIMAL.items()}
)
_FLOPS = {f"{prefix}FLOPS": factor for prefix, factor in _DECIMAL.items() if prefix != "k"}
_POWER = {"W": 1, "kW": 1000}

_QUANTITY = re.compile(r"\s*([0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]{1,40})\s*([A-Za-z/]*)\s*\Z")
_LARGEST = 2**63 - 1
_LARGEST_RATE = 10**40


def parse_time(text: object) -> int:
    """Picoseconds of ``1.5 us``.

    >>> parse_time("1.5 us")
    1500000
    """
    return _whole(text, _TIME, "ns, us, ms, s")


def parse_bytes(text: object) -> int:
    """Bytes of ``80 GB`` or ``4 MiB``.

    >>> parse_bytes("80 GB"), parse_bytes("4 MiB")
    (80000000000, 4194304)
    """
    return _whole(text, _BYTES, "KB, MB, GB, MiB, GiB")


def parse_bandwidth(text: object) -> float:
    """Bytes per second of ``400 Gbps`` or ``450 GB/s``.

    >>> parse_bandwidth("400 Gbps"), parse_bandwidth("450 GB/s")
    (50000000000.0, 450000000000.0)
    """
    return float(_parse(text, _BANDWIDTH, "GB/s, TB/s, Mbps, Gbps, Tbps"))


def parse_flops(text: object) -> float:
    """FLOP per second of ``312 TFLOPS``.

    >>> parse_flops("312 TFLOPS")
    312000000000000.0
    """
    return float(_parse(text, _FLOPS, "GFLOPS, TFLOPS, PFLOPS"))


def parse_power(text: object) -> float:
    """Watts of ``700 W``.

    >>> parse_power("0.7 kW")
    700.0
    """
    return float(_parse(text, _POWER, "W, kW"))


def format_time(time_ps: int) -> str:
    """The text that ``parse_time`` reads as exactly this.

    >>> format_time(1_500_000)
    '1.5 us'
    """
    return _format(time_ps, {"ps": 0, "ns": 3, "us": 6, "ms": 9, "s": 12})


def format_bytes(size_bytes: int) -> str:
    """The text that ``parse_bytes`` reads as exactly this.

    >>> format_bytes(80_000_000_000), format_bytes(4 * 2**20)
    ('80 GB', '4 MiB')
    """
    decimal = _format(size_bytes, {"B": 0, "KB": 3, "MB": 6, "GB": 9, "TB": 12})
    binary = [f"{size_bytes // factor} {unit}B" for unit, factor in _BINARY.items() if size_bytes % factor == 0]
    return min([decimal, *binary], key=len)


def format_bandwidth(bytes_per_s: float) -> str:
    """The text that ``parse_bandwidth`` reads as exactly this.

    >>> format_bandwidth(5e10)
    '50 GB/s'
    """
    return _format(bytes_per_s, {"B/s": 0, "KB/s": 3, "MB/s": 6, "GB/s": 9, "TB/s": 12})


def format_flops(flops_per_s: float) -> str:
    """The text that ``parse_flops`` reads as exactly this.

    >>> format_flops(3.12e14)
    '312 TFLOPS'
    """
    return _format(flops_per_s, {"FLOPS": 0, "MFLOPS": 6, "GFLOPS": 9, "TFLOPS": 12, "PFLOPS": 15})


def format_power(watts: float) -> str:
    """The text that ``parse_power`` reads as exactly this.

    >>> format_power(700.0)
    '700 W'
    """
    return _format(watts, {"W": 0})


def _parse(text: object, units: Mapping[str, int | Fraction], offered: str) -> Fraction:
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    unit = match[2] if match else ""
    fix = f"write a number and one of {offered}"
    if match is None and (isinstance(text, bool) or not isinstance(text, int | float)):
        raise SpecError("", text, "it is not a quantity", fix)
    if match is None or not unit:
        raise SpecError("", text, "a quantity needs its unit", fix)
    if unit not in units:
        raise SpecError("", text, f"the unit {unit!r} is unknown here", fix)
    number = Fraction(match[1]) * units[unit]
    if number > _LARGEST_RATE:
        raise SpecError("", text, "it is too large", "write a smaller quantity")
    return number


def _whole(text: object, units: Mapping[str, int | Fraction], offered: str) -> int:
    number = round(_parse(text, units, offered))
    if number > _LARGEST:
        raise SpecError("", text, "it is too large", "write a smaller quantity")
    return number


def _format(number: float, powers: Mapping[str, int]) -> str:
    """``number`` in the largest unit in which it is 1 or more; exact, since units differ by powers of ten."""
    exact = Decimal(repr(number))
    unit, power = next(iter(powers.items()))
    for larger, larger_power in powers.items():
        if exact >= 10**larger_power:
            unit, power = larger, larger_power
    scaled = exact.scaleb(-power).normalize()
    return f"{scaled:f} {unit}" if scaled.adjusted() > -10 else f"{scaled} {unit}"
