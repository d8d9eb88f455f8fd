"""Unequal shares of the batch for pipelines that run side by side.

As in ETH (https://arxiv.org/abs/2610.22035, section 4.2.3):
a pipeline that works through ``n`` micro-batches ends at ``fixed_ps + n * step_ps``, Equation 5 in the number of
micro-batches; without any it does not take part. Equation 2 asks for shares with the earliest last end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Pace", "exact_shares", "fill_exactly", "greedy_shares", "last_end_ps", "least_shares"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How a pipeline's end grows with its share.

    Attributes:
        micro_batch: Samples of one micro-batch.
        step_ps: What each micro-batch adds: its slowest stage.
        fixed_ps: What the end has besides; it may be negative, but no end of a micro-batch is.
    """

    micro_batch: int
    step_ps: int
    fixed_ps: int

    def end_ps(self, micro_batches: int) -> int:
        """When it ends; 0 without a micro-batch."""
        return self.fixed_ps + micro_batches * self.step_ps if micro_batches else 0

    def most(self, deadline_ps: int) -> int:
        """Micro-batches that end by the deadline."""
        return max(0, (deadline_ps - self.fixed_ps) // self.step_ps)


def last_end_ps(paces: Sequence[Pace], micro_batches: Sequence[int]) -> int:
    """Equation 2's objective."""
    return max(pace.end_ps(n) for pace, n in zip(paces, micro_batches, strict=True))


def greedy_shares(paces: Sequence[Pace], batch: int) -> tuple[int, ...]:
    """Micro-batches of each pipeline, at least ``batch`` samples in all (Equation 3), as ETH deals them out.

    The next micro-batch goes where it delays the last end least; of equals to the one that then ends first.
    """
    dealt = [0] * len(paces)
    ends = [pace.end_ps(1) for pace in paces]
    samples = last = 0
    while samples < batch:
        best = min(range(len(paces)), key=lambda i: (max(last, ends[i]), ends[i], i))
        last = max(last, ends[best])
        dealt[best] += 1
        samples += paces[best].micro_batch
        ends[best] += paces[best].step_ps
    return tuple(dealt)


def least_shares(paces: Sequence[Pace], batch: int) -> tuple[int, ...]:
    """Micro-batches of each pipeline, at least ``batch`` samples in all, with the earliest last end there is.

    The deadline is found by bisection: by time ``t`` a pipeline does ``(t - fixed_ps) // step_ps`` micro-batches, so
    what all do grows with ``t``. Cost: O(P log(longest)).
    """

    def by(deadline_ps: int) -> tuple[int, ...]:
        return tuple(pace.most(deadline_ps) for pace in paces)

    def enough(deadline_ps: int) -> bool:
        return sum(pace.micro_batch * n for pace, n in zip(paces, by(deadline_ps), strict=True)) >= batch

    return by(_earliest(paces, batch, enough))


def exact_shares(paces: Sequence[Pace], batch: int) -> tuple[int, ...] | None:
    """Micro-batches of each pipeline, one at least, that sum to ``batch``, with the earliest last end there is.

    None if no such shares do.
    """

    def by(deadline_ps: int) -> tuple[int, ...] | None:
        return fill_exactly([pace.micro_batch for pace in paces], [pace.most(deadline_ps) for pace in paces], batch)

    whole = [batch // pace.micro_batch for pace in paces]
    if fill_exactly([pace.micro_batch for pace in paces], whole, batch) is None:
        return None
    return by(_earliest(paces, batch, lambda deadline_ps: by(deadline_ps) is not None))


def _earliest(paces: Sequence[Pace], batch: int, enough: Callable[[int], bool]) -> int:
    """The earliest deadline that is enough, which the end of all in any one pipeline is."""
    low, high = -1, max(pace.end_ps(-(-batch // pace.micro_batch)) for pace in paces)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def fill_exactly(micro_batch: Sequence[int], most: Sequence[int], batch: int) -> tuple[int, ...] | None:
    """Counts of 1 to ``most`` whose samples sum to ``batch``, as near to ``most`` as may be; None if there are none.

    Bounded subset sums as bits of one number per pipeline: of the counts that are left out, all sums that can be had.
    """
    over = sum(size * n for size, n in zip(micro_batch, most, strict=True)) - batch
    if over < 0 or min(most) < 1:
        return None
    within = (1 << (over + 1)) - 1
    reached = [1]
    for size, n in zip(micro_batch, most, strict=True):
        sums, left, part = reached[-1], n - 1, 1
        while left > 0:
            part = min(part, left)
            sums |= (sums << (size * part)) & within
            left -= part
            part *= 2
        reached.append(sums)
    if not reached[-1] >> over & 1:
        return None
    counts = list(most)
    for i in reversed(range(len(counts))):
        while not reached[i] >> over & 1:
            counts[i] -= 1
            over -= micro_batch[i]
    return tuple(counts)
