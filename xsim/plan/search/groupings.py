"""Ways to deal out unlike devices to pipelines, and those of a pipeline to its stages.

A composition says how many devices (or units of devices) of each type there are, types in a fixed order. Pipelines run
side by side, so a grouping is a multiset of compositions (ETH, https://arxiv.org/abs/2610.22035, section 4.2.1); stages
follow one another, so they are a sequence (section 4.2.2).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np

__all__ = [
    "Composition",
    "Grouping",
    "compositions",
    "drawn_grouping",
    "grouping_count",
    "groupings",
    "stage_sequence_count",
    "stage_sequences",
]

Composition = tuple[int, ...]
Grouping = tuple[Composition, ...]


def compositions(counts: Composition) -> tuple[Composition, ...]:
    """All that hold something and no more than ``counts``, in ascending lexicographic order."""
    return tuple(product(*(range(count + 1) for count in counts)))[1:]


def groupings(counts: Composition, pipelines: int) -> Iterator[Grouping]:
    """Every multiset of ``pipelines`` compositions that sum to ``counts``, once.

    Each is in non-increasing lexicographic order, which makes it the only one of its multiset.
    """
    yield from _groupings(counts, pipelines, counts)


def _groupings(left: Composition, pipelines: int, most: Composition) -> Iterator[Grouping]:
    if sum(left) < pipelines:
        return
    if pipelines == 1:
        if left <= most and any(left):
            yield (left,)
        return
    for first in reversed(compositions(left)):
        if first > most:
            continue
        if first[0] * pipelines < left[0]:  # the largest holds at least its part of the first type
            return
        rest = tuple(a - b for a, b in zip(left, first, strict=True))
        for others in _groupings(rest, pipelines - 1, first):
            yield (first, *others)


def drawn_grouping(counts: Composition, number: int) -> Grouping:
    """The one of this number of groupings that are drawn at random: each unit goes to one of so many pipelines."""
    draw = random.Random(number)
    pipelines = draw.randint(1, sum(counts))
    held = [[0] * len(counts) for _ in range(pipelines)]
    for kind, count in enumerate(counts):
        for _ in range(count):
            held[draw.randrange(pipelines)][kind] += 1
    return tuple(sorted((tuple(own) for own in held if any(own)), reverse=True))


def grouping_count(counts: Composition) -> int:
    """How many groupings there are with any number of pipelines.

    The coefficient of ``x^counts`` in the product of ``1 / (1 - x^c)`` over all compositions ``c``: 12,130,780 of
    (16, 16). Cost: the square of the number of compositions.
    """
    ways = np.zeros(tuple(count + 1 for count in counts), dtype=object)
    ways[(0,) * len(counts)] = 1
    cells = tuple(product(*(range(count + 1) for count in counts)))
    for part in compositions(counts):
        for cell in cells:
            before = tuple(a - b for a, b in zip(cell, part, strict=True))
            if min(before) >= 0:
                ways[cell] += ways[before]
    return int(ways[counts])


def stage_sequences(counts: Composition, stages: int) -> Iterator[Grouping]:
    """Every sequence of ``stages`` compositions that sum to ``counts``, in ascending lexicographic order."""
    if sum(counts) < stages:
        return
    if stages == 1:
        yield (counts,)
        return
    for first in compositions(counts):
        rest = tuple(a - b for a, b in zip(counts, first, strict=True))
        for others in stage_sequences(rest, stages - 1):
            yield (first, *others)


def stage_sequence_count(counts: Composition) -> int:
    """How many sequences there are with any number of stages: 34,013,312 of (8, 8)."""
    ways: dict[Composition, int] = {(0,) * len(counts): 1}
    for cell in compositions(counts):
        parts = (tuple(a - b for a, b in zip(cell, part, strict=True)) for part in compositions(cell))
        ways[cell] = sum(ways[rest] for rest in parts)
    return ways[counts]
