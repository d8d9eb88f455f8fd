"""What one micro-batch takes on a stage of a few devices, recomputing no more than it must to fit.

Transformer layers are alike here, so that a stage is known by how many it has, which ends of the model are among them,
and how many micro-batches it keeps activations of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import lcm

import numpy as np

from xsim.plan.recompute import FULL
from xsim.plan.search.contracts import Again, Seat, Tables
from xsim.plan.search.groupings import Composition
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage

__all__ = ["After", "Ends", "Passes", "StagePasses"]

Ends = tuple[bool, bool]  # whether a stage has the embedding, and the head
MANY = 1000  # micro-batches in flight: so many that what one of them keeps outweighs all else


@dataclass(frozen=True, slots=True)
class After:
    """Of a stage, about.

    Attributes:
        sum_ps: The sum of the gradients of a transformer layer over its own copies.
        update_ps: The optimizer on a transformer layer; ``ends_update_ps`` on the ends of the model.
    """

    sum_ps: int
    update_ps: int
    ends_update_ps: int


class Passes:
    """Picoseconds of one micro-batch there and back, by the number of transformer layers, found when first asked for.

    A negative number says what is missing: the bytes that the stage needs beyond its memory, whatever it recomputes.
    """

    __slots__ = ("find", "known")

    def __init__(self, known: list[int | None], find: Callable[[int], int]) -> None:
        self.known = known
        self.find = find

    def __getitem__(self, layers: int) -> int:
        found = self.known[layers]
        if found is None:
            found = self.known[layers] = self.find(layers)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class StagePasses:
    """Stages of all kinds of one model on one cluster.

    Attributes:
        recompute: Whether a stage that does not fit recomputes.
        names: Of the kinds of devices, in the order of compositions.
    """

    tables: Tables
    names: tuple[str, ...]
    recompute: bool = True
    _known: dict[object, Passes] = field(default_factory=dict)
    _ladders: dict[tuple[str, int, int], tuple[str, ...]] = field(default_factory=dict)
    _after: dict[tuple[tuple[Seat, ...], Ends], After] = field(default_factory=dict)
    _ends_sums: dict[tuple[tuple[Seat, ...], ...], tuple[int, ...]] = field(default_factory=dict)
    _seats: dict[tuple[Composition, int, int], tuple[Seat, ...]] = field(default_factory=dict)

    def degrees(self, devices: Composition) -> tuple[int, ...]:
        """Tensor-parallel degrees that such a stage can have, ascending: all its copies have the same.

        A degree divides the devices of each kind, in the stage and in every host, so that copies find room in hosts.
        """
        hosts = {kind.name: kind.hosts for kind in self.tables.kinds}
        fitting = (
            {tp for tp in self.tables.tps(name) if count % tp == 0 and all(size % tp == 0 for size in hosts[name])}
            for name, count in zip(self.names, devices, strict=True)
            if count
        )
        return tuple(sorted(set.intersection(*fitting)))

    def seats(self, devices: Composition, tp: int, micro_batch: int) -> tuple[Seat, ...]:
        """Equal copies on all devices of a stage; empty if they cannot take equal parts of a micro-batch."""
        key = (devices, tp, micro_batch)
        if key not in self._seats:
            samples, rest = divmod(micro_batch, sum(devices) // tp)
            named = zip(self.names, devices, strict=True)
            found = tuple(Seat(name, tp, samples, count // tp) for name, count in named if count)
            allowed = all(samples in self.tables.micro_batches(seat.kind, tp) for seat in found)
            self._seats[key] = found if allowed and not rest else ()
        return self._seats[key]

    def passes(self, seats: tuple[Seat, ...], ends: Ends, in_flight: int) -> Passes:
        """Of a stage with these copies: the slowest of them sets its time."""
        key = (tuple((seat.kind, seat.tp, seat.samples) for seat in seats), ends, in_flight)
        if key not in self._known:
            each = [self._of_one(seat, ends, in_flight) for seat in seats]
            if len(each) == 1:
                self._known[key] = each[0]
            else:
                unknown: list[int | None] = [None] * (self.tables.layers + 1)
                self._known[key] = Passes(unknown, partial(_slowest, each))
        return self._known[key]

    def layer_ps(self, seats: tuple[Seat, ...]) -> int:
        """A transformer layer, nothing recomputed."""
        return max(self._layer_ps(seat) for seat in seats)

    def ends_ps(self, seats: tuple[Seat, ...], ends: Ends) -> int:
        """The ends of the model."""
        return max(self._ends_ps(seat, ends) for seat in seats)

    def after_ps(self, seats: tuple[Seat, ...], ends: Ends) -> After:
        """What follows the last micro-batch, about."""
        key = (seats, ends)
        if key not in self._after:
            layer, own = zip(*(self._updates_ps(seat, ends) for seat in seats), strict=True)
            self._after[key] = After(self._layer_sum_ps(seats), max(layer), max(own))
        return self._after[key]

    def _layer_sum_ps(self, seats: tuple[Seat, ...]) -> int:
        """Of the gradients of a transformer layer over these copies: its part of the sum of the whole model's."""
        if sum(seat.width for seat in seats) == 1:
            return 0
        at = (seats[0].kind, seats[0].tp)
        every, inner = (int(self.tables.sync_floor_ps(*at, (both, both))[-1]) for both in (True, False))
        return (
            self.tables.sync_ps(_outline((seats,), self.tables.layers)) * inner // max(every, 1) // self.tables.layers
        )

    def ends_sums_ps(self, stages: tuple[tuple[Seat, ...], ...]) -> tuple[int, ...]:
        """Of the first stage and the last, or of the only one, the sum of the ends' gradients, a tied table's too."""
        if stages not in self._ends_sums:
            layers, found = self.tables.layers, [0] * len(stages)
            for places, time_ps in self.tables.sums_ps(_outline(stages, layers)):
                for _, stage in places:
                    found[stage] += time_ps
            spans = zip(stages, _spans(len(stages), layers), found, strict=True)
            each = (own - self.after_ps(seats, (False, False)).sum_ps * len(span) for seats, span, own in spans)
            self._ends_sums[stages] = tuple(max(0, own) for own in each)
        return self._ends_sums[stages]

    def _updates_ps(self, seat: Seat, ends: Ends) -> tuple[int, int]:
        """The optimizer on a layer, and on the ends."""
        head = self.tables.layers + 1
        inner = self.tables.update_ps(seat.kind, seat.tp, range(1, head))
        held = (range(0, 1), range(head, head + 1))
        own = (self.tables.update_ps(seat.kind, seat.tp, span) for span, has in zip(held, ends, strict=True) if has)
        return inner // self.tables.layers, sum(own)

    def most_layers(self, seats: tuple[Seat, ...], ends: Ends) -> int:
        """Transformer layers that fit if no activations are kept; -1 if not even the ends do."""
        return min(self._most_layers(seat, ends) for seat in seats)

    def again(self, seats: tuple[Seat, ...], ends: Ends, in_flight: int, layers: int) -> Again:
        """What a stage of so many transformer layers recomputes to fit; all its copies do the same."""
        steps = [self._rung(seat, ends, in_flight, layers) for seat in seats]
        fullest = max(range(len(seats)), key=lambda i: steps[i])
        return self._entries(seats[fullest], layers, steps[fullest])

    def _of_one(self, seat: Seat, ends: Ends, in_flight: int) -> Passes:
        at = (seat.kind, seat.tp, seat.samples)
        need = self.tables.memory_column(*at, ends, in_flight)
        count = np.arange(self.tables.layers + 1, dtype=np.int64)
        plain = self._ends_ps(seat, ends) + count * self._layer_ps(seat)
        fits = need <= self.tables.capacity_bytes(seat.kind)
        known = [int(time) if fit else None for time, fit in zip(plain, fits, strict=True)]
        return Passes(known, partial(self._squeezed, seat, ends, in_flight))

    def _squeezed(self, seat: Seat, ends: Ends, in_flight: int, layers: int) -> int:
        """Picoseconds with recomputation, or what is missing."""
        at = (seat.kind, seat.tp, seat.samples)
        rung = self._rung(seat, ends, in_flight, layers)
        over = self._over(seat, ends, in_flight, layers, rung)
        if over > 0:
            return -over
        plain = self.tables.backward_ps(*at)[1]
        extra = 0
        for names, count in self._sets(seat, layers, rung):
            extra += count * int(self.tables.backward_ps(*at, names)[1] - plain)
        return self._ends_ps(seat, ends) + layers * self._layer_ps(seat) + extra

    def _rung(self, seat: Seat, ends: Ends, in_flight: int, layers: int) -> int:
        """How far a stage goes in recomputing: operator after operator, each in one layer after the other."""
        last = len(self._ladder(seat)) * layers if self.recompute else 0
        if self._over(seat, ends, in_flight, layers, 0) <= 0:
            return 0
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._over(seat, ends, in_flight, layers, middle) > 0 else (low, middle)
        return high

    def _over(self, seat: Seat, ends: Ends, in_flight: int, layers: int, rung: int) -> int:
        """Bytes needed beyond the memory."""
        head = self.tables.layers + 1
        held = range(0 if ends[0] else head - layers, layers + 1) if not ends[1] else range(head - layers, head + 1)
        if ends == (False, False):
            held = range(1, layers + 1)
        elif all(ends):
            held = range(head + 1)
        again = self._entries(seat, layers, rung)
        need = self.tables.memory_bytes(seat.kind, seat.tp, seat.samples, held, in_flight, again)
        return need - self.tables.capacity_bytes(seat.kind)

    def _entries(self, seat: Seat, layers: int, rung: int) -> Again:
        if rung == 0:
            return ()
        whole, part = divmod(rung, layers)
        ladder = self._ladder(seat)
        entries = [(name, layers) for name in ladder[:whole]]
        return (*entries, (ladder[whole], part)) if part else tuple(entries)

    def _sets(self, seat: Seat, layers: int, rung: int) -> Iterator[tuple[frozenset[str], int]]:
        """(operators, in how many layers exactly these are recomputed)."""
        if rung == 0:
            return
        whole, part = divmod(rung, layers)
        ladder = self._ladder(seat)
        if part:
            yield frozenset(ladder[: whole + 1]), part
        if whole:
            yield frozenset(ladder[:whole]), layers - part

    def _ladder(self, seat: Seat) -> tuple[str, ...]:
        """Operators in the order in which a stage recomputes them: most bytes freed for the time they take first.

        Each is judged with those before it; the last step is to keep the layer's input alone.
        """
        key = (seat.kind, seat.tp, seat.samples)
        if key not in self._ladders:
            names = sorted(self.tables.operator_ps(*key).get("transformer", {}))
            self._ladders[key] = tuple(self._climb(seat, names))
        return self._ladders[key]

    def _climb(self, seat: Seat, names: list[str]) -> Iterator[str]:
        at = (seat.kind, seat.tp, seat.samples)

        def kept(names: frozenset[str]) -> int:
            again = tuple((name, 1) for name in sorted(names))
            return self.tables.memory_bytes(*at, range(1, 2), MANY, again)

        def time(names: frozenset[str]) -> int:
            return int(self.tables.backward_ps(*at, names)[1])

        chosen: frozenset[str] = frozenset()
        left = list(names)
        while left:
            now, before = kept(chosen), time(chosen)
            freed = {name: now - kept(chosen | {name}) for name in left}
            costs = {name: max(1, time(chosen | {name}) - before) for name in left}
            best = max(left, key=lambda name: (freed[name] / costs[name], name))
            if freed[best] <= 0:
                break
            yield best
            chosen |= {best}
            left.remove(best)
        if kept(frozenset((FULL,))) < kept(chosen):
            yield FULL

    def _layer_ps(self, seat: Seat) -> int:
        at = (seat.kind, seat.tp, seat.samples)
        both = self.tables.forward_ps(*at)[1:-1].sum() + self.tables.backward_ps(*at)[1:-1].sum()
        return int(both) // self.tables.layers

    def _ends_ps(self, seat: Seat, ends: Ends) -> int:
        at = (seat.kind, seat.tp, seat.samples)
        both = self.tables.forward_ps(*at) + self.tables.backward_ps(*at)
        return int(both[0]) * ends[0] + int(both[-1]) * ends[1]

    def _most_layers(self, seat: Seat, ends: Ends) -> int:
        need = self.tables.memory_column(seat.kind, seat.tp, seat.samples, ends, 0)
        return int(np.searchsorted(need, self.tables.capacity_bytes(seat.kind), side="right")) - 1


def _slowest(each: list[Passes], layers: int) -> int:
    """Of copies of unlike kinds; what is missing, if something is."""
    times = [passes[layers] for passes in each]
    return min(times) if min(times) < 0 else max(times)


def _spans(stages: int, layers: int) -> tuple[range, ...]:
    """Of transformer layers: all to the only stage, all but one to the first of two."""
    return (range(1, layers + 1),) if stages == 1 else (range(1, layers), range(layers, layers + 1))


def _outline(stages: tuple[tuple[Seat, ...], ...], layers: int) -> Sketch:
    """One pipeline of these stages, one or two."""
    found = (
        SketchStage(span, tuple(Copies(seat.kind, seat.tp, seat.width) for seat in seats))
        for seats, span in zip(stages, _spans(len(stages), layers), strict=True)
    )
    widths = (sum(seat.width for seat in seats) for seats in stages)
    return Sketch((Pipeline(tuple(found), lcm(*widths), 1),))
