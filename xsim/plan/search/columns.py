"""What a stage takes, by how many transformer layers it holds: the cheapest way that fits its memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xsim.plan.search.contracts import NEVER_PS, Again, Ints, Seat, Tables

__all__ = ["Column", "Columns"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A copy of a stage at one place of a pipeline, for 0..L transformer layers.

    Attributes:
        time_ps: One micro-batch there and back, L + 1; ``NEVER_PS`` where it does not fit.
        again: What is computed again, of each.
        lacking: Bytes that it lacks with the least that it may hold, recomputing nothing; 0 if that fits.
    """

    time_ps: Ints
    again: tuple[Again, ...]
    lacking: int


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """All that have been asked for, as rows of one matrix.

    Attributes:
        recompute: Whether what does not fit may compute operators again.
    """

    tables: Tables
    recompute: bool = True
    rows: list[Column] = field(default_factory=list)
    _numbers: dict[tuple[str, int, int, tuple[bool, bool], int], int] = field(default_factory=dict)
    _known: dict[int, tuple[Ints, Ints, Ints]] = field(default_factory=dict)
    _ladders: dict[tuple[str, int, int], tuple[tuple[frozenset[str], int, int], ...]] = field(default_factory=dict)

    def number(self, seat: Seat, ends: tuple[bool, bool], in_flight: int) -> int:
        """The row of a seat that holds embedding or head, or not, and so many micro-batches at most."""
        key = (seat.kind, seat.tp, seat.samples, ends, in_flight)
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(self._column(*key))
        return self._numbers[key]

    def most_layers(self) -> Ints:
        """How many layers each row has memory for; a stage with both ends has all of them or none."""
        fit = self.matrix() < NEVER_PS
        for number, (*_, ends, _) in enumerate(self._numbers):
            fit[number, 0] = False
            fit[number, :-1] &= not all(ends)
        return np.asarray((np.arange(fit.shape[1]) * fit).max(axis=1), dtype=np.int64)

    def matrix(self) -> Ints:
        """``time_ps`` of all rows."""
        return np.array([row.time_ps for row in self.rows], dtype=np.int64).reshape(len(self.rows), -1)

    def floors(self) -> Ints:
        """What each row's gradients take at least to be summed, as ``Tables.sync_floor_ps``."""
        return self._after()[0]

    def updates(self) -> Ints:
        """What the optimizer takes on each row, as ``time_ps``; 0 where a stage cannot be."""
        return self._after()[1]

    def beyond(self) -> Ints:
        """What each row's plan takes at least after its pipelines have ended, if there are several."""
        return self._after()[2]

    def _after(self) -> tuple[Ints, Ints, Ints]:
        """Floors, updates and their sums, of the rows that there are by now."""
        if len(self.rows) not in self._known:
            updates = [self._update(kind, tp, own, ends) for kind, tp, own, ends, _ in self._numbers]
            floors = self._floors()
            found = np.array(updates, dtype=np.int64).reshape(floors.shape)
            self._known[len(self.rows)] = (floors, found, floors + found)
        return self._known[len(self.rows)]

    def _floors(self) -> Ints:
        places = [(kind, tp, ends) for kind, tp, _, ends, _ in self._numbers]
        known = {at: self.tables.sync_floor_ps(*at) for at in sorted(set(places))}
        each = [known[at] for at in places]
        return np.array(each, dtype=np.int64).reshape(len(each), -1)

    def _update(self, kind: str, tp: int, samples: int, ends: tuple[bool, bool]) -> list[int]:
        layers = self.tables.layers
        if all(ends):
            return [0] * layers + [self.tables.update_ps(kind, tp, range(layers + 2), samples)]
        starts = (layers + 1 - n if ends[1] else 1 - ends[0] for n in range(1, layers + 1))
        spans = (range(start, start + n + sum(ends)) for n, start in enumerate(starts, 1))
        return [0, *(self.tables.update_ps(kind, tp, span, samples) for span in spans)]

    def _column(self, kind: str, tp: int, samples: int, ends: tuple[bool, bool], in_flight: int) -> Column:
        own = self.tables
        time_ps = _passes(own, kind, tp, samples, ends)
        need = own.memory_column(kind, tp, samples, ends, in_flight)
        over = need - own.capacity_bytes(kind)
        again: list[Again] = [()] * (own.layers + 1)
        for layers in np.flatnonzero(over > 0).tolist():
            if all(ends) and layers < own.layers:
                continue  # a stage with both ends has all layers
            found = self._saving((kind, tp, samples), ends, in_flight, layers) if layers and self.recompute else None
            if found is None:
                time_ps[layers:] = NEVER_PS
                break
            extra_ps, again[layers] = found
            time_ps[layers] += extra_ps
        return Column(time_ps, tuple(again), max(0, int(over[own.layers if all(ends) else 1])))

    def _saving(
        self, at: tuple[str, int, int], ends: tuple[bool, bool], in_flight: int, layers: int
    ) -> tuple[int, Again] | None:
        """(time, what is computed again) of the first rung of the ladder that is enough, in as few layers as are."""
        own = self.tables
        start = own.layers + 1 - layers if ends[1] else 1
        held = range(start - ends[0], start + layers + ends[1])
        capacity = own.capacity_bytes(at[0])
        below_ps, before = 0, frozenset[str]()
        for names, rung_ps, _ in self._ladder(at):
            new = sorted(names - before)
            whole = tuple((name, layers) for name in sorted(before))

            def fits(count: int, new: list[str] = new, whole: Again = whole) -> bool:
                recompute = (*whole, *((name, count) for name in new))
                return own.memory_bytes(*at, held, in_flight, recompute) <= capacity

            if fits(layers):
                low, high = 1, layers
                while low < high:
                    middle = (low + high) // 2
                    low, high = (low, middle) if fits(middle) else (middle + 1, high)
                if "full" in names and low == layers:
                    whole, new = (), ["full"]  # it includes the others
                if fits(low):
                    return layers * below_ps + low * (rung_ps - below_ps), (*whole, *((name, low) for name in new))
            below_ps, before = rung_ps, names
        return None

    def _ladder(self, at: tuple[str, int, int]) -> tuple[tuple[frozenset[str], int, int], ...]:
        """Sets of operators, each with all of the one before: (names, time per layer, bytes saved per layer).

        One operator after the other from those that save most for their time (as ETH's planner takes them), then whole
        layers. A rung that saves no more than the one below is left out.
        """
        if at not in self._ladders:
            own = self.tables.operator_ps(*at).get("transformer", {})
            order = sorted(own, key=lambda name: (own[name][0] / own[name][1], name))
            sets = [frozenset(order[: end + 1]) for end in range(len(order))]
            plain = int(self.tables.backward_ps(*at)[1]) if order else 0
            rungs: list[tuple[frozenset[str], int, int]] = []
            for names in (*sets, *([frozenset((*order, "full"))] if order else [])):
                saved = self.tables.saved_bytes(*at, names)
                if saved > (rungs[-1][2] if rungs else 0):
                    rungs.append((names, int(self.tables.backward_ps(*at, names)[1]) - plain, saved))
            self._ladders[at] = tuple(rungs)
        return self._ladders[at]


def _passes(own: Tables, kind: str, tp: int, samples: int, ends: tuple[bool, bool]) -> Ints:
    """One micro-batch there and back through 0..L transformer layers: the first ones, the last ones, or between."""
    each = own.forward_ps(kind, tp, samples) + own.backward_ps(kind, tp, samples)
    inner = each[1:-1]
    first, last = ends
    if last and not first:
        inner = inner[::-1]
    elif not first:
        inner = np.full_like(inner, inner[len(inner) // 2])
    found = np.concatenate(([0], np.cumsum(inner)))
    return np.asarray(found + first * each[0] + last * each[-1], dtype=np.int64)
