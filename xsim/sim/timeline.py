"""What happened when: the executor writes it, metrics and traces read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.plan.workload import Action, Body, Workload

__all__ = ["Exchange", "Log", "Timeline"]

Ints = NDArray[np.int64]


class Exchange(NamedTuple):
    """A hand-over of two sides that have waited for each other.

    Attributes:
        move: Its number in the workload.
        micro_batch: Which one's.
        last: The program that came last.
        start_ps, end_ps: When that one came, and when all had arrived.
    """

    move: int
    micro_batch: int
    last: int
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One iteration, from 0 to ``makespan_ps``. Columns of A actions are sorted by program, then by start.

    Inside an action the steps of its body follow one another without gaps: a ``Compute`` lasts as long as its slowest
    rank, a ``Collect`` or ``Fetch`` as long as ``collects[walk]`` says, or, in a folded action (walk -1), which has no
    ``Fetch``, as ``folded[body]`` says.

    Attributes:
        program: Program number of each action, A.
        kind: ``F``, ``B``, ``I``, ``W`` or ``U`` of each action, one character, A.
        micro_batch, chunk: Which one, A.
        start_ps, end_ps: When it ran, A.
        awaited: Number of the move whose arrival came last of all that it waited for, -1 if it waited for none, A.
        walk: Row of ``collects`` for an action that was walked at least in part, -1 if nobody disturbed it, A.
        collects: Per walked action all of its collectives and fetches in order, as (start, end) rows, n x 2.
        folded: Per body that was folded as a whole, the durations of its collectives in order.
        reached_ps: When each program had ended its last backward, and with blocking sends what it sent had arrived, and
            it began to wait for its gradient syncs, P.
        synced_ps: When all of its gradient syncs were done; ``reached_ps`` if it has none, P.
        ended_ps: When each program had ended: its update, and its gathers of parameters if it has any, P.
        released_ps: Per sync, when each member's gradients were complete, for a gather when it had updated, for a
            fetch when it came to it, for one ahead the beginning of the iteration, in the sync's member order.
        needed_ps: Per sync, when each member came to need its result in the midst of an action: of a fetch, or one
            ahead; else -1.
        joined_ps: Per sync, from when on each member took part: then, or where syncs are serial when its turn came.
        done_ps: Per sync, when each member had the result.
        exchanges: Hand-overs for which both sides waited, in the order of their ends.
        makespan_ps: When the last program ended: the training time.
    """

    program: Ints
    kind: NDArray[np.str_]
    micro_batch: Ints
    chunk: Ints
    start_ps: Ints
    end_ps: Ints
    awaited: Ints
    walk: Ints
    collects: tuple[Ints, ...]
    folded: Mapping[Body, tuple[int, ...]]
    reached_ps: Ints
    synced_ps: Ints
    ended_ps: Ints
    released_ps: tuple[Ints, ...]
    needed_ps: tuple[Ints, ...]
    joined_ps: tuple[Ints, ...]
    done_ps: tuple[Ints, ...]
    makespan_ps: int
    exchanges: tuple[Exchange, ...] = ()

    def action(self, row: int) -> Action:
        """The action of a row."""
        return Action(str(self.kind[row]), int(self.micro_batch[row]), int(self.chunk[row]))


class Log:
    """A timeline under construction: the executor notes what ends, in any order of programs."""

    def __init__(self, workload: Workload) -> None:
        programs = len(workload.programs)
        self.reached_ps, self.synced_ps, self.ended_ps = [-1] * programs, [-1] * programs, [-1] * programs
        self.released_ps = [[-1] * len(sync.programs) for sync in workload.syncs]
        self.needed_ps = [[-1] * len(sync.programs) for sync in workload.syncs]
        self.joined_ps = [[-1] * len(sync.programs) for sync in workload.syncs]
        self.done_ps = [[-1] * len(sync.programs) for sync in workload.syncs]
        self.exchanges: list[Exchange] = []
        self._rows: list[tuple[int, str, int, int, int, int, int, int]] = []
        self._collects: list[Ints] = []

    def action(
        self, program: int, action: Action, start_ps: int, end_ps: int, awaited: int, collects: Ints | None
    ) -> None:
        """Note an action, with (start, end) rows of its collectives if one of them was walked."""
        walk = -1
        if collects is not None:
            walk = len(self._collects)
            self._collects.append(collects)
        place = (program, action.kind, action.micro_batch, action.chunk)
        self._rows.append((*place, start_ps, end_ps, awaited, walk))

    def timeline(self, folded: Mapping[Body, tuple[int, ...]]) -> Timeline:
        """The whole, after the last action has ended."""
        columns = list(zip(*sorted(self._rows, key=lambda row: (row[0], row[4])), strict=True))
        ints = [np.array(column, dtype=np.int64) for index, column in enumerate(columns) if index != 1]
        return Timeline(
            program=ints[0],
            kind=np.array(columns[1], dtype=np.str_),
            micro_batch=ints[1],
            chunk=ints[2],
            start_ps=ints[3],
            end_ps=ints[4],
            awaited=ints[5],
            walk=ints[6],
            collects=tuple(self._collects),
            folded=folded,
            reached_ps=np.array(self.reached_ps, dtype=np.int64),
            synced_ps=np.array(self.synced_ps, dtype=np.int64),
            ended_ps=np.array(self.ended_ps, dtype=np.int64),
            released_ps=tuple(np.array(times, dtype=np.int64) for times in self.released_ps),
            needed_ps=tuple(np.array(times, dtype=np.int64) for times in self.needed_ps),
            joined_ps=tuple(np.array(times, dtype=np.int64) for times in self.joined_ps),
            done_ps=tuple(np.array(times, dtype=np.int64) for times in self.done_ps),
            makespan_ps=max(self.ended_ps),
            exchanges=tuple(self.exchanges),
        )
