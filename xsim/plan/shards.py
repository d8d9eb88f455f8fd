"""Who keeps which part of what several groups hold: the shards of optimizer sharding (ZeRO)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from xsim.plan.layout import Layout

__all__ = ["shard_layout"]


def shard_layout(layouts: Sequence[Layout], shares: Mapping[int, Fraction] = MappingProxyType({})) -> Layout:
    """A contiguous shard per rank of ``layouts``, each inside what the rank holds, as near to its share as that allows.

    Walks the tensor and gives the next shard to that rank, among those that hold the place, whose own part ends first
    (as one schedules by deadlines). Where groups are cut alike, every shard of theirs is cut evenly among its holders,
    as in Megatron-LM (https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_optimizer.html); 3
    and 2 ranks hold a fifth each. Someone is always able: who holds the last place of a shard is followed by the next
    rank of its own group, which nobody could use before.

    Args:
        layouts: Of one tensor, on disjoint ranks, none replicated.
        shares: By rank, above 0; 1 of those that are not there.

    Returns:
        Ranks in the order of their shards; those left with nothing come last.
    """
    size = layouts[0].size
    held = [(span.start, span.stop, g, rank) for g, layout in enumerate(layouts) for rank, span in layout.shards()]
    coming = deque(sorted(part for part in held if part[0] < part[1]))
    able: list[tuple[int, int, int]] = []  # (where its part ends, group, rank)
    left = sum(shares.get(rank, 1) for *_, rank in coming)
    ranks, cuts, at, limit = list[int](), [0], 0, 0
    while at < size:
        while coming and coming[0][0] <= at:
            heapq.heappush(able, coming.popleft()[1:])
        while able and able[0][0] <= at:
            left -= shares.get(heapq.heappop(able)[-1], 1)
        if able:
            limit, _, rank = heapq.heappop(able)
            share = shares.get(rank, 1)
            ranks.append(rank)
            at = min(limit, at - (at - size) * share // left)
            cuts.append(at)
            left -= share
        else:  # whoever comes next is not there yet: the last shard goes on
            at = cuts[-1] = min(limit, coming[0][0] if coming else size)
    empty = sorted({rank for *_, rank in held} - set(ranks))
    return Layout((*ranks, *empty), (*cuts, *(size for _ in empty)))
