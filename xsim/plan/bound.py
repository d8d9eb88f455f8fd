"""What no plan can beat: the least time in which a tensor can be moved or summed on given wires.

Two arguments, for devices, hosts and racks (and, for the first, for the ranks of each layout):

- *a cut*: what ranks on one side need, and only the other side has, crosses over at no more than the bandwidth of some
  set of links of which every route across uses one;
- *a count*: so many copies of an element must leave one part of the ranks for another, and all parts together send and
  receive no faster than their links.

On one switch with ports of equal bandwidth B this is ``max(V / a, V / b) / B`` to move V bytes from a to b shards, and
``max(V / t_min, 2 (k - 1) V / sum t) / B`` to sum k copies cut t ways each. Where a scale-up switch joins the ranks, it
may add what they send and multicast the sum: each port then carries no more than its rank's own part, once each way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.plan.crossings import Border, Crossings, Part, Shapes
from xsim.plan.layout import Layout, pieces

__all__ = ["Bounds", "move_bound_ps", "reduce_bound_ps"]

Mask = NDArray[np.bool_]  # one per piece


def move_bound_ps(source: Layout, target: Layout, fabric: Fabric, element_bytes: int = 1) -> int:
    """Picoseconds that every plan takes that hands a tensor over, all ranks starting together.

    Cost: O(R P) bits for R ranks and P pieces between cuts, and a route for each pair of ranks on one host.
    """
    return _bound_ps(_Needs((source,), (target,)), fabric, element_bytes)


def reduce_bound_ps(layouts: Sequence[Layout], fabric: Fabric, element_bytes: int = 1) -> int:
    """Picoseconds that every plan takes that sums gradients among the ranks of ``layouts``, which start together.

    Cost: as ``move_bound_ps``.
    """
    return _bound_ps(_Needs(tuple(layouts), tuple(layouts)), fabric, element_bytes)


class Bounds:
    """The bounds of many tensors on one fabric: those of equal layouts on equal wires are worked out once."""

    def __init__(self, fabric: Fabric, element_bytes: int) -> None:
        self._fabric, self._element_bytes = fabric, element_bytes
        self._shapes = Shapes(fabric)
        self._known: dict[Hashable, int] = {}

    def move_ps(self, source: Layout, target: Layout) -> int:
        """See ``move_bound_ps``."""
        return self._bound_ps((source,), (target,))

    def reduce_ps(self, layouts: Sequence[Layout]) -> int:
        """See ``reduce_bound_ps``."""
        return self._bound_ps(tuple(layouts), tuple(layouts))

    def reduce_scatter_ps(self, layouts: Sequence[Layout], shards: Layout) -> int:
        """The same for sums that only the shards need."""
        return self._bound_ps(tuple(layouts), (shards,))

    def gather_ps(self, shards: Layout, layouts: Sequence[Layout]) -> int:
        """The same for what the shards have and all layouts need."""
        return self._bound_ps((shards,), tuple(layouts))

    def _bound_ps(self, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> int:
        layouts = inputs if inputs == outputs else inputs + outputs
        position = {rank: i for i, rank in enumerate(dict.fromkeys(rank for x in layouts for rank in x.ranks))}
        held = tuple((tuple(position[rank] for rank in x.ranks), x.cuts, x.replicated) for x in layouts)
        key = (len(inputs), held, self._shapes.of([x.ranks for x in layouts]))
        if key not in self._known:
            self._known[key] = _bound_ps(_Needs(inputs, outputs), self._fabric, self._element_bytes)
        return self._known[key]


def _bound_ps(needs: _Needs, fabric: Fabric, element_bytes: int) -> int:
    wires = Crossings(fabric, needs.ranks())
    bound_ps = 0
    for parts in wires.partitions():
        if len(parts) == 1:
            continue
        traffics = [needs.traffic(part) for part in parts]
        borders = [(wires.border(part, "into"), wires.border(part, "out")) for part in parts]
        for traffic, (inwards, outwards) in zip(traffics, borders, strict=True):
            bound_ps = max(bound_ps, _least_ps(traffic.entering * element_bytes, inwards))
            bound_ps = max(bound_ps, _least_ps(traffic.leaving * element_bytes, outwards))
        received = sent = needs.copies(traffics)
        if wires.summed(parts):
            received, sent = (sum(x.entering for x in traffics), sum(x.leaving for x in traffics))
        for size, side in zip((received, sent), zip(*borders, strict=True), strict=True):
            together = Border(fsum(border.bytes_per_s for border in side), min(border.latency_ps for border in side))
            bound_ps = max(bound_ps, _least_ps(size * element_bytes, together))
    for part in dict.fromkeys(frozenset(layout.ranks) for layout in (*needs.inputs, *needs.outputs)):
        if len(part) < len(wires.ranks):
            traffic = needs.traffic(part)
            bound_ps = max(bound_ps, _least_ps(traffic.entering * element_bytes, wires.border(part, "into")))
            bound_ps = max(bound_ps, _least_ps(traffic.leaving * element_bytes, wires.border(part, "out")))
    return bound_ps


def _least_ps(size_bytes: int, border: Border) -> int:
    return int(size_bytes / border.bytes_per_s * 1e12) + border.latency_ps if size_bytes else 0


@dataclass(frozen=True, slots=True)
class _Traffic:
    """What a part of the ranks must get from the others, and they from it.

    Attributes:
        entering, leaving: Elements.
        alone: The pieces of which it has a contribution that nobody else has.
    """

    entering: int
    leaving: int
    alone: Mask


@dataclass(frozen=True, slots=True)
class _Holding:
    """What some ranks of a layout hold of each piece: any copy of it; all that there are."""

    any: Mask
    all: Mask


@dataclass(frozen=True, slots=True)
class _Needs:
    """Every rank of ``outputs`` needs, on its part, what each of ``inputs`` contributes there."""

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    _sizes: NDArray[np.int64] = field(init=False)
    _shards: tuple[dict[int, list[tuple[int, int, int]]], ...] = field(init=False)

    def __post_init__(self) -> None:
        units = pieces(cut for layout in (*self.inputs, *self.outputs) for cut in layout.cuts)
        number = {unit.start: i for i, unit in enumerate(units)} | {self.inputs[0].size: len(units)}
        object.__setattr__(self, "_sizes", np.array([len(unit) for unit in units], dtype=np.int64))
        object.__setattr__(self, "_shards", tuple(_shards(layouts, number) for layouts in (self.inputs, self.outputs)))

    def ranks(self) -> set[int]:
        """All that take part."""
        return set().union(*self._shards)

    def traffic(self, part: Part) -> _Traffic:
        """What goes between ``part`` and the others, at least once."""
        has = list(self._held(part, 0))
        wants = has if self.inputs == self.outputs else list(self._held(part, 1))
        nothing = np.zeros(len(self._sizes), dtype=np.bool_)
        wanted = np.logical_or.reduce([nothing, *(holding.any for holding in wants)])
        alone = np.logical_or.reduce([nothing, *(holding.all for holding in has)])
        complete = nothing
        if len(has) == len(self.inputs):
            complete = np.logical_and.reduce([holding.any for holding in has])
        wanted_elsewhere = ~nothing
        if len(wants) == len(self.outputs):
            wanted_elsewhere = ~np.logical_and.reduce([holding.all for holding in wants])
        return _Traffic(self._elements(wanted & ~complete), self._elements(alone & wanted_elsewhere), alone)

    def copies(self, traffics: Sequence[_Traffic]) -> int:
        """Elements that go from part to part, at least; ``traffics`` are those of all parts.

        A part that lacks a contribution receives once. If m parts have one that nobody else has, m - 1 messages come
        before anybody has all, and each of the others still needs one: as many, and m - 2 more.
        """
        alone = np.sum([traffic.alone for traffic in traffics], axis=0, dtype=np.int64)
        return sum(traffic.entering for traffic in traffics) + int(self._sizes @ np.maximum(alone - 2, 0))

    def _held(self, part: Part, side: int) -> Iterator[_Holding]:
        """What ``part`` holds of each layout of inputs (side 0) or outputs (1) that it has ranks of."""
        found: dict[int, list[tuple[int, int]]] = {}
        for rank in part:
            for number, start, stop in self._shards[side].get(rank, ()):
                found.setdefault(number, []).append((start, stop))
        for number, shards in found.items():
            layout = (self.inputs, self.outputs)[side][number]
            held = np.zeros(len(self._sizes), dtype=np.bool_)
            for start, stop in shards:
                held[start:stop] = True
            only = held if not layout.replicated or len(shards) == len(layout.ranks) else np.zeros_like(held)
            yield _Holding(held, only)

    def _elements(self, mask: Mask) -> int:
        return int(self._sizes[mask].sum())


def _shards(layouts: Sequence[Layout], number: dict[int, int]) -> dict[int, list[tuple[int, int, int]]]:
    """Of each rank, per layout that it belongs to: the layout's number, and the pieces that it holds, from and to."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for index, layout in enumerate(layouts):
        for place, rank in enumerate(layout.ranks):
            held = layout.held(place)
            found.setdefault(rank, []).append((index, number[held.start], number[held.stop]))
    return found
