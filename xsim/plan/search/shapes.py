"""Pipelines as a search sees them: how long one fills, its pace, and what it takes of each kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xsim.plan.kinds import Copies, Pipeline, SketchStage
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import NEVER_PS, Ints, Seat, Tables
from xsim.plan.search.kernels import partition
from xsim.plan.search.orders import Order

__all__ = ["Lists", "Shapes", "listed", "shaped"]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Orders of stages in columns, of N orders, at most S stages, and K kinds of devices.

    Attributes:
        rows: Of each stage its row of ``columns``, -1 past the last, N x S.
        sends_ps: What each stage sends for one micro-batch, N x S.
        needs: Devices of each kind, N x K.
        micro_batch: Samples, N.
    """

    orders: Sequence[Order]
    columns: Columns
    rows: Ints
    sends_ps: Ints
    needs: Ints
    micro_batch: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Pipelines with layers, of the N lists that have any that fit.

    Attributes:
        number: Which list, N.
        layers: Transformer layers of each stage, N x S.
        fill_ps, straggler_ps: N.
        needs: N x K.
        micro_batch: N.
    """

    lists: Lists
    number: Ints
    layers: Ints
    fill_ps: Ints
    straggler_ps: Ints
    needs: Ints
    micro_batch: Ints

    def samples(self, deadline_ps: int | Ints) -> Ints:
        """What each pipeline gets done by then, or each by a deadline of its own, N: ``turns_by`` of columns."""
        turns = 1 + (deadline_ps - self.fill_ps) // np.maximum(self.straggler_ps, 1)
        return np.asarray(np.maximum(turns, 0) * self.micro_batch, dtype=np.int64)

    def beyond_ps(self, copies: Ints) -> Ints:
        """What a plan of that many of each takes at least after they have ended: its sums and its update.

        Of k copies each sends 2 (k - 1) / k of its shard, of two once, of one nothing.

        Args:
            copies: N, or several rows of N; so is the result.
        """
        rows, columns = np.maximum(self.lists.rows[self.number], 0), self.lists.columns
        floors, updates = (each[rows, self.layers].max(axis=1) for each in (columns.floors(), columns.updates()))
        return np.asarray(floors * 2 * (copies - 1) // np.maximum(copies, 1) + updates, dtype=np.int64)

    def pipeline(self, index: int, micro_batches: int, count: int = 1) -> Pipeline:
        """One of them as a part of a plan."""
        lists = self.lists
        number = int(self.number[index])
        order = lists.orders[number]
        stages, start = [], 1
        for s, seat in enumerate(order.seats):
            held = int(self.layers[index, s])
            again = lists.columns.rows[lists.rows[number, s]].again[held]
            copies = (Copies(seat.kind, seat.tp, seat.width),)
            cut = lists.columns.tables.sequence_parallel and seat.tp > 1
            stages.append(SketchStage(range(start, start + held), copies, again, cut))
            start += held
        return Pipeline(tuple(stages), order.micro_batch, micro_batches, count)


def listed(tables: Tables, columns: Columns, orders: Sequence[Order]) -> Lists:
    """``orders`` in columns; a stage has memory for as many micro-batches as the batch has, if it comes to that."""
    most = max((len(order.seats) for order in orders), default=1)
    known: dict[Seat, int] = {}
    ids = np.full((len(orders), most), -1, dtype=np.int64)
    for i, order in enumerate(orders):
        ids[i, : len(order.seats)] = [known.setdefault(seat, len(known)) for seat in order.seats]
    seats = list(known)
    micro = np.array([order.micro_batch for order in orders], dtype=np.int64)
    names = [kind.name for kind in tables.kinds]
    takes = np.zeros((len(seats) + 1, len(names)), dtype=np.int64)
    for number, seat in enumerate(seats):
        takes[number, names.index(seat.kind)] = seat.tp * seat.width
    rows = _rows(tables, columns, seats, ids, micro)
    return Lists(orders, columns, rows, _sends(tables, seats, ids), takes[ids].sum(axis=1), micro)


def _rows(tables: Tables, columns: Columns, seats: Sequence[Seat], ids: Ints, micro: Ints) -> Ints:
    """The row of each stage of each order; -1 past the last."""
    rows = np.full(ids.shape, -1, dtype=np.int64)
    stages = (ids >= 0).sum(axis=1)
    for samples, count in sorted(set(zip(micro.tolist(), stages.tolist(), strict=True))):
        own = np.flatnonzero((micro == samples) & (stages == count))
        for s in range(count):
            flying = tables.in_flight(s, count, max(1, tables.batch // samples))
            found, back = np.unique(ids[own, s], return_inverse=True)
            numbers = [columns.number(seats[i], (s == 0, s == count - 1), flying) for i in found.tolist()]
            rows[own, s] = np.array(numbers)[back]
    return rows


def _sends(tables: Tables, seats: Sequence[Seat], ids: Ints) -> Ints:
    """What each stage of each order sends for one micro-batch, as ``price`` has it."""
    sends = np.zeros(ids.shape, dtype=np.int64)
    stages = (ids >= 0).sum(axis=1)
    weights = np.array([tables.send_weights(count) for count in range(ids.shape[1] + 1)], dtype=np.int64)
    for s in range(ids.shape[1] - 1):
        own = np.flatnonzero(stages > s + 1)
        pairs, back = np.unique(ids[own, s : s + 2], axis=0, return_inverse=True)
        near_far = [(seats[a], seats[b]) for a, b in pairs.tolist()]
        onward = np.array([tables.boundary_ps(a, b) for a, b in near_far], dtype=np.int64)[back.ravel()]
        backward = np.array([tables.boundary_ps(b, a) for a, b in near_far], dtype=np.int64)[back.ravel()]
        sends[own, s] += onward * (weights[stages[own], 0] if s == 0 else 1)
        sends[own, s + 1] += backward * np.where(stages[own] == s + 2, weights[stages[own], 1], 1)
    return sends


def shaped(lists: Lists, cap_ps: int | None = None, slack: float = 1.0, own: Ints | None = None) -> Shapes:
    """The least straggler of each list, and of those within ``slack`` of it the least fill.

    Args:
        cap_ps: Most that a stage may take at least to sum its gradients and update its weights.
        own: Which lists; absent: all.
    """
    picked = np.arange(len(lists.rows)) if own is None else own
    time_ps = lists.columns.matrix()
    if cap_ps is not None:
        time_ps = np.where(lists.columns.beyond() > cap_ps, NEVER_PS, time_ps)
    rows, sends = lists.rows[picked], lists.sends_ps[picked]
    fills, stragglers = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    parts = np.zeros(rows.shape, dtype=np.int64)
    partition(rows, sends, time_ps, slack, fills, stragglers, parts)
    fit = np.flatnonzero(fills < NEVER_PS)
    number = picked[fit]
    return Shapes(
        lists, number, parts[fit], fills[fit], stragglers[fit], lists.needs[number], lists.micro_batch[number]
    )
