"""Text with a unit into plain numbers, once, at the door.

Inside the package time is ``int`` picoseconds, size ``int`` bytes and a rate ``float`` per second. A *bit* is a small
``b``, a *byte* a large ``B``; ``GB`` is decimal, ``GiB`` binary (IEC 80000-13). A number without its unit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from xsim.errors import SpecError

__all__ = ["PS_PER_S", "parse_bandwidth", "parse_bytes", "parse_flops", "parse_power", "parse_time"]

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

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z/]*)\s*\Z")


def parse_time(text: object) -> int:
    """Picoseconds of ``1.5 us``.

    >>> parse_time("1.5 us")
    1500000
    """
    return round(_parse(text, _TIME, "ns, us, ms, s"))


def parse_bytes(text: object) -> int:
    """Bytes of ``80 GB`` or ``4 MiB``.

    >>> parse_bytes("80 GB"), parse_bytes("4 MiB")
    (80000000000, 4194304)
    """
    return round(_parse(text, _BYTES, "KB, MB, GB, MiB, GiB"))


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


def _parse(text: object, units: Mapping[str, int | Fraction], offered: str) -> Fraction:
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    unit = match[2] if match else ""
    if match is None and not isinstance(text, int | float):
        raise SpecError("", text, "it is not a quantity", f"write a number and one of {offered}")
    if match is None or not unit:
        raise SpecError("", text, "a quantity needs its unit", f"write a number and one of {offered}")
    if unit not in units:
        raise SpecError("", text, f"the unit {unit!r} is unknown here", f"write a number and one of {offered}")
    return Fraction(match[1]) * units[unit]
