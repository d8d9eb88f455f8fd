"""The best plan by its price: which pipelines, of which stages, with which local batches, all at once.

For every cap on what a stage takes at least to sum its gradients and update its weights, each order of stages gets the
layers with the least straggler; a knapsack then finds the soonest deadline by which pipelines built from the devices
get the batch done. What is found is priced with the sum of gradients that it really has. A lower cap makes pipelines
slower and what follows them shorter; so does a toll on each pipeline, which makes them fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xsim.plan.contracts import unheard
from xsim.plan.kinds import Sketch
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import NEVER_PS, Ints, Tables
from xsim.plan.search.dealt_out import sketched
from xsim.plan.search.orders import Space, orders
from xsim.plan.search.price import Priced, price
from xsim.plan.search.relaxed import relaxed
from xsim.plan.search.shapes import Lists, Shapes, listed, shaped
from xsim.plan.search.stock import Filled, Items, Stock

__all__ = ["Candidate", "Hunt"]

# How hard is searched: no quantity of a model. What another value does to the best price is the mean over twelve random
# clusters (``tests.planning.random_scenario`` 0 to 11; ``top=0, others=(), proof=0``).
STEPS, FINE_STEPS = 7, 14  # halvings of a deadline; the fine ones near the best plan; 5, and 10 or 18, change nothing
CAPS = 20  # 7: 1 % more; 14: 0.5 % less, but 4 % more on 2048 devices (``tests/bench``); 28: no change; 40: 0.5 % less
NEAR = 1.03  # over the best price; 1 and 1.1 change nothing
WORTHY = 0.65  # of what the best list of as many stages yields; 0.8: 5 % more; 0.5: 0.2 % less
DEADLINES = 24  # of plans that use less, from half of the best time to that of one pipeline: not varied
EQUAL = 3  # 1: 0.6 % more; 6: 0.2 % less
SMALL = 1_000_000  # stocks times pipelines; where there are more, fewer caps have tolls, which bounds the time
TOLLS, TOLLED = (0.03, 0.1, 0.25), 4  # of the batch; of how many caps one has tolls; none: 0.1 % more; every: no change


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
        budget: Most knapsacks, prices and steps of others, 0: any number. What has been found by then is the result.
        found: All plans that were priced, each once.
        best: The one with the shortest iteration; of equals the first.
        spent: How many.
        truncated: Whether the budget was too small for all that there is.
        proven: Whether no plan of ``space`` is better than ``best``.
        progress: Is told how much of the search is done, and of how much.
        complete: Whether all orders of stages that there are have been looked at.
    """

    tables: Tables
    space: Space
    recompute: bool = True
    budget: int = 0
    found: dict[Sketch, Priced] = field(default_factory=dict)
    best: Candidate | None = None
    spent: int = 0
    truncated: bool = False
    complete: bool = False
    proven: bool = False
    lists: Lists | None = None
    progress: Callable[[int, int], None] = unheard

    def look(self) -> None:
        """Search: afterwards ``found`` has whatever was worth a price."""
        lists = self.listed()
        self.over(lists, self._worthy(Stock.of([kind.count for kind in self.tables.kinds]), lists))

    def over(self, lists: Lists, own: Ints) -> None:
        """Search the pipelines of some of ``lists``."""
        stock = Stock.of([kind.count for kind in self.tables.kinds])
        narrowest = np.array([min(seat.tp for seat in lists.orders[i].seats) for i in own.tolist()], dtype=np.int64)
        degrees = sorted(set(narrowest.tolist()))
        caps = self.caps()
        for number, (tp, cap_ps) in enumerate(product(degrees, caps)):
            self.progress(number, len(degrees) * len(caps))
            if cap_ps is None:
                low_ps, before = 0, np.zeros((0, 0), dtype=np.int64)
            if low_ps < 0 or self.truncated:
                continue
            shapes = shaped(lists, cap_ps, own=own[narrowest >= tp])
            if len(shapes.number) and not np.array_equal(shapes.layers, before):
                before = shapes.layers
                self._equal(shapes)
                small = len(stock.places) * len(shapes.number) < SMALL
                tolls = TOLLS if small or number % TOLLED == 0 else ()
                low_ps = self._soonest(stock, shapes, low_ps, tolls)

    def thrifty(self, rates: Sequence[float]) -> None:
        """Price plans that are slower and use less, down to a single pipeline.

        Args:
            rates: What a device of each kind costs for any time, in one unit.
        """
        lists = self.listed()
        stock = Stock.of([kind.count for kind in self.tables.kinds])
        own = self._worthy(stock, lists)
        asked = stock.places @ (stock.units * np.array(rates))
        for cap_ps in self.caps()[::4]:
            shapes = shaped(lists, cap_ps, own=own)
            if not len(shapes.number) or self.best is None:
                continue
            items = stock.items(shapes)
            asks = shapes.needs @ np.array(rates)
            last_ps = max(self._last(shapes, asks <= asks.min()), self.best.time_ps)
            for deadline_ps in np.geomspace(self.best.time_ps / 2, last_ps, DEADLINES).tolist():
                if self.truncated:
                    return
                filled = self.fill(stock, items, int(deadline_ps))
                enough = np.flatnonzero(filled.samples >= self.tables.batch)
                if len(enough):
                    self.add(shapes, filled.built(int(enough[np.argmin(asked[enough])])))

    def listed(self) -> Lists:
        """The orders of stages that are searched."""
        if self.lists is None:
            every, self.complete = orders(self.tables, self.space)
            self.lists = listed(self.tables, Columns(self.tables, self.recompute), every)
        return self.lists

    def _worthy(self, stock: Stock, lists: Lists) -> Ints:
        """The lists that, by about the best deadline, gain not much less from devices than others of as many stages.

        Longer pipelines fill longer, and have less to sum.
        """
        shapes = shaped(lists)
        if not len(shapes.number):
            return np.zeros(0, dtype=np.int64)
        if self.best is None:
            self._soonest(stock, shapes, 0)
        best = self.best
        if self.complete or best is None:
            return np.arange(len(lists.rows))
        gains = shapes.samples(best.time_ps)
        _, worth = relaxed(shapes, [kind.count for kind in self.tables.kinds], best.time_ps)
        yields = gains / np.maximum(shapes.needs @ worth, 1e-9)
        stages = (shapes.layers > 0).sum(axis=1)
        most = np.zeros(stages.max() + 1)
        np.maximum.at(most, stages, yields)
        return np.asarray(shapes.number[yields >= WORTHY * most[stages]], dtype=np.int64)

    def price(self, sketch: Sketch) -> Priced:
        """Price a plan and keep it."""
        if sketch not in self.found:
            self.spend()
            found = price(sketch, self.tables)
            self.found[sketch] = found
            if self.best is None or found.iteration_ps < self.best.time_ps:
                self.best = Candidate(sketch, found)
        return self.found[sketch]

    def spend(self) -> bool:
        """Count a step; whether there may be more."""
        self.spent += 1
        self.truncated |= 0 < self.budget <= self.spent
        return not self.truncated

    def caps(self) -> Sequence[int | None]:
        """None, then caps from that of all layers on the narrowest stage to that of one on the widest."""
        floors = self.listed().columns.beyond()[:, 1:]
        floors = floors[floors > 0]
        if not floors.size:
            return [None]
        each = np.geomspace(int(floors.min()), int(floors.max()), CAPS)[::-1]  # a lower cap binds more
        return [None, *dict.fromkeys(int(cap) for cap in each[1:])]

    def _soonest(self, stock: Stock, shapes: Shapes, low_ps: int, tolls: Sequence[float] = ()) -> int:
        """Price the set that gets the batch done soonest; when that is about, or -1 if it is later than what is known.

        Args:
            low_ps: No set does it sooner.
            tolls: Of each pipeline, as parts of the batch, that are tried besides.
        """
        items = stock.items(shapes)
        best = self.best
        high_ps = best.time_ps if best else self._last(shapes)
        if self._done(self.fill(stock, items, high_ps, 0)) < self.tables.batch:
            return -1
        least_ps = self._tolled(stock, items, min(low_ps, high_ps), high_ps, 0)
        for toll in tolls:
            if self.best is not None and not self.truncated:
                self._tolled(stock, items, least_ps, self.best.time_ps, int(toll * self.tables.batch))
        return least_ps

    def _tolled(self, stock: Stock, items: Items, low_ps: int, high_ps: int, toll: int) -> int:
        """Halve the deadline's range, and price the set of its upper end; the lower end.

        Args:
            toll: Samples that each pipeline has to do for nothing.
        """
        batch = self.tables.batch
        filled = self.fill(stock, items, high_ps, toll)
        if self._done(filled) < batch:
            return low_ps
        for step in range(FINE_STEPS):
            if step == STEPS:
                found = self.add(items.shapes, filled.built())
                best = self.best
                if found is None or best is None or self.price(found).iteration_ps > NEAR * best.time_ps:
                    return low_ps
            if self.truncated or high_ps - low_ps <= high_ps >> FINE_STEPS:
                break
            middle = (low_ps + high_ps) // 2
            tried = self.fill(stock, items, middle, toll)
            if self._done(tried) >= batch:
                high_ps, filled = middle, tried
            else:
                low_ps = middle
        self.add(items.shapes, filled.built())
        return low_ps

    def _done(self, filled: Filled) -> int:
        """Samples that the best set of all devices has done by its deadline, tolls or not."""
        return int(filled.samples[-1]) + filled.toll * sum(filled.built().values())

    def _equal(self, shapes: Shapes) -> None:
        """Price the most promising plans of equal pipelines: one alone, which has nothing to sum, or as many as can be.

        Halves of that number are tried too, and so on.
        """
        batch = self.tables.batch
        counts = np.array([kind.count for kind in self.tables.kinds], dtype=np.int64)
        most = np.where(shapes.needs > 0, counts // np.maximum(shapes.needs, 1), batch).min(axis=1)
        each: list[tuple[int, int, int]] = []
        tries = [np.ones_like(most), *(most >> power for power in range(int(most.max(initial=1)).bit_length()))]
        for count, beyond_ps in zip(tries, shapes.beyond_ps(np.array(tries)), strict=True):
            turns = -(-batch // (shapes.micro_batch * np.maximum(count, 1)))
            ends = shapes.fill_ps + (turns - 1) * shapes.straggler_ps + beyond_ps
            ends = np.where((count > 0) & (batch % shapes.micro_batch == 0), ends, NEVER_PS)
            best = np.argsort(ends, kind="stable")[:EQUAL].tolist()
            each += [(int(ends[i]), i, int(count[i])) for i in best]
        for end_ps, i, count in sorted(set(each))[: 2 * EQUAL]:
            if self.best is None or end_ps < self.best.time_ps:
                self.add(shapes, Counter({i: count}))

    def _last(self, shapes: Shapes, among: NDArray[np.bool_] | None = None) -> int:
        """When the pipeline that is fastest alone, ``among`` some, would have done the whole batch."""
        turns = -(-self.tables.batch // shapes.micro_batch)
        ends = shapes.fill_ps + turns * shapes.straggler_ps
        return int(ends.min() if among is None else ends[among].min())

    def fill(self, stock: Stock, items: Items, deadline_ps: int, toll: int = 0) -> Filled:
        """One knapsack, as ``Stock.fill``, which counts."""
        self.spend()
        return stock.fill(items, deadline_ps, toll)

    def add(self, shapes: Shapes, built: Counter[int]) -> Sketch | None:
        """Price the plan of these pipelines, with the best local batches; None if their samples cannot sum up."""
        found = sketched(shapes, built, self.tables.batch)
        if found is not None:
            self.price(found)
        return found
