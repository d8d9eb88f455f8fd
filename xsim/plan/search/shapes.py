"""Pipelines as a search sees them: how long one fills, its pace, and what it takes of each kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xsim.plan.kinds import Copies, Pipeline, SketchStage
from xsim.plan.search.columns import NEVER_PS, Columns
from xsim.plan.search.contracts import Ints, Tables
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

    def samples(self, deadline_ps: int) -> Ints:
        """What each pipeline gets done by then, N."""
        turns = 1 + (deadline_ps - self.fill_ps) // np.maximum(self.straggler_ps, 1)
        return np.asarray(np.where(deadline_ps >= self.fill_ps, turns, 0) * self.micro_batch, dtype=np.int64)

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
            stages.append(SketchStage(range(start, start + held), copies, again))
            start += held
        return Pipeline(tuple(stages), order.micro_batch, micro_batches, count)


def listed(tables: Tables, columns: Columns, orders: Sequence[Order]) -> Lists:
    """``orders`` in columns; a stage has memory for as many micro-batches as the batch has, if it comes to that."""
    most = max((len(order.seats) for order in orders), default=1)
    kinds = [kind.name for kind in tables.kinds]
    rows = np.full((len(orders), most), -1, dtype=np.int64)
    sends = np.zeros((len(orders), most), dtype=np.int64)
    needs = np.zeros((len(orders), len(kinds)), dtype=np.int64)
    for i, order in enumerate(orders):
        stages = len(order.seats)
        turns = max(1, tables.batch // order.micro_batch)
        for s, seat in enumerate(order.seats):
            ends = (s == 0, s == stages - 1)
            rows[i, s] = columns.number(seat, ends, tables.in_flight(s, stages, turns))
            needs[i, kinds.index(seat.kind)] += seat.tp * seat.width
        sends[i, :stages] = tables.hand_overs_ps([(seat,) for seat in order.seats])
    micro = np.array([order.micro_batch for order in orders], dtype=np.int64)
    return Lists(orders, columns, rows, sends, needs, micro)


def shaped(lists: Lists, cap_ps: int | None = None, slack: float = 1.0) -> Shapes:
    """The least straggler of each list, and of those within ``slack`` of it the least fill.

    Args:
        cap_ps: Most that the gradients of a stage may take at least to be summed.
    """
    time_ps = lists.columns.matrix()
    if cap_ps is not None:
        time_ps = np.where(lists.columns.floors() > cap_ps, NEVER_PS, time_ps)
    count, most = lists.rows.shape
    fills, stragglers = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    parts = np.zeros((count, most), dtype=np.int64)
    partition(lists.rows, lists.sends_ps, time_ps, slack, fills, stragglers, parts)
    own = np.flatnonzero(fills < NEVER_PS)
    return Shapes(lists, own, parts[own], fills[own], stragglers[own], lists.needs[own], lists.micro_batch[own])
