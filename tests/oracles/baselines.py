"""The searches of planners by trying everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt

Cost = tuple[int, int]


def every_cut(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    for inner in combinations(range(1, layers), stages - 1):
        yield (0, *inner, layers)


def best_cuts(times: Sequence[npt.NDArray[np.int64]], never: int) -> Cost | None:
    """(slowest stage, sum) of the best cuts; None if all have a stage that cannot be."""
    found: Cost | None = None
    for cuts in every_cut(len(times[0]) - 1, len(times)):
        each = [int(own[a, b]) for own, a, b in zip(times, cuts, cuts[1:], strict=False)]
        if max(each) < never and (found is None or (max(each), sum(each)) < found):
            found = (max(each), sum(each))
    return found


def best_counts(
    total: int, each: Sequence[int], least: Sequence[int], most: Sequence[int], fixed: Sequence[int]
) -> int | None:
    """The least maximum of ``fixed + each * count`` over those with a count."""
    found: int | None = None
    for counts in product(*(range(low, high + 1) for low, high in zip(least, most, strict=True))):
        if sum(counts) == total:
            slowest = max((b + c * n for b, c, n in zip(fixed, each, counts, strict=True) if n), default=0)
            found = slowest if found is None else min(found, slowest)
    return found


def every_order(sizes: tuple[int, ...]) -> set[tuple[int, ...]]:
    return set(permutations(sizes))


def power_of_two_lists(devices: int, stages: int, least: int) -> set[tuple[int, ...]]:
    powers = [2**i for i in range(devices.bit_length()) if 2**i >= least]
    return {tuple(sorted(sizes)) for sizes in product(powers, repeat=stages) if sum(sizes) == devices}


def lightest_cut(weights: npt.NDArray[np.float64], sizes: Sequence[int]) -> float:
    """Of all ways to deal vertices into parts of these sizes."""
    found = np.inf
    for part in product(range(len(sizes)), repeat=len(weights)):
        if [part.count(number) for number in range(len(sizes))] == list(sizes):
            cut = sum(weights[a, b] for a, b in combinations(range(len(weights)), 2) if part[a] != part[b])
            found = min(found, float(cut))
    return found


def every_deal(counts: tuple[int, ...], parts: int) -> set[tuple[tuple[int, ...], ...]]:
    """Of sizes within one of the even share."""
    size = sum(counts) // parts
    own = [each for each in product(*(range(c + 1) for c in counts)) if max(1, size - 1) <= sum(each) <= size + 1]
    dealt = (each for each in product(own, repeat=parts) if tuple(map(sum, zip(*each, strict=True))) == counts)
    return {tuple(sorted(each, reverse=True)) for each in dealt}
