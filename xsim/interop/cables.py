"""What the topologies of HPCC and SimAI have in common: how they are read, and their lines of links."""

from __future__ import annotations

from xsim.errors import SpecError
from xsim.fabric.graph import Cable
from xsim.fabric.text import TopologyText, parse_topology

__all__ = ["cable_lines", "parsed"]

_RATES = {"Gbps": 10**9, "Mbps": 10**6, "Kbps": 10**3, "bps": 1}


def parsed(text: str, name: str) -> TopologyText:
    """The topology in ``text``; errors say ``name line 3``. Raises SpecError."""
    try:
        return parse_topology(text)
    except SpecError as error:
        raise SpecError(f"{name} {error.field.strip('[]')}", error.value, error.problem, error.fix) from None


def cable_lines(cables: tuple[Cable, ...]) -> list[str]:
    """``a b rate delay error`` per cable."""
    return [
        f"{x.a} {x.b} {_rate(x.bandwidth_bits_per_s)} {_delay(x.delay_ps)} {f'{x.loss!r}' if x.loss else '0'}"
        for x in cables
    ]


def _rate(bits_per_s: int) -> str:
    unit = next(unit for unit, factor in _RATES.items() if bits_per_s % factor == 0)
    return f"{bits_per_s // _RATES[unit]}{unit}"


def _delay(delay_ps: int) -> str:
    return f"{delay_ps}ps" if delay_ps % 1000 else f"{delay_ps // 1000}ns"
