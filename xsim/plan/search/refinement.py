"""Plans that are better action by action than by their price: more of them, and what is near the best.

A price lets each micro-batch wait for what its slowest stage sends; action by action sending hides behind other work,
as long as enough micro-batches are in flight. So many plans that a price puts behind are looked at that way, and then
those near the best: orders of stages that differ in a stage or two, and layers that move from stage to stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import lcm

import numpy as np

from xsim.plan.contracts import unheard
from xsim.plan.kinds import Pipeline, Sketch, SketchStage
from xsim.plan.search.contracts import NEVER_PS, Ints
from xsim.plan.search.course import course_ps
from xsim.plan.search.dealt_out import sketched
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.orders import Order, neighbours
from xsim.plan.search.price import seats
from xsim.plan.search.shapes import Lists, Shapes, listed, shaped
from xsim.plan.search.stock import Stock
from xsim.plan.workload import Action

__all__ = ["Refinement"]

# How hard is searched: no quantity of a model. What another value does to the simulated time of the plan that is found
# is the mean over eight random clusters (``tests.planning.random_scenario`` 0 to 7; ``others=(), proof=0``).
ROUNDS = 6  # 2: 0.2 % more; 12 change nothing
BEST = 6  # plans whose like are looked at; 2: 0.6 % more; 12: 0.4 % less, for a quarter more of the search's time
MOST = 2000  # orders of a round; 300: 0.5 % more
CAPPED, HALVINGS = 3, 10  # of how many caps one is tried: 1 and 9 change nothing; of a deadline: nor do 5 and 16
EQUAL = (
    60  # plans of equal pipelines that are run, for each way to cut the layers; 15: 0.2 % less by luck; 180: no change
)


@dataclass(slots=True)
class Refinement:
    """What a search has found, run action by action.

    Attributes:
        hunt: The search; it prices what is found here.
        order: Of actions, as ``course_ps`` has it.
        progress: Is told how much of the search is done at least, and of how much.
        times: Of each plan that was run.
    """

    hunt: Hunt
    order: Callable[[int, int, int, int], tuple[Action, ...]]
    progress: Callable[[int, int], None] = unheard
    times: dict[Sketch, int] = field(default_factory=dict)

    def search(self) -> None:
        """Look at what is near the best plans, until all that is has been looked at, or often enough."""
        lists = self.hunt.listed()
        known, done = set(lists.orders), set[Order]()
        self._look(lists)
        for number in range(ROUNDS):
            self.progress(number, ROUNDS)
            near = dict.fromkeys(order for sketch in self.best(BEST) for order in _orders(sketch))
            own = [order for order in near if order not in done]
            if not own or self.hunt.truncated:
                return
            done.update(own)
            each = dict.fromkeys(neighbours(own, self.hunt.tables, self.hunt.space))
            new = [order for order in each if order not in known][:MOST]
            known.update(new)
            wider = listed(self.hunt.tables, lists.columns, [*near, *new])
            self.hunt.over(wider, np.arange(len(wider.rows)))
            self._look(wider)

    def _look(self, lists: Lists) -> None:
        self._equal(lists)
        self._mixed(lists)
        for sketch in self.best(BEST):
            self._climb(sketch, lists)

    def best(self, count: int) -> list[Sketch]:
        """The first by what they take action by action, of all that were run and the first by price."""
        found = self.hunt.found
        for sketch in sorted(found, key=lambda sketch: (found[sketch].iteration_ps, repr(sketch)))[:EQUAL]:
            self.time_ps(sketch)  # which has its price: no budget is asked for
        return sorted(self.times, key=lambda sketch: (self.times[sketch], repr(sketch)))[:count]

    def time_ps(self, sketch: Sketch) -> int:
        """An iteration action by action."""
        if sketch not in self.times:
            self.hunt.price(sketch)
            self.times[sketch] = course_ps(sketch, self.hunt.tables, self.order)
        return self.times[sketch]

    def _run(self, each: Iterable[Sketch]) -> None:
        for sketch in each:
            if self.hunt.truncated:
                return
            self.time_ps(sketch)

    def _equal(self, lists: Lists) -> None:
        """Run the most promising plans of equal pipelines: layers cut with and without what is sent in mind."""
        for sends_ps in (lists.sends_ps, np.zeros_like(lists.sends_ps)):
            shapes = shaped(replace(lists, sends_ps=sends_ps))
            if len(shapes.number):
                self._run(self._promising(lists, shapes))

    def _promising(self, lists: Lists, shapes: Shapes) -> Iterator[Sketch]:
        batch = self.hunt.tables.batch
        counts = np.array([kind.count for kind in self.hunt.tables.kinds], dtype=np.int64)
        most = np.where(shapes.needs > 0, counts // np.maximum(shapes.needs, 1), batch).min(axis=1)
        fill_ps, pace_ps = self._paces(lists, shapes)
        each: list[tuple[int, int, int]] = []
        tries = [most >> power for power in range(int(most.max(initial=1)).bit_length())]
        tries = [*tries, np.ones_like(most)]
        for count, beyond_ps in zip(tries, shapes.beyond_ps(np.array(tries)), strict=True):
            turns = -(-batch // (shapes.micro_batch * np.maximum(count, 1)))
            ends = fill_ps + (turns - 1) * pace_ps + beyond_ps
            ends = np.where((count > 0) & (batch % shapes.micro_batch == 0), ends, NEVER_PS)
            best = np.argsort(ends, kind="stable")[:EQUAL].tolist()
            each += [(int(ends[i]), i, int(count[i])) for i in best if ends[i] < NEVER_PS]
        for _, i, count in sorted(set(each))[:EQUAL]:
            found = sketched(shapes, Counter({i: count}), batch)
            if found is not None:
                yield found

    def _mixed(self, lists: Lists) -> None:
        """Run the sets of pipelines that get the batch done soonest at their paces, for some of the caps."""
        stock = Stock.of([kind.count for kind in self.hunt.tables.kinds])
        for cap_ps in self.hunt.caps()[::CAPPED]:
            shapes = shaped(lists, cap_ps)
            if not len(shapes.number) or not self.times:
                continue
            sharp = replace(shapes, straggler_ps=self._paces(lists, shapes)[1])
            items, low_ps, high_ps = stock.items(sharp), 0, min(self.times.values())
            for _ in range(HALVINGS):
                middle_ps = (low_ps + high_ps) // 2
                filled = self.hunt.fill(stock, items, middle_ps)
                if self.hunt.truncated:
                    return
                if filled.samples[-1] < self.hunt.tables.batch:
                    low_ps = middle_ps
                    continue
                high_ps = middle_ps
                found = sketched(sharp, filled.built(), self.hunt.tables.batch)
                self._run([found] if found else [])

    def _paces(self, lists: Lists, shapes: Shapes) -> tuple[Ints, Ints]:
        """Fill and pace: the slowest stage, or the mean way from a stage to the end and back over those in flight."""
        rows = lists.rows[shapes.number]
        sends = np.where(rows >= 0, lists.sends_ps[shapes.number], 0)
        passes = np.where(rows >= 0, lists.columns.matrix()[np.maximum(rows, 0), shapes.layers], 0)
        ways = np.cumsum((passes + sends)[:, ::-1], axis=1)[:, ::-1]
        tables, stages = self.hunt.tables, (rows >= 0).sum(axis=1)
        flying = np.ones_like(rows)
        for count in np.unique(stages).tolist():
            flying[stages == count, :count] = [tables.in_flight(s, count, tables.batch) for s in range(count)]
        return ways[:, 0], np.maximum(passes.max(axis=1), (ways // flying).max(axis=1))

    def _climb(self, sketch: Sketch, lists: Lists) -> None:
        """Move layers between stages, and samples between pipelines, as few at a time as can be, while that helps."""
        while not self.hunt.truncated:
            near = list(self._moved(sketch, lists))
            self._run(near)
            best = min(near, key=self.time_ps, default=sketch)
            if self.hunt.truncated or self.time_ps(best) >= self.time_ps(sketch):
                return
            sketch = best

    def _moved(self, sketch: Sketch, lists: Lists) -> Iterator[Sketch]:
        pipelines = sketch.pipelines
        for a, b in permutations(range(len(pipelines)), 2):
            samples = lcm(*(pipelines[p].micro_batch * pipelines[p].count for p in (a, b)))
            less, more = (samples // (pipelines[p].micro_batch * pipelines[p].count) for p in (a, b))
            if pipelines[a].micro_batches > less:
                each = list(pipelines)
                each[a] = replace(each[a], micro_batches=each[a].micro_batches - less)
                each[b] = replace(each[b], micro_batches=each[b].micro_batches + more)
                yield replace(sketch, pipelines=tuple(each))
        for p, pipeline in enumerate(sketch.pipelines):
            for at in range(len(pipeline.stages) - 1):
                for step in (-1, 1):
                    stages = self._shifted(pipeline, at, step, lists)
                    if stages:
                        moved = replace(pipeline, stages=stages)
                        yield replace(sketch, pipelines=(*sketch.pipelines[:p], moved, *sketch.pipelines[p + 1 :]))

    def _shifted(self, pipeline: Pipeline, at: int, step: int, lists: Lists) -> tuple[SketchStage, ...]:
        """The stages if ``at`` ends ``step`` layers later; empty if that cannot be, or does not fit."""
        stages = list(pipeline.stages)
        for s, (start, stop) in ((at, (0, step)), (at + 1, (step, 0))):
            held = range(stages[s].layers.start + start, stages[s].layers.stop + stop)
            if not held or len(stages[s].copies) > 1:
                return ()
            ends = (s == 0, s == len(stages) - 1)
            flying = self.hunt.tables.in_flight(s, len(stages), max(1, self.hunt.tables.batch // pipeline.micro_batch))
            (seat,) = seats(stages[s], pipeline.micro_batch)
            column = lists.columns.rows[lists.columns.number(seat, ends, flying)]
            if column.time_ps[len(held)] >= NEVER_PS:
                return ()
            stages[s] = replace(stages[s], layers=held, recompute=column.again[len(held)])
        return tuple(stages)


def _orders(sketch: Sketch) -> Iterator[Order]:
    """Of its pipelines, those whose stages have copies that are all alike."""
    for pipeline in sketch.pipelines:
        if all(len(stage.copies) == 1 for stage in pipeline.stages):
            each = (own for stage in pipeline.stages for own in seats(stage, pipeline.micro_batch))
            yield Order(pipeline.micro_batch, tuple(each))
