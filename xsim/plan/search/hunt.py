"""The best plan by its price: which pipelines, of which stages, with which local batches, all at once.

For every cap on what summing a stage's gradients takes at least, each order of stages gets the layers with the least
straggler; a knapsack then finds the soonest deadline by which pipelines built from the devices get the batch done. What
is found is priced with the sum of gradients that it really has. A lower cap makes pipelines slower and sums shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xsim.plan.kinds import Pipeline, Sketch
from xsim.plan.search.batches import Running, soonest
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import Tables
from xsim.plan.search.orders import Space, orders
from xsim.plan.search.price import Priced, price
from xsim.plan.search.shapes import Lists, Shapes, listed, shaped
from xsim.plan.search.stock import Filled, Stock

__all__ = ["Candidate", "Hunt", "sketched"]

STEPS = 14  # halvings of a deadline
CAPS = 14


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and what it takes."""

    sketch: Sketch
    priced: Priced

    @property
    def time_ps(self) -> int:
        """An iteration."""
        return self.priced.iteration_ps


@dataclass(slots=True)
class Hunt:
    """One search and what it has found so far.

    Attributes:
        budget: Most knapsacks and prices, 0: any number. What has been found by then is the result.
        found: All plans that were priced, each once.
        spent: How many knapsacks and prices.
        truncated: Whether the budget was too small for all that there is.
    """

    tables: Tables
    space: Space
    recompute: bool = True
    budget: int = 0
    found: dict[Sketch, Priced] = field(default_factory=dict)
    spent: int = 0
    truncated: bool = False
    complete: bool = False
    lists: Lists | None = None

    def look(self) -> None:
        """Search: afterwards ``found`` has whatever was worth a price."""
        columns = Columns(self.tables, self.recompute)
        every, self.complete = orders(self.tables, self.space)
        self.lists = listed(self.tables, columns, every)
        stock = Stock.of([kind.count for kind in self.tables.kinds])
        low_ps = 0
        for cap_ps in self._caps():
            shapes = shaped(self.lists, cap_ps)
            if not len(shapes.number):
                break
            low_ps = self._soonest(stock, shapes, low_ps)
            if low_ps < 0 or self.truncated:
                break

    def best(self) -> Candidate | None:
        """Of the plans that were priced, the one with the shortest iteration; of equals the first."""
        if not self.found:
            return None
        sketch = min(self.found, key=lambda each: self.found[each].iteration_ps)
        return Candidate(sketch, self.found[sketch])

    def price(self, sketch: Sketch) -> Priced:
        """Price a plan and keep it."""
        if sketch not in self.found:
            self._spend()
            self.found[sketch] = price(sketch, self.tables)
        return self.found[sketch]

    def _spend(self) -> None:
        self.spent += 1
        if self.budget and self.spent >= self.budget:
            self.truncated = True

    def _caps(self) -> Sequence[int | None]:
        """None, then caps from that of all layers on the narrowest stage to that of one on the widest."""
        assert self.lists is not None
        floors = self.lists.columns.floors()[:, 1:]
        if not floors.size or floors.max() == 0:
            return [None]
        each = np.geomspace(max(1, int(floors.min())), int(floors.max()), CAPS)[::-1]
        return [None, *dict.fromkeys(int(cap) for cap in each[1:])]

    def _soonest(self, stock: Stock, shapes: Shapes, low_ps: int) -> int:
        """Price the set that gets the batch done soonest; when that is about, or -1 if it is later than what is known.

        Args:
            low_ps: No set does it sooner.
        """
        batch = self.tables.batch
        best = self.best()
        high_ps = best.time_ps if best else self._last(shapes)
        filled = self._fill(stock, shapes, high_ps)
        if filled.samples[-1] < batch:
            return -1
        low_ps = min(low_ps, high_ps)
        for _ in range(STEPS):
            if self.truncated or high_ps - low_ps <= high_ps >> STEPS:
                break
            middle = (low_ps + high_ps) // 2
            tried = self._fill(stock, shapes, middle)
            if tried.samples[-1] >= batch:
                high_ps, filled = middle, tried
            else:
                low_ps = middle
        self.add(shapes, filled.built())
        return low_ps

    def _last(self, shapes: Shapes) -> int:
        """When the pipeline that is fastest alone would have done the whole batch."""
        turns = -(-self.tables.batch // shapes.micro_batch)
        return int((shapes.fill_ps + turns * shapes.straggler_ps).min())

    def _fill(self, stock: Stock, shapes: Shapes, deadline_ps: int) -> Filled:
        self._spend()
        return stock.fill(shapes, deadline_ps)

    def add(self, shapes: Shapes, built: Counter[int]) -> Sketch | None:
        """Price the plan of these pipelines, with the best local batches; None if their samples cannot sum up."""
        found = sketched(shapes, built, self.tables.batch)
        if found is not None:
            self.price(found)
        return found


def sketched(shapes: Shapes, built: Counter[int], batch: int) -> Sketch | None:
    """The plan of so many pipelines of each shape, with the local batches that end soonest.

    If there are so many pipelines that not all get a micro-batch, the slowest are left out.
    """
    chosen = dict(sorted(built.items()))
    while chosen:
        each = [
            Running(int(shapes.fill_ps[i]), int(shapes.straggler_ps[i]), int(shapes.micro_batch[i]), count)
            for i, count in chosen.items()
        ]
        found = soonest(each, batch)
        if found is not None:
            pipelines = (
                shapes.pipeline(i, turns, times)
                for i, own in zip(chosen, found[1], strict=True)
                for turns, times in sorted(own.items(), reverse=True)
            )
            return Sketch(tuple(sorted(pipelines, key=_by_size)))
        slowest = max(chosen, key=lambda i: (int(shapes.fill_ps[i]), i))
        chosen[slowest] -= 1
        if not chosen[slowest]:
            del chosen[slowest]
    return None


def _by_size(pipeline: Pipeline) -> tuple[object, ...]:
    """An order that does not depend on how they were found."""
    return (-pipeline.samples, -pipeline.count, repr(pipeline))
