"""When ports mark packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PUBLISHED", "Marking", "marking_at"]

GIGA = 10**9


class Marking(NamedTuple):
    """A port never marks with up to ``kmin_bytes`` left in its queue, always above ``kmax_bytes``, else by chance.

    The chance rises in a line, to ``pmax`` at ``kmax_bytes``.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float


# By bits per second: HPCC's published configuration for ports of 25 and 100 Gb/s, SimAI's for the faster ones.
PUBLISHED: Mapping[int, Marking] = {
    25 * GIGA: Marking(100_000, 400_000, 0.2),
    100 * GIGA: Marking(400_000, 1_600_000, 0.2),
    200 * GIGA: Marking(300_000, 1_200_000, 0.8),
    400 * GIGA: Marking(800_000, 3_200_000, 0.2),
    1600 * GIGA: Marking(600_000, 2_400_000, 0.2),
}


def marking_at(bits_per_s: int, table: Mapping[int, Marking]) -> Marking:
    """That of the port's rate; of the next slower one listed, or of the slowest, if it is not listed."""
    return table[max((rate for rate in table if rate <= bits_per_s), default=min(table))]
