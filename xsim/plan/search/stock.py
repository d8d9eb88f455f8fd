"""Which pipelines to build from the devices that there are, so that most is done by a deadline: a knapsack.

For pipelines of given shapes this is exact over all groupings of the devices and all local batches at once; devices may
stay idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from xsim.plan.search.contracts import Ints
from xsim.plan.search.kernels import dominance, fill
from xsim.plan.search.shapes import Shapes

__all__ = ["Filled", "Items", "Stock", "undominated"]

MOST_PLACES = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Shapes by what they take, those that take the same side by side.

    Attributes:
        order: Which shape each is, I.
        times: How many of it at once, so that it takes whole units, I.
        needs: Units of each kind, I x K.
        shifts: How far on a stock is that has so much more, I.
        starts: Where those that take the same begin.
    """

    shapes: Shapes
    order: Ints
    times: Ints
    needs: Ints
    shifts: Ints
    starts: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """What can be done by a deadline from every stock of devices.

    Attributes:
        samples: Of each stock, X, less ``toll`` for each pipeline.
        chosen: Of each stock one item that is in its best set, or -1, X.
        shape, times, shifts: Of each item, which shape, how many of it, and how far on the stock is without it.
    """

    samples: Ints
    chosen: Ints
    shape: Ints
    times: Ints
    shifts: Ints
    toll: int = 0

    def built(self, place: int = -1) -> Counter[int]:
        """How many pipelines of which shapes, from the stock at ``place``; absent: from all devices."""
        found: Counter[int] = Counter()
        at = place % len(self.samples)
        while self.chosen[at] >= 0:
            item = self.chosen[at]
            found[int(self.shape[item])] += int(self.times[item])
            at -= int(self.shifts[item])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """Devices of each kind in units, and all smaller stocks.

    Attributes:
        units: Devices of a unit, of each kind, K. A pipeline that takes parts of units counts several times at once.
        places: Units of each kind in each stock, X x K.
        strides: How far on a stock is with one unit more, K.
    """

    units: Ints
    places: Ints
    strides: Ints

    @classmethod
    def of(cls, counts: Sequence[int], most: int = MOST_PLACES) -> Stock:
        """Of so many devices; the units are as small as keeps the number of stocks below ``most``."""
        units = [1] * len(counts)
        while prod(count // unit + 1 for count, unit in zip(counts, units, strict=True)) > most:
            widest = max(range(len(units)), key=lambda k: counts[k] // units[k])
            units[widest] *= 2
        sizes = [count // unit + 1 for count, unit in zip(counts, units, strict=True)]
        strides = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
        places = np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)
        return cls(*(np.array(each, dtype=np.int64) for each in (units, places, strides)))

    def items(self, shapes: Shapes) -> Items:
        """``shapes`` as items of the knapsack."""
        shared = np.gcd(shapes.needs, self.units)
        times = np.lcm.reduce(self.units // shared, axis=1)
        needs = shapes.needs * times[:, None] // self.units
        small = np.flatnonzero((needs <= self.places[-1]).all(axis=1))
        order = small[np.argsort(needs[small] @ self.strides, kind="stable")]
        shifts = needs[order] @ self.strides
        starts = np.flatnonzero(np.concatenate(([True], shifts[1:] != shifts[:-1]))) if len(order) else order
        return Items(shapes, order, times[order], needs[order], shifts, starts)

    def fill(self, items: Items, deadline_ps: int, toll: int = 0) -> Filled:
        """The most samples that pipelines of these items get done by then, less a toll for each."""
        gains = (items.shapes.samples(deadline_ps)[items.order] - toll) * items.times
        best = _firsts_of_most(gains, items.starts)
        best = best[gains[best] > 0]
        best = best[undominated(items.needs[best], gains[best])]
        found = np.zeros(len(self.places), dtype=np.int64)
        chosen = np.full(len(self.places), -1, dtype=np.int64)
        fill(self.places, items.needs[best], gains[best], items.shifts[best], found, chosen)
        return Filled(found, chosen, items.order[best], items.times[best], items.shifts[best], toll)


def _firsts_of_most(gains: Ints, starts: Ints) -> Ints:
    """Of each stretch between ``starts``, where its largest gain is, the first if there are several."""
    if not len(starts):
        return starts
    most = np.maximum.reduceat(gains, starts)
    lengths = np.diff(np.append(starts, len(gains)))
    top = np.flatnonzero(gains == np.repeat(most, lengths))
    stretch = np.searchsorted(starts, top, side="right") - 1
    return np.asarray(top[np.unique(stretch, return_index=True)[1]], dtype=np.int64)


def undominated(needs: Ints, gains: Ints) -> Ints:
    """Items than which no other takes at most as much and gains at least as much; one of equals."""
    order = np.argsort(-gains, kind="stable")
    kept = np.zeros(len(order), dtype=np.int64)
    count = dominance(needs, order, kept)
    return np.sort(kept[:count])
