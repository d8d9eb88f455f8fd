"""Shares of a batch and matchings of devices, found by trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

from xsim.plan.search.batches import Running

__all__ = ["can_stand_in", "dealt_greedily", "earliest_end_ps", "last_end_ps"]


def last_end_ps(pipelines: Sequence[Running], turns: Sequence[int]) -> int:
    """When the last of them ends; one without a micro-batch has no part in it."""
    return max(each.fill_ps + (n - 1) * each.straggler_ps for each, n in zip(pipelines, turns, strict=True) if n)


def earliest_end_ps(pipelines: Sequence[Running], batch: int) -> int:
    """The least last end over all shares of at least ``batch``."""
    most = [-(-batch // each.micro_batch) for each in pipelines]
    return min(
        last_end_ps(pipelines, turns)
        for turns in product(*(range(n + 1) for n in most))
        if sum(each.micro_batch * n for each, n in zip(pipelines, turns, strict=True)) >= batch
    )


def can_stand_in(larger: Sequence[tuple[int, float]], smaller: Sequence[tuple[int, float]]) -> bool:
    """Whether each device of ``smaller`` has one of its own in ``larger`` that has no less of anything."""
    return any(
        all(a <= c and b <= d for (a, b), (c, d) in zip(smaller, chosen, strict=True))
        for chosen in permutations(larger, len(smaller))
    )


def dealt_greedily(pipelines: Sequence[Running], batch: int) -> tuple[int, ...]:
    """One micro-batch after the other, to where it delays the last end least, of equals to the one that ends first."""
    turns, ends = [0] * len(pipelines), [each.fill_ps for each in pipelines]
    samples = last = 0
    while samples < batch:
        best = min(range(len(pipelines)), key=lambda i: (max(last, ends[i]), ends[i], i))
        last = max(last, ends[best])
        turns[best] += 1
        samples += pipelines[best].micro_batch
        ends[best] += pipelines[best].straggler_ps
    return tuple(turns)
