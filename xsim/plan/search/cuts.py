"""Where to cut a row of layers into stages so that the slowest stage is as fast as can be."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from xsim.plan.search.contracts import NEVER_PS

__all__ = ["Longest", "StageTimes", "alike_times", "least_maximum_cuts", "stage_times"]

StageTimes: TypeAlias = npt.NDArray[np.int64]  # [a, b]: picoseconds of layers a..b-1 as one stage
Longest: TypeAlias = npt.NDArray[np.int64]  # [a]: the largest b for which layers a..b-1 fit the stage; a: none does


def stage_times(layers: npt.NDArray[np.int64], extra: int, longest: Longest) -> StageTimes:
    """Times of all runs of ``layers`` as one stage, ``extra`` for the ends added; ``NEVER_PS`` if it does not fit."""
    summed = np.concatenate(([0], np.cumsum(layers)))
    times = summed[None, :] - summed[:, None] + extra
    ends = np.arange(len(summed))
    fits = (ends[None, :] > ends[:, None]) & (ends[None, :] <= np.append(longest, 0)[:, None])
    return np.where(fits, times, NEVER_PS)


def alike_times(by_count: npt.NDArray[np.int64]) -> StageTimes:
    """Times of all runs of L layers that are alike, as one stage: a view, which takes memory for 2 L numbers.

    Args:
        by_count: Of 0..L layers, ``NEVER_PS`` of those that do not fit; no run has none.
    """
    layers = len(by_count) - 1
    padded = np.concatenate((np.full(layers + 1, NEVER_PS), by_count[1:]))
    return np.lib.stride_tricks.sliding_window_view(padded, layers + 1)[::-1]


def least_maximum_cuts(stages: list[StageTimes]) -> tuple[int, ...] | None:
    """Cuts 0 = c0 < c1 < ... = L between stages: of those with the fastest slowest stage, one with the least sum.

    Args:
        stages: Of each stage, what every run of layers takes on it, ``[L + 1, L + 1]``, ``NEVER_PS`` if it cannot.

    Returns:
        S + 1 cuts of L layers among S stages, each with one layer or more; None if some stage cannot hold its part.

    Cost: O(S L^2), twice: dynamic programming over the layers held so far.
    """
    slowest = stages[0][0]
    for times in stages[1:]:
        slowest = np.minimum.reduce(np.maximum(slowest[:, None], times), axis=0)
    if slowest[-1] >= NEVER_PS:
        return None
    sums = [np.where(stages[0][0] <= slowest[-1], stages[0][0], NEVER_PS)]
    for times in stages[1:]:
        allowed = np.where(times <= slowest[-1], times, NEVER_PS)
        sums.append(np.minimum.reduce(np.minimum(sums[-1][:, None] + allowed, NEVER_PS), axis=0))
    cuts = [len(slowest) - 1]
    for before, times in zip(sums[-2::-1], stages[:0:-1], strict=True):
        own = times[:, cuts[-1]]
        allowed = np.where(own <= slowest[-1], own, NEVER_PS)
        cuts.append(int(np.argmin(np.minimum(before + allowed, NEVER_PS))))
    return (0, *reversed(cuts))
