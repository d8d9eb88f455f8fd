"""Who keeps which part of what several groups hold: the shards of optimizer sharding (ZeRO)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from xsim.plan.layout import Layout

__all__ = ["shard_layout"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def shard_layout(layouts: Sequence[Layout], shares: Mapping[int, Fraction] = MappingProxyType({})) -> Layout:
    """A contiguous shard per rank of ``layouts``, each inside what the rank holds, as near to its share as that allows.

    Walks the tensor and gives the next shard to that rank, among those that hold the place, whose own part ends first
    (as one schedules by deadlines). Where groups are cut alike, every shard of theirs is cut evenly among its holders,
    as in Megatron-LM (https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_optimizer.html); 3
    and 2 ranks hold a fifth each. In general the largest is not always the least possible. Someone is always able: who
    holds the last place of a shard is followed by the next rank of its own group, which nobody could use before.

    Cost: D^2 per density that differs, for D cuts.

    Args:
        layouts: Of one tensor, on disjoint ranks, none replicated.
        shares: By rank, above 0; 1 of those that are not there.

    Returns:
        Ranks in the order of their shards; those left with nothing come last.
    """
    return _shard_layout(tuple(layouts), tuple(sorted(shares.items())))


@lru_cache(maxsize=64)  # equal buckets follow one another, and who plans, counts memory and lowers asks each time
def _shard_layout(layouts: tuple[Layout, ...], found: tuple[tuple[int, Fraction], ...]) -> Layout:
    size, shares = layouts[0].size, dict(found)
    held = [(span.start, span.stop, g, rank) for g, layout in enumerate(layouts) for rank, span in layout.shards()]
    coming = deque(sorted(part for part in held if part[0] < part[1]))
    able: list[tuple[int, int, int]] = []  # (where its part ends, group, rank)
    due = _due([(start, stop, Fraction(shares.get(rank, 1))) for start, stop, _, rank in coming])
    goals = dict(zip([rank for *_, rank in coming], due, strict=True))
    left = sum(due)
    ranks, cuts, at, limit = list[int](), [0], 0, 0
    while at < size:
        while coming and coming[0][0] <= at:
            heapq.heappush(able, coming.popleft()[1:])
        while able and able[0][0] <= at:
            left -= goals[heapq.heappop(able)[-1]]
        if able:
            limit, _, rank = heapq.heappop(able)
            ranks.append(rank)
            at = min(limit, at - (at - size) * goals[rank] // left)
            cuts.append(at)
            left -= goals[rank]
        else:  # whoever comes next is not there yet: the last shard goes on
            at = cuts[-1] = min(limit, coming[0][0] if coming else size)
    empty = sorted({rank for *_, rank in held} - set(ranks))
    return Layout((*ranks, *empty), (*cuts, *(size for _ in empty)))


def _due(parts: Sequence[tuple[int, int, Fraction]]) -> list[int]:
    """Of each (start, stop, share) what it should take, in proportion.

    The stretch with most elements per share of those that hold any of it is theirs alone, in proportion to their
    shares; the rest of the tensor is dealt out likewise among the others (as one sets speeds for jobs with deadlines:
    Yao, Demers, Shenker, FOCS 1995).
    """
    scale = lcm(*(share.denominator for *_, share in parts))
    cuts = np.unique([cut for start, stop, _ in parts for cut in (start, stop)])
    first = np.searchsorted(cuts, [start for start, _, _ in parts])
    last = np.searchsorted(cuts, [stop for _, stop, _ in parts])
    shares = [int(share * scale) for *_, share in parts]
    weights = np.array(shares, dtype=np.float64)
    lengths = np.diff(cuts)
    rates = [Fraction(0)] * len(parts)
    free = np.ones(len(parts), dtype=np.bool_)
    while free.any():
        a, b = _densest(lengths, first[free], last[free], weights[free])
        chosen = np.flatnonzero(free & (first < b) & (last > a))
        rate = Fraction(int(lengths[a:b].sum()), sum(shares[index] for index in chosen))
        for index in chosen:
            rates[index] = rate
        free[chosen] = False
        lengths[a:b] = 0
    common = lcm(*(rate.denominator for rate in rates))
    return [int(rate * common) * share for rate, share in zip(rates, shares, strict=True)]


def _densest(lengths: Ints, first: Ints, last: Ints, weights: Floats) -> tuple[int, int]:
    """Between which cuts there is most length per weight of the parts that reach into it; the longest of equals.

    Args:
        lengths: Between neighbouring cuts, what is left to take.
        first, last: Of each part the numbers of its cuts.
    """
    until = np.concatenate(([0], np.cumsum(lengths))).astype(np.float64)
    starting, ending = (np.bincount(at, weights, len(until)) for at in (first, last))
    before = np.cumsum(starting) - starting  # of parts that start before a cut
    holders = before[None, :] - np.cumsum(ending)[:, None]  # less those that end before, or at, another
    length = np.where(holders > 0, until[None, :] - until[:, None], 0)
    density = np.divide(length, holders, out=np.zeros_like(length), where=length > 0)
    near = density >= density.max() * (1 - 1e-12)
    a, b = np.unravel_index(np.argmax(np.where(near, length, 0)), length.shape)
    return int(a), int(b)
