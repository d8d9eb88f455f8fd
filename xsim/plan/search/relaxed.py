"""What no plan can beat: the knapsack with pipelines in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xsim.plan.search.shapes import Lists, Shapes, shaped
from xsim.plan.search.stock import undominated

__all__ = ["bound_ps", "packed", "relaxed", "soonest_relaxed"]

Floats = NDArray[np.float64]


def relaxed(shapes: Shapes, counts: Sequence[int], deadline_ps: int) -> tuple[float, Floats]:
    """(samples done by then at most, what one more device of each kind would add, K)."""
    gains = shapes.samples(deadline_ps)
    own = np.flatnonzero(gains > 0)
    own = own[undominated(shapes.needs[own], gains[own])]
    return packed(shapes.needs[own].astype(np.float64), gains[own].astype(np.float64), np.array(counts, np.float64))


def packed(needs: Floats, gains: Floats, has: Floats) -> tuple[float, Floats]:
    """The most that can be gained by parts of items, and what more of each thing that they take would gain.

    The simplex method with as many rows as there are things: a few. Each step improves, or goes by the lowest number.

    Args:
        needs: I x K.
        gains: I.
        has: K.
    """
    kinds = len(has)
    columns = np.concatenate((needs, np.eye(kinds)))  # the last ones leave things idle
    worth = np.concatenate((gains, np.zeros(kinds)))
    basis = list(range(len(gains), len(gains) + kinds))
    while True:
        inverse = np.linalg.inv(columns[basis].T)
        prices = worth[basis] @ inverse
        profit = worth - columns @ prices
        better = np.flatnonzero(profit > 1e-9 * (1.0 + np.abs(worth)))
        amounts = inverse @ has
        if not len(better):
            return float(worth[basis] @ amounts), np.maximum(prices, 0.0)
        enters = int(better[0] if (amounts <= 1e-12).any() else better[np.argmax(profit[better])])
        direction = inverse @ columns[enters]
        ratios = np.where(direction > 1e-12, amounts / np.where(direction > 1e-12, direction, 1.0), np.inf)
        least = ratios.min()
        leaves = min(np.flatnonzero(ratios <= least + 1e-12).tolist(), key=lambda row: basis[row])
        basis[leaves] = enters


def soonest_relaxed(shapes: Shapes, counts: Sequence[int], batch: int, high_ps: int) -> int:
    """No set of ``shapes`` gets the batch done before: found to a thousandth, and never above what is so.

    Args:
        high_ps: When one does.
    """
    low_ps = 0
    while high_ps - low_ps > max(1, high_ps >> 10):
        middle = (low_ps + high_ps) // 2
        if relaxed(shapes, counts, middle)[0] < batch - 1e-6:
            low_ps = middle
        else:
            high_ps = middle
    return low_ps


def bound_ps(lists: Lists, counts: Sequence[int], batch: int, caps: Sequence[int | None], high_ps: int) -> int:
    """No plan of pipelines of ``lists`` is faster, whatever layers they have; to a thousandth, and never above.

    Sets of several pipelines are sorted by what summing the gradients of a stage takes at least: of those between two
    caps the sum takes more than the lower one, and their stages keep to the upper one.

    Args:
        caps: Falling, None first.
        high_ps: What a plan takes.
    """
    whole = _optimistic(lists, None)
    turns = np.maximum(batch // np.maximum(whole.micro_batch, 1), 1)
    alone = whole.fill_ps + (turns - 1) * whole.straggler_ps
    least_ps = min(high_ps, int(alone.min(initial=high_ps)))
    for cap_ps, below_ps in zip(caps, (*caps[1:], 0), strict=True):
        shapes = _optimistic(lists, cap_ps)
        if not len(shapes.number):
            break
        if (below_ps or 0) < least_ps:
            early_ps = soonest_relaxed(shapes, counts, batch, high_ps)
            least_ps = min(least_ps, early_ps + (below_ps or 0))
    return least_ps


def _optimistic(lists: Lists, cap_ps: int | None) -> Shapes:
    """The least straggler and the least fill of each list, though no one cut of the layers may have both."""
    tight, loose = shaped(lists, cap_ps), shaped(lists, cap_ps, slack=float(1 << 20))
    return replace(tight, fill_ps=loose.fill_ps)
