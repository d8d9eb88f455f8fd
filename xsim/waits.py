"""Why whole device groups wait between their actions: every such interval with its cause.

The first cause that holds counts. Until the last backward of its replica has ended a group waits for the pipeline:
``bubble``. Then, in a gradient sync that its program has reached, for a member of any of the program's syncs that is
still missing: ``straggler_wait``; with all of them there: ``dp_comm``. Where a program takes part in one sync after
another, who is missing in a sync that a member has to go through first is missing in this one too. With its own work
done it shares the cause of its replica's last-ending program, whose computation counts as ``bubble``; once the replica
has ended, everything is ``straggler_wait``. A rank whose part of the update is smaller than that of its group's slowest
is done before it.

With optimizer sharding the gathers of parameters after the update are syncs like those before it: a member that has not
updated yet is missing, which counts as ``bubble`` as long as the program's own replica has not updated either.

With sharded weights a program also waits in the midst of an action, to fetch those of its next layers. That is a
collective that it has reached, as one of tensor parallelism is: whatever the pipeline does, ``straggler_wait`` until
the last of the members has come to this fetch, then ``dp_comm``. All ranks of the group wait from when its slowest has
done what lies before. So it is with parameters that have been gathered since the iteration began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.plan.workload import UPDATE, Collect, Compute, Fetch, Workload
from xsim.sim.timeline import Timeline

__all__ = [
    "BUBBLE",
    "CAUSES",
    "COMPUTE",
    "DP_COMM",
    "OPTIMIZER",
    "STRAGGLER_WAIT",
    "TP_COMM",
    "Waits",
    "action_steps",
    "early_waits",
    "fetch_waits",
    "gathers",
    "waits",
]

Ints = NDArray[np.int64]

CAUSES = ("compute", "optimizer", "tp_comm", "dp_comm", "bubble", "straggler_wait")
COMPUTE, OPTIMIZER, TP_COMM, DP_COMM, BUBBLE, STRAGGLER_WAIT = range(len(CAUSES))


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Intervals between actions in columns; none is empty, those of a program do not overlap.

    Together with the program's actions they cover the iteration. ``cause`` is an index into ``CAUSES``.
    """

    program: Ints
    start_ps: Ints
    end_ps: Ints
    cause: Ints


def waits(workload: Workload, timeline: Timeline) -> Waits:
    """All waits of all programs."""
    ends = _Ends.of(workload, timeline)
    everyone = np.arange(len(workload.programs))
    idle = np.full(len(everyone), timeline.makespan_ps)
    parts = [
        *_gaps(timeline, ends),
        *((everyone, start, end, cause) for start, end, cause in ends.syncing()),
        *_followed(workload, timeline, ends),
        (everyone, ends.replica_ps, idle, STRAGGLER_WAIT),
    ]
    program, start, end = (np.concatenate([part[column] for part in parts]) for column in range(3))
    cause = np.repeat([part[3] for part in parts], [len(part[0]) for part in parts])
    kept = np.flatnonzero(end > start)
    order = kept[np.lexsort((start[kept], program[kept]))]
    return Waits(program[order], start[order], end[order], cause[order])


def early_waits(workload: Workload, timeline: Timeline) -> Iterator[tuple[int, int, int, int, int]]:
    """(program, position in it, start, end, cause) of each wait of a rank from its own end to that of its program.

    Ranks of a program end apart if the parts of its last step, the update, are not equal and no gather follows.
    """
    ends = _Ends.of(workload, timeline)
    gathering = gathers(workload)
    for members, leader in _replicas(workload, ends):
        pieces: list[tuple[int, int, int]] = []
        for index in members.tolist():
            step = next(reversed(workload.programs[index].body(UPDATE).steps), None)
            if index in gathering or not isinstance(step, Compute) or len(set(step.durations_ps)) == 1:
                continue
            pieces = pieces or [(0, int(ends.backward_ps[index]), BUBBLE), *_led(workload, timeline, ends, leader)]
            until = int(ends.own_ps[index])
            for position, duration in enumerate(step.durations_ps):
                own = until - max(step.durations_ps) + duration
                for start, end, cause in pieces:
                    if max(own, start) < min(until, end):
                        yield index, position, max(own, start), min(until, end), cause


def gathers(workload: Workload) -> frozenset[int]:
    """Programs that gather parameters after their update, so that no rank of theirs is done before the slowest."""
    return frozenset(index for sync in workload.syncs if sync.does == "gather" for index in sync.programs)


def fetch_waits(workload: Workload, timeline: Timeline) -> Iterator[tuple[int, int, int, int]]:
    """(program, its coming, when no member is missing any more, end) of each wait for weights; inside actions."""
    times = (timeline.released_ps, timeline.needed_ps, timeline.done_ps)
    for sync, released, needed, done in zip(workload.syncs, *times, strict=True):
        if sync.does in ("ahead", "fetch"):
            last_ps = int(released.max())
            for program, start, end in zip(sync.programs, needed.tolist(), done.tolist(), strict=True):
                if start < end:
                    yield program, start, max(start, min(last_ps, end)), end


def action_steps(workload: Workload, timeline: Timeline, row: int) -> Iterator[tuple[Compute | Collect, int, int, int]]:
    """(step, start, end of its collective, end) of what action ``row`` did, in order.

    A ``Compute`` ends when its slowest rank does; its collective is over at its start. Fetches are not among them.
    """
    body = workload.programs[int(timeline.program[row])].body(timeline.action(row))
    walk = int(timeline.walk[row])
    at_ps = int(timeline.start_ps[row])
    collects = iter(timeline.folded.get(body, ()) if walk < 0 else np.diff(timeline.collects[walk])[:, 0].tolist())
    for step in body.steps:
        if isinstance(step, Fetch):
            at_ps += next(collects)
        elif isinstance(step, Compute | Collect):
            collect_ps = 0 if isinstance(step, Compute) else next(collects)
            compute_ps = max(step.durations_ps) if isinstance(step, Compute) else step.beside_ps
            end_ps = at_ps + max(collect_ps, compute_ps)
            yield step, at_ps, at_ps + collect_ps, end_ps
            at_ps = end_ps


_Part = tuple[Ints, Ints, Ints, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Turning points of each program, P each.

    Attributes:
        first, last: Its first and last row in the timeline.
        updated_ps: End of its update.
        own_ps: Its own end.
        backward_ps: Last backward of its replica.
        replica_ps: End of its replica.
        after_ps: From here its waits for gradient syncs count as such.
        complete_ps: No member of its syncs is missing any more, no earlier than ``after_ps``.
        synced_ps: End of its syncs, no earlier than ``complete_ps``.
        gather_ps: From here its waits for gathers of parameters count as such.
        replica_updated_ps: Nobody of its replica has to update any more, but between ``gather_ps`` and ``gathered_ps``.
        all_updated_ps: Nor any other member of its gathers, between these too.
        gathered_ps: End of its gathers, no earlier than ``gather_ps``.
    """

    first: Ints
    last: Ints
    updated_ps: Ints
    own_ps: Ints
    backward_ps: Ints
    replica_ps: Ints
    after_ps: Ints
    complete_ps: Ints
    synced_ps: Ints
    gather_ps: Ints
    replica_updated_ps: Ints
    all_updated_ps: Ints
    gathered_ps: Ints

    @classmethod
    def of(cls, workload: Workload, timeline: Timeline) -> _Ends:
        programs = np.arange(len(workload.programs))
        replica = np.array([program.replica for program in workload.programs])
        first = np.searchsorted(timeline.program, programs)
        last = np.searchsorted(timeline.program, programs, side="right") - 1
        updated, own = timeline.end_ps[last], timeline.ended_ps
        backward = _largest(timeline.reached_ps, replica)
        after = np.maximum(timeline.reached_ps, backward)
        synced = np.maximum(timeline.synced_ps, after)
        complete = np.clip(_all_released(workload, timeline, after_update=False), after, synced)
        gather = np.maximum(updated, backward)
        gathered = np.maximum(own, gather)
        there = np.clip(_all_released(workload, timeline, after_update=True), gather, gathered)
        return cls(
            first=first,
            last=last,
            updated_ps=updated,
            own_ps=own,
            backward_ps=backward,
            replica_ps=_largest(own, replica),
            after_ps=after,
            complete_ps=complete,
            synced_ps=synced,
            gather_ps=gather,
            replica_updated_ps=np.clip(_largest(updated, replica), gather, there),
            all_updated_ps=there,
            gathered_ps=gathered,
        )

    def syncing(self) -> list[tuple[Ints, Ints, int]]:
        """(start, end, cause) of each program's waits for its syncs and gathers, where nothing comes before them.

        Who of its own replica still updates is ahead of it in the pipeline.
        """
        return [
            (self.after_ps, self.complete_ps, STRAGGLER_WAIT),
            (self.complete_ps, self.synced_ps, DP_COMM),
            (self.gather_ps, self.replica_updated_ps, BUBBLE),
            (self.replica_updated_ps, self.all_updated_ps, STRAGGLER_WAIT),
            (self.all_updated_ps, self.gathered_ps, DP_COMM),
        ]


def _largest(values: Ints, replica: Ints) -> Ints:
    """For each program the largest value in its replica."""
    largest = np.zeros(int(replica.max()) + 1, dtype=np.int64)
    np.maximum.at(largest, replica, values)
    return largest[replica]


def _all_released(workload: Workload, timeline: Timeline, *, after_update: bool) -> Ints:
    """When every member of every sync of a program had its gradients, or had updated; 0 without such syncs.

    Where syncs are serial, those who are missing elsewhere count too if a member has to sync with them first.
    """
    complete = np.zeros(len(workload.programs), dtype=np.int64)
    for sync, released in zip(workload.syncs, timeline.released_ps, strict=True):
        if sync.does in ("ahead", "fetch") or (sync.does == "gather") != after_update:
            continue
        members = list(sync.programs)
        last = max(released.max(), complete[members].max()) if workload.serial_sync else released.max()
        complete[members] = np.maximum(complete[members], last)
    return complete


def _gaps(timeline: Timeline, ends: _Ends) -> Iterator[_Part]:
    """Before, between and after the actions of a program, while its replica still goes backward."""
    before = np.concatenate(([0], timeline.end_ps[:-1]))
    before[ends.first] = 0
    backward = ends.backward_ps[timeline.program]
    yield timeline.program, before, np.minimum(timeline.start_ps, backward), BUBBLE
    yield np.arange(len(ends.own_ps)), ends.updated_ps, ends.backward_ps, BUBBLE


def _followed(workload: Workload, timeline: Timeline, ends: _Ends) -> Iterator[_Part]:
    """What the last-ending program of a replica does, for those whose own work is done."""
    for members, leader in _replicas(workload, ends):
        alone = np.maximum(ends.own_ps, ends.backward_ps)[members]
        for start, end, cause in _led(workload, timeline, ends, leader):
            yield members, np.maximum(start, alone), np.full(len(members), end), cause


def _replicas(workload: Workload, ends: _Ends) -> Iterator[tuple[Ints, int]]:
    """(programs, the one that ends last) of each replica."""
    replica = np.array([program.replica for program in workload.programs])
    for number in np.unique(replica).tolist():
        members = np.flatnonzero(replica == number)
        yield members, int(members[np.argmax(ends.own_ps[members])])


def _led(workload: Workload, timeline: Timeline, ends: _Ends, leader: int) -> list[tuple[int, int, int]]:
    """(start, end, cause) of what those wait for who wait for ``leader``, from its replica's last backward on."""
    backward_ps = int(ends.backward_ps[leader])
    pieces = [(int(start[leader]), int(end[leader]), cause) for start, end, cause in ends.syncing()]
    for _, start, talked, end in action_steps(workload, timeline, int(ends.last[leader])):
        pieces.append((max(start, backward_ps), talked, TP_COMM))
        pieces.append((max(talked, backward_ps), end, BUBBLE))
    return pieces
