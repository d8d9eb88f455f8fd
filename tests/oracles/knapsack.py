"""The kernels of the planner's search in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

__all__ = ["best_cut", "most_gained"]


def best_cut(
    columns: Sequence[Sequence[int]], sends: Sequence[int], layers: int, slack: float
) -> tuple[int, int] | None:
    """(the least fill of the cuts within ``slack`` of the least straggler, that straggler)."""
    cuts = []
    for inner in combinations(range(1, layers), len(columns) - 1):
        edges = (0, *inner, layers)
        each = [column[b - a] for column, a, b in zip(columns, edges, edges[1:], strict=False)]
        cuts.append((sum(each) + sum(sends), max(own + sent for own, sent in zip(each, sends, strict=True))))
    cuts = [cut for cut in cuts if cut[0] < 1 << 60]
    if not cuts:
        return None
    least = min(straggler for _, straggler in cuts)
    fill = min(fill for fill, straggler in cuts if straggler <= int(least * slack))
    return fill, least


def most_gained(has: Sequence[int], needs: Sequence[Sequence[int]], gains: Sequence[int]) -> int:
    """The best of all multisets."""
    most = [min((h // n for h, n in zip(has, need, strict=True) if n), default=0) for need in needs]
    best = 0
    for counts in product(*(range(count + 1) for count in most)):
        used = [sum(count * need[k] for count, need in zip(counts, needs, strict=True)) for k in range(len(has))]
        if all(own <= own_has for own, own_has in zip(used, has, strict=True)):
            best = max(best, sum(count * gain for count, gain in zip(counts, gains, strict=True)))
    return best
