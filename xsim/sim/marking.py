"""When ports mark packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xsim.errors import SpecError
from xsim.units import parse_bandwidth, parse_bytes

__all__ = ["NOTHING", "PUBLISHED", "Marking", "marking_at", "markings_of"]

NOTHING = "none"  # is marked

GIGA = 10**9


class Marking(NamedTuple):
    """A port never marks with up to ``kmin_bytes`` left in its queue, always above ``kmax_bytes``, else by chance.

    The chance rises in a line, to ``pmax`` at ``kmax_bytes``.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float


# By bits per second: HPCC's published configuration for ports of 25 and 100 Gb/s, SimAI's for the faster ones
# (github.com/alibaba-edu/High-Precision-Congestion-Control, github.com/aliyun/SimAI).
PUBLISHED: Mapping[int, Marking] = {
    25 * GIGA: Marking(100_000, 400_000, 0.2),  # HPCC: simulation/run.py
    100 * GIGA: Marking(400_000, 1_600_000, 0.2),  # HPCC: simulation/run.py
    200 * GIGA: Marking(300_000, 1_200_000, 0.8),  # SimAI: SimAI.conf
    400 * GIGA: Marking(800_000, 3_200_000, 0.2),  # SimAI: SimAI.conf
    1600 * GIGA: Marking(600_000, 2_400_000, 0.2),  # SimAI: SimAI.conf
}


def marking_at(bits_per_s: int, table: Mapping[int, Marking]) -> Marking:
    """That of the port's rate; of the next slower one listed, or of the slowest, if it is not listed."""
    return table[max((rate for rate in table if rate <= bits_per_s), default=min(table))]


def markings_of(text: str) -> Mapping[int, Marking]:
    """By bits per second, of ``RATE:KMIN:KMAX:PMAX`` for each rate, with spaces between; none for ``none``.

    >>> markings_of("100Gbps:400KB:1600KB:0.2")
    {100000000000: Marking(kmin_bytes=400000, kmax_bytes=1600000, pmax=0.2)}

    Raises:
        SpecError: It cannot be read.
    """
    if text == NOTHING:
        return {}
    found: dict[int, Marking] = {}
    for word in text.split():
        parts = word.split(":")
        if len(parts) != 4:
            fix = "write RATE:KMIN:KMAX:PMAX for each rate, such as 100Gbps:400KB:1600KB:0.2, or none"
            raise SpecError("ecn", word, "it does not say how a port marks", fix)
        try:
            rate, low, high = round(8 * parse_bandwidth(parts[0])), parse_bytes(parts[1]), parse_bytes(parts[2])
        except SpecError as error:
            raise SpecError("ecn", error.value, error.problem, error.fix) from None
        if low > high:
            raise SpecError("ecn", word, "the lower threshold is above the upper one", "exchange them")
        if rate < 1 or rate in found:
            raise SpecError("ecn", word, "the rate is 0, or there already", "write each rate once")
        found[rate] = Marking(low, high, _share(parts[3], word))
    if not found:
        raise SpecError("ecn", text, "it says nothing", f"write {NOTHING}, or RATE:KMIN:KMAX:PMAX")
    return found


def _share(text: str, word: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise SpecError("ecn", word, f"the chance {text} is no number from 0 to 1", "write such a number")
    return share
