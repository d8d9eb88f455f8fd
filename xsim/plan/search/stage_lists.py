"""Which sequences of stage device groups are tried for a pipeline: all if they are few, else the likelier ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product

from xsim.plan.search.groupings import Composition, Grouping, compositions, stage_sequence_count, stage_sequences

__all__ = ["stage_lists"]


@cache
def stage_lists(counts: Composition, most_stages: int, limit: int) -> tuple[Grouping, ...]:
    """Sequences of compositions that sum to ``counts``, fewest stages first.

    All of them if there are no more than ``limit``; else those whose stages have one type each, if these are no more;
    else those where, besides, all stages of a type follow one another and are equal.
    """
    if stage_sequence_count(counts) <= limit:
        return tuple(s for n in range(1, min(most_stages, sum(counts)) + 1) for s in stage_sequences(counts, n))
    if _pure_count(counts) <= limit:
        return tuple(s for n in range(1, min(most_stages, sum(counts)) + 1) for s in _pure(counts, n))
    found = sorted(_blocks(counts), key=lambda stages: (len(stages), stages))
    return tuple(stages for stages in found if len(stages) <= most_stages)


def _parts(counts: Composition) -> Iterator[Composition]:
    """Some devices of one type, and what may be more of them."""
    for kind, most in enumerate(counts):
        for count in range(1, most + 1):
            yield tuple(count if other == kind else 0 for other in range(len(counts)))


def _pure_count(counts: Composition) -> int:
    ways: dict[Composition, int] = {(0,) * len(counts): 1}
    for cell in compositions(counts):
        ways[cell] = sum(ways[_less(cell, part)] for part in _parts(cell))
    return ways[counts]


def _pure(counts: Composition, stages: int) -> Iterator[Grouping]:
    if stages == 1:
        if sum(count > 0 for count in counts) == 1:
            yield (counts,)
        return
    if sum(counts) < stages or sum(count > 0 for count in counts) > stages:
        return
    for first in _parts(counts):
        for others in _pure(_less(counts, first), stages - 1):
            yield (first, *others)


def _blocks(counts: Composition) -> Iterator[Grouping]:
    kinds = [kind for kind, count in enumerate(counts) if count]
    for order in permutations(kinds):
        divisors = [[n for n in range(1, counts[kind] + 1) if counts[kind] % n == 0] for kind in order]
        for stages in product(*divisors):
            yield tuple(
                tuple(counts[kind] // n if other == kind else 0 for other in range(len(counts)))
                for kind, n in zip(order, stages, strict=True)
                for _ in range(n)
            )


def _less(counts: Composition, part: Composition) -> Composition:
    return tuple(a - b for a, b in zip(counts, part, strict=True))
