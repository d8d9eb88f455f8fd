"""Groupings with a large sum of their pipelines' throughputs, without listing all groupings.

ETH (https://arxiv.org/abs/2610.22035, section 5.4) cuts devices in a row into pipelines, for several rows. Where any
devices may make a pipeline together, a knapsack over compositions finds the largest sum there is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from xsim.plan.search.eth_formulas import best_split
from xsim.plan.search.groupings import Composition, Grouping, compositions

__all__ = ["device_rows", "largest_sums", "row_cuts"]

Rate = Callable[[Composition], float]


def device_rows(counts: Composition, speeds: Sequence[float], drawn: int) -> Iterator[tuple[int, ...]]:
    """Types of devices in a row: the fastest first, the slowest first, alternating, and in so many drawn orders."""
    fastest = sorted(range(len(counts)), key=lambda kind: -speeds[kind])
    by_type = tuple(kind for kind in fastest for _ in range(counts[kind]))
    yield by_type
    yield by_type[::-1]
    places = [((i + 0.5) / counts[kind], kind) for kind in fastest for i in range(counts[kind])]
    yield tuple(kind for _, kind in sorted(places))
    draw = random.Random(0)
    for _ in range(drawn):
        yield tuple(draw.sample(by_type, len(by_type)))


def row_cuts(row: Sequence[int], kinds: int, rate: Rate) -> Iterator[Grouping]:
    """For each number of pipelines that can train the grouping that cuts ``row`` best (Equation 10)."""

    def held(i: int, j: int) -> Composition:
        return tuple(row[i:j].count(kind) for kind in range(kinds))

    for total, ends in best_split(len(row), len(row), lambda i, j: rate(held(i, j))):
        if total > 0:
            yield tuple(sorted((held(i, j) for i, j in zip((0, *ends[:-1]), ends, strict=True)), reverse=True))


def largest_sums(counts: Composition, rate: Rate) -> Iterator[Grouping]:
    """For each number of pipelines that can train a grouping with the largest sum of all.

    Cost: the number of pipelines times the square of the number of compositions.
    """
    every = compositions(counts)
    rates = {part: rate(part) for part in every}
    best: dict[Composition, tuple[float, Grouping]] = {(0,) * len(counts): (0.0, ())}
    for _ in range(sum(counts)):
        longer: dict[Composition, tuple[float, Grouping]] = {}
        for before, (total, grouping) in best.items():
            for part in every:
                cell = tuple(a + b for a, b in zip(before, part, strict=True))
                if not rates[part] or any(a > b for a, b in zip(cell, counts, strict=True)):
                    continue
                summed = (total + rates[part], (*grouping, part))
                longer[cell] = max(longer.get(cell, summed), summed)
        best = longer
        if counts in best:
            yield tuple(sorted(best[counts][1], reverse=True))
