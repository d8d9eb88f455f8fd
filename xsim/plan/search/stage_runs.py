"""What every run of layers takes as one stage of given devices, and which runs fit them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xsim.plan.search.contracts import NEVER_PS, Ints, Seat, Tables
from xsim.plan.search.cuts import StageTimes, alike_times, least_maximum_cuts
from xsim.plan.search.shortage import Shortage

__all__ = ["StageRuns"]


@dataclass(frozen=True, slots=True, eq=False)
class StageRuns:
    """Times of stages from tables, computed once for equal stages; the slowest copy of a stage sets its time.

    Transformer layers are alike, so that a run of them is known by how many it has.
    """

    tables: Tables
    shortage: Shortage = field(default_factory=Shortage)
    _times: dict[object, StageTimes] = field(default_factory=dict)
    _layer: dict[Seat, int] = field(default_factory=dict)
    _most: dict[object, int] = field(default_factory=dict)

    def layer_ps(self, seats: tuple[Seat, ...]) -> int:
        """One transformer layer forward and backward for one micro-batch."""
        return max(self._layer_ps(seat) for seat in seats)

    def _layer_ps(self, seat: Seat) -> int:
        if seat not in self._layer:
            self._layer[seat] = int(_passes(self.tables, seat)[1:-1].max())
        return self._layer[seat]

    def ends_ps(self, seat: Seat, ends: tuple[bool, bool]) -> int:
        """Embedding and head, where a copy has them, forward and backward."""
        passes = _passes(self.tables, seat)
        return int(passes[0]) * ends[0] + int(passes[-1]) * ends[1]

    def most_layers(self, seat: Seat, ends: tuple[bool, bool], in_flight: int) -> int:
        """How many transformer layers beside its ends a copy has memory for; 0 if not for one."""
        key = (seat.kind, seat.tp, seat.samples, ends, in_flight)
        if key not in self._most:
            needs = self.tables.memory_column(seat.kind, seat.tp, seat.samples, ends, in_flight)
            fitting = int(np.count_nonzero(needs <= self.tables.capacity_bytes(seat.kind)))
            self._most[key] = max(0, fitting - 1)
            if self._most[key] == 0:
                self.shortage.note(seat.kind, int(needs[1]) - self.tables.capacity_bytes(seat.kind))
        return self._most[key]

    def holds(self, seat: Seat, ends: tuple[bool, bool], in_flight: int, layers: int) -> bool:
        """Whether a copy has memory for so many transformer layers; if not, what it lacks is noted."""
        if layers <= self.most_layers(seat, ends, in_flight):
            return True
        need = int(self.tables.memory_column(seat.kind, seat.tp, seat.samples, ends, in_flight)[layers])
        self.shortage.note(seat.kind, need - self.tables.capacity_bytes(seat.kind))
        return False

    def times(self, seats: tuple[Seat, ...], ends: tuple[bool, bool], in_flight: int) -> StageTimes:
        """Of all runs of the L transformer layers, ``[L + 1, L + 1]``, with its ends; ``NEVER_PS`` if memory lacks."""
        key = (tuple((seat.kind, seat.tp, seat.samples) for seat in seats), ends, in_flight)
        if key not in self._times:
            by_count = np.maximum.reduce([self._by_count(seat, ends, in_flight) for seat in seats])
            self._times[key] = alike_times(by_count)
        return self._times[key]

    def _by_count(self, seat: Seat, ends: tuple[bool, bool], in_flight: int) -> Ints:
        counts = np.arange(self.tables.layers + 1, dtype=np.int64)
        fits = counts <= self.most_layers(seat, ends, in_flight)
        return np.where(fits, self.ends_ps(seat, ends) + counts * self._layer_ps(seat), NEVER_PS)

    def cut(self, stages: list[tuple[Seat, ...]], micro_batches: int) -> tuple[tuple[int, ...], list[int]] | None:
        """Cuts of the transformer layers with the fastest slowest stage, and what each stage then takes.

        None if some stage cannot hold its part.
        """
        count = len(stages)
        runs = [
            self.times(seats, (s == 0, s == count - 1), self.tables.in_flight(s, count, micro_batches))
            for s, seats in enumerate(stages)
        ]
        cuts = least_maximum_cuts(runs)
        if cuts is None:
            self.note_layers(stages, micro_batches)
            return None
        return cuts, [int(own[a, b]) for own, a, b in zip(runs, cuts, cuts[1:], strict=False)]

    def room(self, stages: list[tuple[Seat, ...]], micro_batches: int) -> bool:
        """Whether all layers can be cut so that each stage has memory for its part."""
        count, most = len(stages), []
        for s, own in enumerate(stages):
            flying = self.tables.in_flight(s, count, micro_batches)
            most.append(min(self.most_layers(seat, (s == 0, s == count - 1), flying) for seat in own))
        return min(most) > 0 and sum(most) >= self.tables.layers

    def note_layers(self, stages: list[tuple[Seat, ...]], micro_batches: int) -> None:
        """Stages that can hold a layer each hold too few together: note what more of them would need."""
        count = len(stages)
        most, seats = [], []
        for s, own in enumerate(stages):
            flying = self.tables.in_flight(s, count, micro_batches)
            ends = (s == 0, s == count - 1)
            tightest = min(own, key=lambda seat: self.most_layers(seat, ends, flying))
            most.append(self.most_layers(tightest, ends, flying))
            seats.append((tightest, ends, flying))
        missing = self.tables.layers - sum(most)
        if not all(most) or missing <= 0:
            return
        needs = []
        for held, (seat, ends, flying) in zip(most, seats, strict=True):
            column = self.tables.memory_column(seat.kind, seat.tp, seat.samples, ends, flying)
            more = min(held + -(-missing // count), self.tables.layers)
            needs.append((int(column[more]) - self.tables.capacity_bytes(seat.kind), seat.kind))
        lacks, kind = min(needs)
        self.shortage.note(kind, max(lacks, 1))


def _passes(tables: Tables, seat: Seat) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    at = (seat.kind, seat.tp, seat.samples)
    return np.asarray(tables.forward_ps(*at) + tables.backward_ps(*at))
