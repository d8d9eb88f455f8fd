"""An independent judge of time accounts, for any test that has one.

``check_account`` asks first whether the timeline could have happened (``tests.timeline_checker``), then recomputes the
six causes of every rank by another road than ``xsim.account``: it cuts the iteration at every instant at which anything
changes, asks of each piece which conditions hold there, and takes the first in the order of the definition.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tests.timeline_checker import Fetched, beside_ps, check_timeline, fetches
from xsim.account import Account, account
from xsim.plan.workload import UPDATE, Body, Collect, Compute, Fetch, Ready, Workload
from xsim.sim.timeline import Timeline

__all__ = ["check_account", "check_timeline", "painted_causes"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def check_account(workload: Workload, timeline: Timeline, found: Account | None = None) -> Account:
    """The account of ``timeline`` (or ``found``), after the timeline and every term of the account have been checked.

    Raises:
        AssertionError: Names what is illegal, or the rank, the cause and both values.
    """
    check_timeline(workload, timeline)
    found = account(workload, timeline) if found is None else found
    expected = painted_causes(workload, timeline)
    assert found.ranks.tolist() == sorted(expected), "the account's ranks are not those of the deployment"
    for index, rank in enumerate(found.ranks.tolist()):
        for cause, value in expected[rank].items():
            stated = int(found.cause_ps(cause)[index])
            assert stated == value, f"rank {rank}: the account says {cause} = {stated} ps, the timeline {value} ps"
        total = int(found.causes_ps[index].sum())
        assert total == timeline.makespan_ps, f"rank {rank}: {total} ps in all, makespan {timeline.makespan_ps} ps"
    exposed_ps = found.operators_ps[:, found.operators.index("reshard_comm")]
    assert (exposed_ps >= 0).all(), "a hand-over arrives before it is sent"
    assert (exposed_ps <= found.cause_ps("bubble")).all(), "more is spent on exposed hand-overs than on the bubble"
    return found


@dataclass(frozen=True, slots=True)
class _Lanes:
    """What happens in one program when: n x 2 intervals, those of single ranks by position in the group."""

    compute: tuple[Ints, ...]
    optimizer: tuple[Ints, ...]
    computing: Ints
    collective: Ints
    fetching: Ints
    fetch_missing: Ints
    syncing: Ints
    missing_until: int
    gathering: Ints
    not_updated_until: int
    updated: int
    end: int
    own_ends: tuple[int, ...]
    last_backward: int

    def after(self, instant: int) -> _Lanes:
        """Without what ended before."""
        names = ("computing", "collective", "fetching", "fetch_missing", "syncing", "gathering")
        kept = {name: lane[lane[:, 1] > instant] for name in names for lane in (getattr(self, name),)}
        return replace(self, compute=(), optimizer=(), **kept)

    def instants(self, position: int | None = None) -> list[Ints]:
        """All at which something changes, for the group or for one rank of it."""
        lanes = [self.computing, self.collective, self.fetching, self.fetch_missing, self.syncing, self.gathering]
        if position is not None:
            lanes += [self.compute[position], self.optimizer[position]]
        marks = [
            *(self.missing_until, self.not_updated_until, self.updated, self.end, self.last_backward),
            *self.own_ends,
        ]
        return [*(lane.ravel() for lane in lanes), np.array(marks)]


def painted_causes(workload: Workload, timeline: Timeline) -> dict[int, dict[str, int]]:
    """Rank -> cause -> picoseconds, from the definition."""
    fetched = fetches(workload, timeline)
    lanes = [_lanes(workload, timeline, index, fetched) for index in range(len(workload.programs))]
    replicas: dict[int, list[int]] = defaultdict(list)
    for index, program in enumerate(workload.programs):
        replicas[program.replica].append(index)
    causes: dict[int, dict[str, int]] = {}
    for members in replicas.values():
        backward = max(lanes[m].last_backward for m in members)
        leader = lanes[max(members, key=lambda m: (lanes[m].end, -m))].after(backward)
        updated = max(lanes[m].updated for m in members)
        marks = [*leader.instants(), np.array([0, backward, updated, timeline.makespan_ps])]
        for member in members:
            for position, rank in enumerate(workload.programs[member].devices.ranks):
                cuts = np.unique(np.concatenate([*lanes[member].instants(position), *marks]))
                causes[rank] = _paint(cuts, lanes[member], leader, position, backward, updated)
    return causes


def _paint(cuts: Ints, own: _Lanes, leader: _Lanes, position: int, backward: int, updated: int) -> dict[str, int]:
    """Of each piece between two cuts the first condition that holds."""
    at, done = cuts[:-1], own.own_ends[position]
    leader_does = [
        (_inside(leader.collective, at), "tp_comm"),
        (_inside(leader.computing, at), "bubble"),
        *_waits_of(leader, at, updated),
    ]
    layers = [
        (_inside(own.compute[position], at), "compute"),
        (_inside(own.optimizer[position], at), "optimizer"),
        (_inside(own.computing, at) & (at < done), "straggler_wait"),  # a member is slower: the next step waits
        (_inside(own.collective, at), "tp_comm"),
        (_inside(own.fetch_missing, at), "straggler_wait"),
        (_inside(own.fetching, at), "dp_comm"),
        (at < backward, "bubble"),
        *_waits_of(own, at, updated),
        *((mask & (at >= done) & (at < leader.end), cause) for mask, cause in leader_does),
        (at >= leader.end, "straggler_wait"),
    ]
    total = dict.fromkeys(("compute", "optimizer", "tp_comm", "dp_comm", "bubble", "straggler_wait"), 0)
    unnamed = np.ones(len(at), dtype=bool)
    widths = np.diff(cuts)
    for mask, cause in layers:
        total[cause] += int(widths[mask & unnamed].sum())
        unnamed &= ~mask
    assert not unnamed.any(), f"no cause at {at[unnamed].tolist()} ps"
    return total


def _waits_of(who: _Lanes, at: Ints, updated: int) -> list[tuple[Flags, str]]:
    """What waiting for syncs, and for gathers of parameters, counts as; ``updated``: when its whole replica has."""
    syncing, gathering = _inside(who.syncing, at), _inside(who.gathering, at)
    missing = gathering & (at < who.not_updated_until)
    return [
        (syncing & (at < who.missing_until), "straggler_wait"),
        (syncing, "dp_comm"),
        (missing & (at < updated), "bubble"),
        (missing, "straggler_wait"),
        (gathering, "dp_comm"),
    ]


def _inside(intervals: Ints, at: Ints) -> Flags:
    """At which of the instants some half-open interval is open."""
    begun = np.searchsorted(np.sort(intervals[:, 0]), at, side="right")
    ended = np.searchsorted(np.sort(intervals[:, 1]), at, side="right")
    return np.asarray(begun > ended)


def _lanes(workload: Workload, timeline: Timeline, index: int, fetched: Fetched) -> _Lanes:
    program = workload.programs[index]
    size = len(program.devices.ranks)
    found: dict[str, list[Ints]] = defaultdict(lambda: [np.zeros((0, 2), dtype=np.int64)])
    mine = np.flatnonzero(timeline.program == index)
    ran: dict[Body, list[int]] = defaultdict(list)
    for row in mine.tolist():
        ran[program.body(timeline.action(row))].append(row)
    for body, own_rows in ran.items():
        steps = [step for step in body.steps if not isinstance(step, Ready)]
        rows = np.array(own_rows)
        if not steps:
            continue
        starts, talked, ends = _spans(timeline, rows, body, steps)
        for number, step in enumerate(steps):
            lane = "fetching" if isinstance(step, Fetch) else "collective"
            found[lane].append(np.stack([starts[:, number], talked[:, number]], axis=1))
            found["computing"].append(np.stack([talked[:, number], ends[:, number]], axis=1))
            if isinstance(step, Fetch):
                continue
            work = step.beside if isinstance(step, Collect) else step
            own = "optimizer" if work is not None and work.kind == "optimizer" else "compute"
            for position, duration in enumerate(work.durations_ps if work is not None else ()):
                found[f"{own} {position}"].append(starts[:, [number]] + np.array([0, duration]))
    for number, times in fetched.items():
        if index in times and workload.syncs[number].does == "fetch":  # all have come to one ahead from the beginning
            start, end = times[index]
            last = int(timeline.released_ps[number].max())
            found["fetch_missing"].append(np.array([[start, min(last, end)]]))
    updated, end = int(timeline.end_ps[mine].max()), int(timeline.ended_ps[index])
    gathers = any(index in sync.programs for sync in workload.syncs if sync.does == "gather")
    short = [0] * size if gathers else _short_of_the_slowest(program.body(UPDATE), size)
    return _Lanes(
        compute=tuple(np.concatenate(found[f"compute {position}"]) for position in range(size)),
        optimizer=tuple(np.concatenate(found[f"optimizer {position}"]) for position in range(size)),
        computing=_not_empty(np.concatenate(found["computing"])),
        collective=_not_empty(np.concatenate(found["collective"])),
        fetching=_not_empty(np.concatenate(found["fetching"])),
        fetch_missing=_not_empty(np.concatenate(found["fetch_missing"])),
        syncing=np.array([[timeline.reached_ps[index], timeline.synced_ps[index]]]),
        missing_until=_missing_until(workload, timeline, index, {"sum", "scatter"}),
        gathering=np.array([[updated, end]]),
        not_updated_until=_missing_until(workload, timeline, index, {"gather"}),
        updated=updated,
        end=end,
        own_ends=tuple(end - time for time in short),
        last_backward=int(timeline.end_ps[mine[np.isin(timeline.kind[mine], ("B", "I", "W"))]].max(initial=0)),
    )


def _not_empty(intervals: Ints) -> Ints:
    return intervals[intervals[:, 1] > intervals[:, 0]]


def _missing_until(workload: Workload, timeline: Timeline, index: int, does: set[str]) -> int:
    """When the last gradient was complete, or parameter updated, that the program's syncs depend on.

    Serial: also on whoever syncs earlier with one of those, and so on back.
    """
    alike = [number for number, sync in enumerate(workload.syncs) if sync.does in does]
    waits_for = {number for number in alike if index in workload.syncs[number].programs}
    if workload.serial_sync:
        for number in reversed(alike):
            members = {program for later in waits_for if later > number for program in workload.syncs[later].programs}
            if members & set(workload.syncs[number].programs):
                waits_for.add(number)
    return max((int(timeline.released_ps[number].max()) for number in waits_for), default=0)


def _short_of_the_slowest(update: Body, size: int) -> list[int]:
    """How much earlier than the group each rank has done its own part, if the update ends with a computation."""
    if not update.steps or not isinstance(update.steps[-1], Compute):
        return [0] * size
    durations = update.steps[-1].durations_ps
    return [max(durations) - duration for duration in durations]


def _spans(
    timeline: Timeline, rows: Ints, body: Body, steps: list[Compute | Collect | Fetch]
) -> tuple[Ints, Ints, Ints]:
    """Start, end of the collective or fetch and end of each step (columns) in each action (rows) that ran ``body``.

    Without either that ends where the step starts.
    """
    longest = [max(step.durations_ps) if isinstance(step, Compute) else beside_ps(step) for step in steps]
    talks = np.zeros((len(rows), len(steps)), dtype=np.int64)
    collects = [number for number, step in enumerate(steps) if isinstance(step, Collect | Fetch)]
    for place, walk in enumerate(timeline.walk[rows].tolist() if collects else ()):
        talks[place, collects] = timeline.folded[body] if walk < 0 else np.diff(timeline.collects[walk])[:, 0]
    durations = np.maximum(talks, np.array(longest, dtype=np.int64))
    ends = timeline.start_ps[rows][:, None] + durations.cumsum(axis=1)
    return ends - durations, ends - durations + talks, ends
