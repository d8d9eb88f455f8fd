"""An independent judge of timelines and time accounts, for any test that has one.

``check_timeline`` asks whether a timeline could have happened: actions in their order and apart, steps that fill their
action, transfers and syncs after what they carry. ``check_account`` then recomputes the six causes of every rank by
another road than ``xsim.account``: it cuts the iteration at every instant at which anything changes, asks of each piece
which conditions hold there, and takes the first in the order of the definition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xsim.account import Account, account
from xsim.plan.workload import Action, Body, Collect, Compute, Fetch, Ready, Workload
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


# ---- the causes, once more ----


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
    fetched = _fetched(workload, timeline)
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


def _lanes(workload: Workload, timeline: Timeline, index: int, fetched: _Fetched) -> _Lanes:
    program = workload.programs[index]
    size = len(program.devices.ranks)
    found: dict[str, list[Ints]] = defaultdict(lambda: [np.zeros((0, 2), dtype=np.int64)])
    mine = np.flatnonzero(timeline.program == index)
    for (kind, chunk), body in program.bodies.items():
        steps = [step for step in body.steps if not isinstance(step, Ready)]
        rows = mine[(timeline.kind[mine] == kind) & (timeline.chunk[mine] == chunk)]
        if not len(rows) or not steps:
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
    for times in fetched.values():
        if index in times:
            start, end = times[index]
            last = max(start for start, _ in times.values())
            found["fetch_missing"].append(np.array([[start, min(last, end)]]))
    updated, end = int(timeline.end_ps[mine].max()), int(timeline.ended_ps[index])
    gathers = any(index in sync.programs for sync in workload.syncs if sync.does == "gather")
    short = [0] * size if gathers else _short_of_the_slowest(program.bodies["U", 0], size)
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


_Fetched = Mapping[int, Mapping[int, tuple[int, int]]]


def _fetched(workload: Workload, timeline: Timeline) -> _Fetched:
    """Per fetch of weights (sync number), when each program waited for it, as the steps of its actions say."""
    found: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    passed: dict[tuple[int, str, int], int] = defaultdict(int)
    columns = (timeline.program, timeline.kind, timeline.chunk, timeline.walk)
    for index, kind, chunk, walk in zip(*(column.tolist() for column in columns), strict=True):
        steps = workload.programs[index].bodies[kind, chunk].steps
        stops = [step for step in steps if isinstance(step, Collect | Fetch)]
        way = (index, "F" if kind == "F" else "W" if kind == "W" else "B", chunk)
        for number, stop in enumerate(stops):
            if isinstance(stop, Fetch):
                assert walk >= 0, f"program {index}: {kind} fetches weights and was folded as a whole"
                start, end = timeline.collects[walk][number].tolist()
                sync = stop.sync + stop.every * passed[way]
                assert index not in found[sync], f"program {index} fetches the weights of sync {sync} twice"
                found[sync][index] = (start, end)
        passed[way] += 1
    return found


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
    longest = [max(step.durations_ps) if isinstance(step, Compute) else _beside(step) for step in steps]
    talks = np.zeros((len(rows), len(steps)), dtype=np.int64)
    collects = [number for number, step in enumerate(steps) if isinstance(step, Collect | Fetch)]
    for place, walk in enumerate(timeline.walk[rows].tolist() if collects else ()):
        talks[place, collects] = timeline.folded[body] if walk < 0 else np.diff(timeline.collects[walk])[:, 0]
    durations = np.maximum(talks, np.array(longest, dtype=np.int64))
    ends = timeline.start_ps[rows][:, None] + durations.cumsum(axis=1)
    return ends - durations, ends - durations + talks, ends


def _beside(step: Collect | Fetch) -> int:
    """How long the slowest rank computes beside a collective."""
    return max(step.beside.durations_ps) if isinstance(step, Collect) and step.beside is not None else 0


# ---- could it have happened? ----


def check_timeline(workload: Workload, timeline: Timeline) -> None:
    """Raise AssertionError unless ``timeline`` is a legal execution of ``workload``."""
    rows: dict[int, list[int]] = {
        index: np.flatnonzero(timeline.program == index).tolist() for index in range(len(workload.programs))
    }
    assert (np.diff(timeline.program) >= 0).all(), "rows are not sorted by program"
    for index, own in rows.items():
        _check_program(workload, timeline, index, own)
    for row in range(len(timeline.program)):
        _check_steps(workload, timeline, row)
    _check_moves(workload, timeline)
    fetched = _fetched(workload, timeline)
    for number, sync in enumerate(workload.syncs):
        if sync.does == "fetch":
            _check_fetch(workload, timeline, number, fetched[number])
        else:
            _check_sync(workload, timeline, number, rows)
    assert all(workload.syncs[number].does == "fetch" for number in fetched), "a step fetches by what is no fetch"
    latest = int(timeline.ended_ps.max())
    assert timeline.makespan_ps == latest, f"the last program ends at {latest}, makespan {timeline.makespan_ps}"


def _check_program(workload: Workload, timeline: Timeline, index: int, rows: list[int]) -> None:
    program = workload.programs[index]
    done = [Action(str(timeline.kind[r]), int(timeline.micro_batch[r]), int(timeline.chunk[r])) for r in rows]
    update = [Action("U", 0)] if ("U", 0) in program.bodies else []
    assert done == [*program.actions, *update], f"program {index} ran {' '.join(map(str, done))}"
    starts, ends = timeline.start_ps[rows], timeline.end_ps[rows]
    assert starts[0] >= 0, f"program {index} starts before 0"
    assert (ends >= starts).all(), f"program {index}: an action ends before it starts"
    assert (starts[1:] >= ends[:-1]).all(), f"program {index}: actions overlap"
    reached, synced = int(timeline.reached_ps[index]), int(timeline.synced_ps[index])
    last = int(ends[len(program.actions) - 1])
    assert reached in _freed(workload, timeline, index, last), (
        f"program {index} reaches its syncs at {reached}, its last backward ends at {last}"
    )
    latest = _last_done(workload, timeline, index, reached, {"sum", "scatter"})
    assert synced == latest, f"program {index} is synced at {synced}, its syncs end at {latest}"
    ended = int(timeline.ended_ps[index])
    latest = _last_done(workload, timeline, index, int(ends[-1]), {"gather"})
    assert ended == latest, f"program {index} ends at {ended}, its update or its gathers at {latest}"
    if update:
        assert int(starts[-1]) == synced, f"program {index} updates at {starts[-1]}, synced at {synced}"


def _last_done(workload: Workload, timeline: Timeline, index: int, before: int, does: set[str]) -> int:
    """When the program has the results of all of its syncs that do so; ``before`` if it has none."""
    numbers = [number for number, sync in enumerate(workload.syncs) if sync.does in does]
    return max([before, *(_done_ps(workload, timeline, number, index) for number in numbers)])


def _freed(workload: Workload, timeline: Timeline, index: int, last: int) -> range:
    """When a program may go on whose last backward ends at ``last``: at once, or when all that it sent has arrived.

    What has arrived may be used; so the latest use bounds the last arrival.
    """
    action = workload.programs[index].actions[-1]
    sends = [m for m in workload.moves if (m.source, m.kind, m.source_chunk) == (index, action.carries, action.chunk)]
    if not workload.blocking_sends or not sends:
        return range(last, last + 1)
    kinds = ("F",) if action.carries == "F" else ("B", "I")
    used = [
        int(timeline.start_ps[row])
        for move in sends
        for row in np.flatnonzero((timeline.program == move.target) & (timeline.micro_batch == action.micro_batch))
        if timeline.kind[row] in kinds and timeline.chunk[row] == move.target_chunk
    ]
    return range(last, max(used) + 1)


def _check_steps(workload: Workload, timeline: Timeline, row: int) -> None:
    index, walk = int(timeline.program[row]), int(timeline.walk[row])
    program = workload.programs[index]
    body = program.bodies[str(timeline.kind[row]), int(timeline.chunk[row])]
    name = f"program {index}, {timeline.kind[row]}{timeline.micro_batch[row]}"
    walked = [] if walk < 0 else timeline.collects[walk].tolist()
    steps = [step for step in body.steps if isinstance(step, Collect | Fetch)]
    expected = len(walked) if walk >= 0 else len(timeline.folded.get(body, ()))
    assert expected == len(steps), f"{name}: {expected} collectives took time, the body has {len(steps)}"
    at, number = int(timeline.start_ps[row]), 0
    for step in body.steps:
        if isinstance(step, Compute):
            assert len(step.durations_ps) == len(program.devices.ranks), f"{name}: not one duration per rank"
            at += max(step.durations_ps)
        elif isinstance(step, Collect | Fetch):
            start, end = walked[number] if walk >= 0 else (at, at + timeline.folded[body][number])
            assert start == at, f"{name}: collective {number} starts at {start}, the step before ends at {at}"
            assert end >= start, f"{name}: collective {number} ends before it starts"
            at, number = max(end, start + _beside(step)), number + 1
    assert at == int(timeline.end_ps[row]), f"{name} ends at {timeline.end_ps[row]}, its steps at {at}"


def _check_moves(workload: Workload, timeline: Timeline) -> None:
    columns = (timeline.program, timeline.kind, timeline.micro_batch, timeline.chunk)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    start: Mapping[tuple[int, str, int, int], int] = dict(zip(keys, timeline.start_ps.tolist(), strict=True))
    end: Mapping[tuple[int, str, int, int], int] = dict(zip(keys, timeline.end_ps.tolist(), strict=True))
    for move in workload.moves:
        for action in workload.programs[move.source].actions:
            kinds = ("F",) if move.kind == "F" else ("B", "I")  # the gradients of the input, with the others or alone
            if action.kind not in kinds or action.chunk != move.source_chunk:
                continue
            sent = end[move.source, action.kind, action.micro_batch, move.source_chunk]
            targets = [(move.target, kind, action.micro_batch, move.target_chunk) for kind in kinds]
            (used,) = [start[key] for key in targets if key in start]
            name = f"{move.kind}{action.micro_batch} of program {move.target}"
            assert used >= sent, f"{name} starts at {used}, program {move.source} sends its input at {sent}"


def _check_sync(workload: Workload, timeline: Timeline, number: int, rows: Mapping[int, list[int]]) -> None:
    sync = workload.syncs[number]
    released, joined, done = timeline.released_ps[number], timeline.joined_ps[number], timeline.done_ps[number]
    for member, program in enumerate(sync.programs):
        name = f"sync {number}, program {program}"
        at = int(released[member])
        if sync.does == "gather":
            updated = int(timeline.end_ps[rows[program][-1]])
            assert at == updated, f"{name}: comes to gather at {at}, has updated at {updated}"
        else:
            assert at <= int(timeline.reached_ps[program]), f"{name}: released at {at}, after its last backward"
        earlier = range(number if workload.serial_sync else 0)
        turn = max((_done_ps(workload, timeline, other, program) for other in earlier), default=0)
        come = int(joined[member])
        assert come == max(at, turn), f"{name}: takes part from {come}, has its gradients at {at}, its turn at {turn}"
        assert int(done[member]) >= come, f"{name}: done before it took part"
        complete = _completing(workload, timeline, number, rows[program])
        inside = [r for r in complete if int(timeline.start_ps[r]) <= at <= int(timeline.end_ps[r])]
        assert inside or not complete, f"{name}: released at {at}, outside the actions that complete its gradients"
    assert int(done.max()) >= int(joined.max()), f"sync {number} is done before its last member came"


def _check_fetch(workload: Workload, timeline: Timeline, number: int, fetched: Mapping[int, tuple[int, int]]) -> None:
    sync = workload.syncs[number]
    assert sorted(fetched) == sorted(sync.programs), f"fetch {number} is of {sync.programs}, {sorted(fetched)} come"
    for member, program in enumerate(sync.programs):
        name = f"fetch {number}, program {program}"
        noted = tuple(int(times[number][member]) for times in (timeline.released_ps, timeline.joined_ps))
        start, end = fetched[program]
        assert noted == (start, start), f"{name}: noted at {noted}, its action comes to it at {start}"
        done = int(timeline.done_ps[number][member])
        assert done == end, f"{name}: has the weights at {done}, its action goes on at {end}"
        assert end >= start, f"{name}: done before it came"
    last = max(start for start, _ in fetched.values())
    assert max(end for _, end in fetched.values()) >= last, f"fetch {number} is over before its last member came"


def _completing(workload: Workload, timeline: Timeline, number: int, rows: list[int]) -> list[int]:
    """Those of a program's actions that may complete its gradients for sync ``number``."""
    found: list[int] = []
    turns: dict[int, int] = defaultdict(int)
    for row in rows:
        kind, chunk = str(timeline.kind[row]), int(timeline.chunk[row])
        body = workload.programs[int(timeline.program[row])].bodies[kind, chunk]
        announced = [step for step in body.steps if isinstance(step, Ready)]
        if any(step.sync + step.every * turns[chunk] == number for step in announced):
            found.append(row)
        turns[chunk] += kind in ("B", "W")
    return found


def _done_ps(workload: Workload, timeline: Timeline, number: int, program: int) -> int:
    """When ``program`` has the result of sync ``number``; 0 if it is no member."""
    members = workload.syncs[number].programs
    return int(timeline.done_ps[number][members.index(program)]) if program in members else 0
