"""Local batches: how many micro-batches each pipeline of a set works through, so that the last ends soonest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Running", "dealt", "soonest", "turns_by"]


def turns_by(deadline_ps: int, fill_ps: int, straggler_ps: int) -> int:
    """Micro-batches that a pipeline gets done by then: the first when it is full, each other one a straggler later."""
    return max(0, 1 + (deadline_ps - fill_ps) // max(straggler_ps, 1))


@dataclass(frozen=True, slots=True)
class Running:
    """``count`` equal pipelines."""

    fill_ps: int
    straggler_ps: int
    micro_batch: int
    count: int = 1

    def turns(self, deadline_ps: int) -> int:
        """Micro-batches that each of them gets done by then."""
        return turns_by(deadline_ps, self.fill_ps, self.straggler_ps)


def soonest(pipelines: Sequence[Running], batch: int) -> tuple[int, list[Counter[int]]] | None:
    """(when the last ends, of each entry how many pipelines work through how many micro-batches); None: no way.

    Every pipeline gets at least one micro-batch, and their samples sum to ``batch``. Exact: what one deadline allows
    every later one does.
    """
    low = max(each.fill_ps for each in pipelines) - 1
    step = max(each.straggler_ps for each in pipelines)
    high = low + 1
    turns = max(batch // each.micro_batch for each in pipelines)
    latest = max(each.fill_ps + turns * each.straggler_ps for each in pipelines)
    if dealt(pipelines, [each.turns(latest) for each in pipelines], batch) is None:
        return None
    while dealt(pipelines, [each.turns(high) for each in pipelines], batch) is None:
        low, high = high, min(latest, high + max(step, high - low) * 2)
    while high - low > 1:
        middle = (low + high) // 2
        if dealt(pipelines, [each.turns(middle) for each in pipelines], batch) is None:
            low = middle
        else:
            high = middle
    found = dealt(pipelines, [each.turns(high) for each in pipelines], batch)
    assert found is not None
    return high, found


def dealt(pipelines: Sequence[Running], most: Sequence[int], batch: int) -> list[Counter[int]] | None:
    """Micro-batches of each, 1 to ``most`` of its entry, whose samples sum to ``batch``; None if there are none.

    Returns:
        Of each entry, how many pipelines have how many.
    """
    if min(most, default=0) < 1:
        return None
    classes: defaultdict[int, list[int]] = defaultdict(list)
    for number, each in enumerate(pipelines):
        classes[each.micro_batch].append(number)
    sizes = sorted(classes, reverse=True)
    least = {size: sum(pipelines[i].count for i in classes[size]) for size in sizes}
    extra = {size: sum(pipelines[i].count * (most[i] - 1) for i in classes[size]) for size in sizes}
    rest = batch - sum(size * least[size] for size in sizes)
    more = _shared(sizes, extra, rest)
    if more is None:
        return None
    found = [Counter[int]() for _ in pipelines]
    for size in sizes:
        left = more[size]
        for number in classes[size]:
            count = pipelines[number].count
            own = min(left, count * (most[number] - 1))
            left -= own
            turns, over = divmod(own, count)
            found[number][1 + turns] = count - over
            if over:
                found[number][2 + turns] = over
    return found


def _shared(sizes: Sequence[int], most: dict[int, int], total: int) -> dict[int, int] | None:
    """Of each size how many, at most ``most``, so that they sum to ``total``; the larger sizes as many as can be."""
    if total < 0 or sum(size * most[size] for size in sizes) < total:
        return None
    if not sizes:
        return {} if total == 0 else None
    size, *smaller = sizes
    taken = min(most[size], total // size)
    tries = 1 if not smaller else min(taken + 1, 1 + max(smaller))
    for own in range(taken, taken - tries, -1):
        found = _shared(smaller, most, total - own * size)
        if found is not None:
            return {size: own, **found}
    return None
