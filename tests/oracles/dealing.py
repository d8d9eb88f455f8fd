"""Shares of a batch and matchings of devices, found by trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

from xsim.plan.search.local_batches import Pace, last_end_ps

__all__ = ["can_stand_in", "earliest_end_ps"]


def earliest_end_ps(paces: Sequence[Pace], batch: int, *, exactly: bool) -> int | None:
    """The least last end over all shares of at least ``batch``, or that sum to it with one micro-batch each."""
    most = [-(-batch // pace.micro_batch) for pace in paces]
    ends = []
    for counts in product(*(range(int(exactly), n + 1) for n in most)):
        samples = sum(pace.micro_batch * n for pace, n in zip(paces, counts, strict=True))
        if samples == batch or (samples > batch and not exactly):
            ends.append(last_end_ps(paces, counts))
    return min(ends, default=None)


def can_stand_in(larger: Sequence[tuple[int, float]], smaller: Sequence[tuple[int, float]]) -> bool:
    """Whether each device of ``smaller`` has one of its own in ``larger`` that has no less of anything."""
    return any(
        all(a <= c and b <= d for (a, b), (c, d) in zip(smaller, chosen, strict=True))
        for chosen in permutations(larger, len(smaller))
    )
