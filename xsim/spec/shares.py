"""Cutting something among unequal ranks: contiguous parts in proportion to shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

__all__ = ["share_cuts"]


def share_cuts(size: int, parts: int, shares: Sequence[float] = ()) -> tuple[int, ...]:
    """Boundaries of ``parts`` pieces of ``0..size``: of cumulated share c out of C at ``c * size // C``, exactly.

    Without shares, or with equal ones, the pieces are as even as can be.

    >>> share_cuts(12, 5)
    (0, 2, 4, 7, 9, 12)
    >>> share_cuts(12, 3, (2, 2, 0.8))
    (0, 5, 10, 12)
    """
    if not shares:
        return tuple(i * size // parts for i in range(parts + 1))
    cumulated = _cumulated(tuple(shares))
    return tuple(cut * size // cumulated[-1] for cut in cumulated)


@lru_cache(maxsize=256)
def _cumulated(shares: tuple[float, ...]) -> tuple[int, ...]:
    """Sums of the shares so far, from 0 on, in a common unit; 0.8 is 4/5, as it is written."""
    exact = [Fraction(repr(share)) for share in shares]
    unit = math.lcm(*(share.denominator for share in exact))
    return (0, *accumulate(int(share * unit) for share in exact))
