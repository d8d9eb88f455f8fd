"""The best plan of a small cluster, proven: every set of pipelines that could still beat the best is priced.

Pipelines of every order of stages and every cut of the layers are listed. A set is given up when even the knapsack
could not get the batch done with what devices are left, by the deadline that the best plan sets less what summing the
gradients of its stages takes at least.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np

from xsim.plan.search.batches import Running, soonest, turns_by
from xsim.plan.search.contracts import NEVER_PS, Ints
from xsim.plan.search.dealt_out import sketched
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.shapes import Lists, Shapes
from xsim.plan.search.stock import Stock

__all__ = ["Proof", "every_cut", "small_enough"]


def small_enough(hunt: Hunt, most: int) -> bool:
    """Whether all orders are listed, and their cuts of the layers are at most so many."""
    layers, lists = hunt.tables.layers, hunt.listed()
    return hunt.complete and sum(comb(layers - 1, len(order.seats) - 1) for order in lists.orders) <= most


def every_cut(lists: Lists, layers: int) -> Shapes:
    """All pipelines that fit: every order with every cut of the layers."""
    time_ps = lists.columns.matrix()
    most = lists.rows.shape[1]
    cuts = {stages: _cuts(layers, stages, most) for stages in range(1, most + 1)}
    numbers, parts, fills, stragglers = [], [], [], []
    for number, order in enumerate(lists.orders):
        stages = len(order.seats)
        held = cuts[stages]
        each = time_ps[lists.rows[number, :stages], held[:, :stages]]
        own = np.flatnonzero((each < NEVER_PS).all(axis=1))
        sent = lists.sends_ps[number, :stages]
        numbers.append(np.full(len(own), number))
        parts.append(held[own])
        fills.append(each[own].sum(axis=1) + sent.sum())
        stragglers.append((each[own] + sent).max(axis=1))
    listed = np.concatenate(numbers)
    columns = (np.concatenate(parts), np.concatenate(fills), np.concatenate(stragglers))
    return Shapes(lists, listed, *columns, lists.needs[listed], lists.micro_batch[listed])


def _cuts(layers: int, stages: int, most: int) -> Ints:
    """Layers of each stage, a row for each way to cut them, padded with 0."""
    inner = [(0, *cut, layers) for cut in combinations(range(1, layers), stages - 1)]
    found = np.zeros((len(inner), most), dtype=np.int64)
    if inner:
        found[:, :stages] = np.diff(np.array(inner, dtype=np.int64), axis=1)
    return found


PRICE = 20  # a price takes about as long as so many looks


@dataclass(slots=True)
class Proof:
    """One run of the proof; what beats the best is priced by ``hunt``, which keeps it.

    Attributes:
        floors: What the sum of its gradients takes at least, if there is one pipeline beside it.
        updates: What the optimizer takes.
        limit: Most sets that are looked at, a price counting as many; 0: any number.
        looked: How many have been.
    """

    hunt: Hunt
    shapes: Shapes
    floors: Ints
    updates: Ints
    stock: Stock
    limit: int = 0
    looked: int = 0
    most: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, hunt: Hunt, limit: int = 0) -> Proof:
        """For what ``hunt`` has listed."""
        lists = hunt.listed()
        shapes = every_cut(lists, hunt.tables.layers)
        rows = np.maximum(lists.rows[shapes.number], 0)
        floors, updates = (
            np.take_along_axis(of[rows], shapes.layers[:, :, None], axis=2)[:, :, 0].max(axis=1)
            for of in (lists.columns.floors(), lists.columns.updates())
        )
        stock = Stock.of([kind.count for kind in hunt.tables.kinds], most=1 << 62)
        return cls(hunt, shapes, floors, updates, stock, limit)

    def search(self) -> None:
        """Afterwards the best that ``hunt`` knows is the best that there is, unless its budget was too small."""
        self._alone()
        shapes, best_ps = self.shapes, self._best_ps()
        while True:
            items = self.stock.items(shapes)
            self.most = self.stock.fill(items, best_ps).samples
            own = self._hopeful(shapes, best_ps)
            if own.all():
                break
            shapes = self._only(np.flatnonzero(own))
        self._extend({}, 0, np.array([kind.count for kind in self.hunt.tables.kinds], dtype=np.int64))
        self.hunt.proven = not self._over()

    def _best_ps(self) -> int:
        best = self.hunt.best
        return NEVER_PS if best is None else best.time_ps - 1

    def _only(self, own: Ints) -> Shapes:
        shapes = self.shapes
        columns = (shapes.number, shapes.layers, shapes.fill_ps, shapes.straggler_ps, shapes.needs, shapes.micro_batch)
        self.floors, self.updates = self.floors[own], self.updates[own]
        self.shapes = Shapes(shapes.lists, *(column[own] for column in columns))
        return self.shapes

    def _alone(self) -> None:
        """Plans of one pipeline."""
        batch, shapes = self.hunt.tables.batch, self.shapes
        turns = batch // shapes.micro_batch
        ends = shapes.fill_ps + (turns - 1) * shapes.straggler_ps + self.updates
        for i in np.argsort(ends, kind="stable").tolist():
            if ends[i] > self._best_ps() or self.hunt.truncated:
                break
            if batch % shapes.micro_batch[i] == 0:
                self.hunt.add(shapes, Counter({i: 1}))

    def _hopeful(self, shapes: Shapes, best_ps: int) -> Ints:
        """Whether each could be in a set that gets the batch done in time."""
        left = (np.array([kind.count for kind in self.hunt.tables.kinds]) - shapes.needs) @ self.stock.strides
        own = shapes.samples(best_ps - self.floors - self.updates)
        return np.asarray((own > 0) & (own + self.most[left] >= self.hunt.tables.batch))

    def _extend(self, chosen: dict[int, int], start: int, left: Ints) -> None:
        """All sets that have ``chosen`` and others from ``start`` on."""
        batch, shapes = self.hunt.tables.batch, self.shapes
        able = np.flatnonzero((shapes.needs[start:] <= left).all(axis=1)) + start
        copies = 1 + sum(chosen.values())
        for i in able.tolist():
            self.looked += 1
            if self._over():
                return
            own = {**chosen, i: chosen.get(i, 0) + 1}
            beyond_ps = max(int(self.updates[j]) for j in own)
            if copies > 1:  # of k copies each sends 2 (k - 1) / k of its shard, of two once
                beyond_ps += max(int(self.floors[j]) for j in own) * 2 * (copies - 1) // copies
            limit_ps = self._best_ps() - beyond_ps
            done = [self._samples(j, limit_ps) for j in own]
            if min(done) < 1:
                continue
            samples = sum(each * count for each, count in zip(done, own.values(), strict=True))
            rest = left - shapes.needs[i]
            if samples + self.most[int(rest @ self.stock.strides)] < batch:
                continue
            if samples >= batch and copies > 1:
                self._price(own, beyond_ps)
            self._extend(own, i, rest)

    def _over(self) -> bool:
        return self.hunt.truncated or 0 < self.limit <= self.looked

    def _samples(self, index: int, deadline_ps: int) -> int:
        shapes = self.shapes
        turns = turns_by(deadline_ps, int(shapes.fill_ps[index]), int(shapes.straggler_ps[index]))
        return turns * int(shapes.micro_batch[index])

    def _price(self, own: dict[int, int], beyond_ps: int) -> None:
        """Of a set that may be better than the best."""
        shapes = self.shapes
        running = [
            Running(int(shapes.fill_ps[i]), int(shapes.straggler_ps[i]), int(shapes.micro_batch[i]), count)
            for i, count in own.items()
        ]
        found = soonest(running, self.hunt.tables.batch)
        if found is not None and found[0] + beyond_ps <= self._best_ps():
            sketch = sketched(shapes, Counter(own), self.hunt.tables.batch)
            if sketch is not None:
                self.looked += PRICE
                self.hunt.price(sketch)
