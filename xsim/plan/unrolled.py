"""A large graph as the judge executes it: its events as columns, performed by a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.kernels import carry
from xsim.plan.replay import row_event
from xsim.plan.symbols import Notes

__all__ = ["Unrolled", "unroll"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Unrolled:
    """The events of ``graph`` in the order of ``replay.events_of``: rows in order, those of a cycle round by round.

    Attributes:
        row, turn: Row and round of each of E events.
        carried: The row whose span it carries.
        ptr, waits: Earlier events that it waits for, in CSR form.
    """

    graph: TransferGraph
    row: Ints
    turn: Ints
    carried: Ints
    ptr: Ints
    waits: Ints

    def perform(self, order: Ints, notes: Notes) -> None:
        """PlanError if an event cannot happen when it is its turn."""
        graph = self.graph
        adds = np.where(graph.cycle_len[self.row] > 0, self.turn < graph.add_rounds[self.row], graph.add[self.row])
        src, dst = notes.rows(graph.src)[self.row], notes.rows(graph.dst)[self.row]
        empty = graph.start >= graph.stop  # whose ends may be no edges
        first, last = notes.pieces(np.where(empty, 0, graph.start)), notes.pieces(np.where(empty, 0, graph.stop))
        columns = (src, dst, first[self.carried], last[self.carried], adds.astype(np.int64))
        done = carry(order, *columns, notes.counts, notes.written, notes.switch, notes.values, notes.given)
        if done < len(order):
            event = int(order[done])
            notes.perform(row_event(graph, int(self.row[event]), int(self.carried[event]), int(self.turn[event]), ()))


def unroll(graph: TransferGraph) -> Unrolled:
    """The events of ``graph``.

    Raises:
        PlanError: A row waits for one that does not come before it.
    """
    own = np.arange(graph.rows)
    length = np.maximum(graph.cycle_len, 1)
    base = np.where(graph.cycle_len > 0, graph.cycle_base, own)
    _check_earlier(graph, base)
    begun = (np.cumsum(graph.rounds) - graph.rounds)[base]  # of each row, the first event of its cycle
    event = np.arange(int(graph.rounds.sum()))
    here = np.repeat(base, graph.rounds)  # all rows of a cycle have as many rounds
    turn, place = np.divmod(event - begun[here], length[here])
    row = here + place
    carried = here + (place - turn) % length[here]

    width = np.where(turn == 0, np.diff(graph.pred_ptr)[row], 2)
    ptr = np.concatenate([[0], np.cumsum(width)])
    waits = np.empty(int(ptr[-1]), dtype=np.int64)
    last = begun + (graph.rounds - 1) * length + own - base
    waits[np.repeat(turn == 0, width)] = last[graph.pred]  # events of round 0 stand in the order of rows
    later = np.flatnonzero(turn > 0)
    back = later - length[row[later]]
    waits[ptr[later]] = back
    waits[ptr[later] + 1] = back - place[later] + (place[later] - 1) % length[row[later]]
    return Unrolled(graph, row, turn, carried, ptr, waits)


def _check_earlier(graph: TransferGraph, base: Ints) -> None:
    before = np.repeat(base, np.diff(graph.pred_ptr))
    for number in np.flatnonzero((graph.pred < 0) | (graph.pred >= before))[:1]:
        wait = graph.pred[number]
        raise PlanError(f"row {before[number]} waits for row {wait}, which does not come before it")
