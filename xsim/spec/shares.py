"""Cutting something among unequal ranks: contiguous parts in proportion to shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

__all__ = ["share_cuts"]

ROUNDING = 10  # thirds of three digits miss the boundaries between up to 128 heads by less than a tenth of one


def share_cuts(size: int, parts: int, shares: Sequence[float] = ()) -> tuple[int, ...]:
    """Boundaries of ``parts`` pieces of ``0..size``: of cumulated share c out of C at ``c * size // C``.

    Without shares, or with equal ones, the pieces are as even as can be. A boundary less than a tenth short of the
    next whole number is there: thirds may be written as 0.333, 0.333 and 0.334.

    >>> share_cuts(12, 5)
    (0, 2, 4, 7, 9, 12)
    >>> share_cuts(12, 3, (2, 2, 0.8))
    (0, 5, 10, 12)
    >>> share_cuts(6, 3, (0.333, 0.333, 0.334))
    (0, 2, 4, 6)
    """
    if len(set(shares)) <= 1:
        return tuple(i * size // parts for i in range(parts + 1))
    cumulated = _cumulated(tuple(shares))
    total = ROUNDING * cumulated[-1]
    return tuple((ROUNDING * cut * size + cumulated[-1]) // total for cut in cumulated)


@lru_cache(maxsize=256)
def _cumulated(shares: tuple[float, ...]) -> tuple[int, ...]:
    """Sums of the shares so far, from 0 on, in a common unit; 0.8 is 4/5, as it is written."""
    exact = [Fraction(repr(share)) for share in shares]
    unit = math.lcm(*(share.denominator for share in exact))
    return (0, *accumulate(int(share * unit) for share in exact))
