"""Whole numbers that share something out: in proportion, or so that the slowest is as fast as can be."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["largest_remainder", "least_maximum"]


def largest_remainder(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """``total`` in parts as near to proportion as whole numbers are; of equal remainders the first get the rest.

    >>> largest_remainder(10, (3, 3, 1))
    (4, 4, 2)
    """
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    parts = [int(each) for each in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: parts[i] - exact[i])
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return tuple(parts)


def least_maximum(
    total: int, each: Sequence[int], least: Sequence[int], most: Sequence[int], fixed: Sequence[int] = ()
) -> tuple[int, ...] | None:
    """Counts that sum to ``total`` and make the largest ``fixed[i] + each[i] * count[i]`` as small as can be.

    This is the integer program by which Malleus shares out layers among stages and micro-batches among pipelines
    (https://arxiv.org/abs/2410.13333), solved exactly by bisection of that maximum.

    Args:
        each: What one more costs, 1 or more.
        least, most: Bounds of each count.
        fixed: What is there without any, all 0 if left out; it counts for those alone that have one or more.

    Returns:
        The counts; as many as can be are at their largest first. None if the bounds do not allow the sum.

    Cost: O(n log(maximum)).
    """
    fixed = fixed or (0,) * len(each)
    bounds = list(zip(each, least, most, fixed, strict=True))
    if not sum(least) <= total <= sum(most) or any(low > high for low, high in zip(least, most, strict=True)):
        return None

    def room(limit: int) -> list[int]:
        return [min(high, max(low, (limit - base) // cost)) for cost, low, high, base in bounds]

    low = max((base + cost * few for cost, few, _, base in bounds if few), default=0)
    high = max(low, *(base + cost * many for cost, _, many, base in bounds))
    while low < high:
        middle = (low + high) // 2
        if sum(room(middle)) >= total:
            high = middle
        else:
            low = middle + 1
    counts = room(low)
    excess = sum(counts) - total
    for i in reversed(range(len(counts))):
        given = min(excess, counts[i] - least[i])
        counts[i] -= given
        excess -= given
    return tuple(counts)
