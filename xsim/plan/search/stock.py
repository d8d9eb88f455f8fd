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
from xsim.plan.search.kernels import fill
from xsim.plan.search.shapes import Shapes

__all__ = ["Filled", "Stock"]

MOST_PLACES = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """What can be done by a deadline from every stock of devices.

    Attributes:
        samples: Of each stock, X.
        chosen: Of each stock one item that is in its best set, or -1, X.
        shape, times, shifts: Of each item, which shape, how many of it, and how far on the stock is without it.
    """

    samples: Ints
    chosen: Ints
    shape: Ints
    times: Ints
    shifts: Ints

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

    def fill(self, shapes: Shapes, deadline_ps: int) -> Filled:
        """The most samples that pipelines of ``shapes`` get done by then."""
        samples = shapes.samples(deadline_ps)
        keys, times = self._keys(shapes)
        gains = samples * times
        useful = np.flatnonzero((gains > 0) & (keys < len(self.places)))
        order = useful[np.lexsort((-gains[useful], keys[useful]))]
        first = np.concatenate(([True], keys[order][1:] != keys[order][:-1])) if len(order) else np.zeros(0, np.bool_)
        own = order[first]
        own = own[_undominated(self._needs(shapes)[own], gains[own])]
        found = np.zeros(len(self.places), dtype=np.int64)
        chosen = np.full(len(self.places), -1, dtype=np.int64)
        needs = self._needs(shapes)[own]
        shifts = needs @ self.strides
        fill(self.places, needs, gains[own], shifts, found, chosen)
        return Filled(found, chosen, own, times[own], shifts)

    def _needs(self, shapes: Shapes) -> Ints:
        """Units of each kind that each shape takes, as many times as makes them whole."""
        _, times = self._keys(shapes)
        return np.asarray(shapes.needs * times[:, None] // self.units, dtype=np.int64)

    def _keys(self, shapes: Shapes) -> tuple[Ints, Ints]:
        """(which stock each shape is, how many times it then is there); more than there are if it is too large."""
        if (self.units == 1).all():
            times = np.ones(len(shapes.needs), dtype=np.int64)
        else:
            shared = np.gcd(shapes.needs, self.units)
            times = np.lcm.reduce(self.units // shared, axis=1)
        needs = shapes.needs * times[:, None] // self.units
        small = (needs <= self.places[-1]).all(axis=1)
        return np.where(small, needs @ self.strides, len(self.places)), times


def _undominated(needs: Ints, gains: Ints) -> Ints:
    """Items than which no other takes at most as much and gains at least as much; one of equals."""
    kept: list[int] = []
    for j in np.argsort(-gains, kind="stable").tolist():
        if not kept or not (needs[kept] <= needs[j]).all(axis=1).any():
            kept.append(j)
    return np.array(sorted(kept), dtype=np.int64)
