"""An independent judge of timelines and time accounts, for any test that has one.

``check_timeline`` asks whether a timeline could have happened: actions in their order and apart, steps that fill their
action, transfers and syncs after what they carry. ``check_account`` then recomputes the six causes of every rank by
another road than ``xsim.account``: it cuts the iteration at every instant at which anything changes, asks of each piece
which conditions hold there, and takes the first in the order of the definition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xsim.account import Account, account
from xsim.plan.workload import Action, Collect, Compute, Ready, Workload
from xsim.sim.timeline import Timeline

__all__ = ["check_account", "check_timeline", "painted_causes"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Interval = tuple[int, int]


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
    return found


# ---- the causes, once more ----


@dataclass(slots=True)
class _Lanes:
    """Intervals of one program by what happens in them; of single ranks ``compute`` and ``optimizer``."""

    compute: dict[int, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    optimizer: dict[int, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    computing: list[Interval] = field(default_factory=list)
    collective: list[Interval] = field(default_factory=list)
    syncing: list[Interval] = field(default_factory=list)
    missing_until: int = 0
    end: int = 0
    last_backward: int = 0

    def instants(self) -> set[int]:
        own = [*self.compute.values(), *self.optimizer.values(), self.computing, self.collective, self.syncing]
        edges = {edge for intervals in own for interval in intervals for edge in interval}
        return edges | {self.missing_until, self.end, self.last_backward}


def painted_causes(workload: Workload, timeline: Timeline) -> dict[int, dict[str, int]]:
    """Rank -> cause -> picoseconds, from the definition."""
    lanes = [_lanes(workload, timeline, index) for index in range(len(workload.programs))]
    replicas: dict[int, list[int]] = defaultdict(list)
    for index, program in enumerate(workload.programs):
        replicas[program.replica].append(index)
    causes: dict[int, dict[str, int]] = {}
    for members in replicas.values():
        backward = max(lanes[m].last_backward for m in members)
        leader = max(members, key=lambda m: (lanes[m].end, -m))
        for member in members:
            edges = lanes[member].instants() | lanes[leader].instants() | {0, backward, timeline.makespan_ps}
            cuts = np.array(sorted(edges), dtype=np.int64)
            for position, rank in enumerate(workload.programs[member].devices.ranks):
                causes[rank] = _paint(cuts, lanes[member], lanes[leader], position, backward)
    return causes


def _paint(cuts: Ints, own: _Lanes, leader: _Lanes, position: int, backward: int) -> dict[str, int]:
    """Of each piece between two cuts the first condition that holds."""
    at = cuts[:-1]
    own_waits = [
        (_inside(own.syncing, at) & (at < own.missing_until), "straggler_wait"),
        (_inside(own.syncing, at), "dp_comm"),
    ]
    leader_does = [
        (_inside(leader.collective, at), "tp_comm"),
        (_inside(leader.computing, at), "bubble"),
        (_inside(leader.syncing, at) & (at < leader.missing_until), "straggler_wait"),
        (_inside(leader.syncing, at), "dp_comm"),
    ]
    layers = [
        (_inside(own.compute[position], at), "compute"),
        (_inside(own.optimizer[position], at), "optimizer"),
        (_inside(own.computing, at), "straggler_wait"),  # a member has not ended: the next step cannot begin
        (_inside(own.collective, at), "tp_comm"),
        (at < backward, "bubble"),
        *own_waits,
        *((mask & (at >= own.end) & (at < leader.end), cause) for mask, cause in leader_does),
        (at >= leader.end, "straggler_wait"),
    ]
    total = dict.fromkeys(("compute", "optimizer", "tp_comm", "dp_comm", "bubble", "straggler_wait"), 0)
    open_ = np.ones(len(at), dtype=bool)
    widths = np.diff(cuts)
    for mask, cause in layers:
        total[cause] += int(widths[mask & open_].sum())
        open_ &= ~mask
    assert not widths[open_].any(), f"no cause at {at[open_ & (widths > 0)].tolist()} ps"
    return total


def _inside(intervals: Iterable[Interval], at: Ints) -> Flags:
    """At which of the instants some half-open interval is open."""
    pairs = np.array(list(intervals), dtype=np.int64).reshape(-1, 2)
    begun = np.searchsorted(np.sort(pairs[:, 0]), at, side="right")
    ended = np.searchsorted(np.sort(pairs[:, 1]), at, side="right")
    return np.asarray(begun > ended)


def _lanes(workload: Workload, timeline: Timeline, index: int) -> _Lanes:
    lanes = _Lanes()
    program = workload.programs[index]
    for row in np.flatnonzero(timeline.program == index).tolist():
        at, walk = int(timeline.start_ps[row]), int(timeline.walk[row])
        body = program.bodies[str(timeline.kind[row]), int(timeline.chunk[row])]
        number = 0
        for step in body.steps:
            if isinstance(step, Compute):
                own = lanes.optimizer if step.kind == "optimizer" else lanes.compute
                for position, duration in enumerate(step.durations_ps):
                    own[position].append((at, at + duration))
                lanes.computing.append((at, at + max(step.durations_ps)))
                at += max(step.durations_ps)
            elif isinstance(step, Collect):
                if walk < 0:
                    interval = (at, at + timeline.folded[body][number])
                else:
                    interval = (int(timeline.collects[walk][number, 0]), int(timeline.collects[walk][number, 1]))
                lanes.collective.append(interval)
                at, number = interval[1], number + 1
        lanes.end = max(lanes.end, int(timeline.end_ps[row]))
        if timeline.kind[row] == "B":
            lanes.last_backward = max(lanes.last_backward, int(timeline.end_ps[row]))
    lanes.syncing.append((int(timeline.reached_ps[index]), int(timeline.synced_ps[index])))
    lanes.missing_until = max(
        (
            int(r)
            for s, times in zip(workload.syncs, timeline.released_ps, strict=True)
            if index in s.programs
            for r in times
        ),
        default=0,
    )
    return lanes


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
    for number in range(len(workload.syncs)):
        _check_sync(workload, timeline, number, rows)
    latest = int(timeline.end_ps.max())
    assert timeline.makespan_ps == latest, f"the last action ends at {latest}, makespan {timeline.makespan_ps}"


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
    assert reached == last, f"program {index} reaches its syncs at {reached}, its last backward ends at {last}"
    done_ps = [
        int(time)
        for sync, times in zip(workload.syncs, timeline.done_ps, strict=True)
        for member, time in zip(sync.programs, times, strict=True)
        if member == index
    ]
    latest = max(reached, *done_ps) if done_ps else reached
    assert synced == latest, f"program {index} is synced at {synced}, its syncs end at {latest}"
    if update:
        assert int(starts[-1]) == synced, f"program {index} updates at {starts[-1]}, synced at {synced}"


def _check_steps(workload: Workload, timeline: Timeline, row: int) -> None:
    index, walk = int(timeline.program[row]), int(timeline.walk[row])
    program = workload.programs[index]
    body = program.bodies[str(timeline.kind[row]), int(timeline.chunk[row])]
    name = f"program {index}, {timeline.kind[row]}{timeline.micro_batch[row]}"
    walked = [] if walk < 0 else timeline.collects[walk].tolist()
    steps = [step for step in body.steps if isinstance(step, Collect)]
    expected = len(walked) if walk >= 0 else len(timeline.folded.get(body, ()))
    assert expected == len(steps), f"{name}: {expected} collectives took time, the body has {len(steps)}"
    at, number = int(timeline.start_ps[row]), 0
    for step in body.steps:
        if isinstance(step, Compute):
            assert len(step.durations_ps) == len(program.devices.ranks), f"{name}: not one duration per rank"
            at += max(step.durations_ps)
        elif isinstance(step, Collect):
            start, end = walked[number] if walk >= 0 else (at, at + timeline.folded[body][number])
            assert start == at, f"{name}: collective {number} starts at {start}, the step before ends at {at}"
            assert end >= start, f"{name}: collective {number} ends before it starts"
            at, number = end, number + 1
    assert at == int(timeline.end_ps[row]), f"{name} ends at {timeline.end_ps[row]}, its steps at {at}"


def _check_moves(workload: Workload, timeline: Timeline) -> None:
    columns = (timeline.program, timeline.kind, timeline.micro_batch, timeline.chunk)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    start: Mapping[tuple[int, str, int, int], int] = dict(zip(keys, timeline.start_ps.tolist(), strict=True))
    end: Mapping[tuple[int, str, int, int], int] = dict(zip(keys, timeline.end_ps.tolist(), strict=True))
    for move in workload.moves:
        for action in workload.programs[move.source].actions:
            if (action.kind, action.chunk) != (move.kind, move.source_chunk):
                continue
            sent = end[move.source, move.kind, action.micro_batch, move.source_chunk]
            used = start[move.target, move.kind, action.micro_batch, move.target_chunk]
            name = f"{move.kind}{action.micro_batch} of program {move.target}"
            assert used >= sent, f"{name} starts at {used}, program {move.source} sends its input at {sent}"


def _check_sync(workload: Workload, timeline: Timeline, number: int, rows: Mapping[int, list[int]]) -> None:
    sync = workload.syncs[number]
    released, done = timeline.released_ps[number], timeline.done_ps[number]
    for member, program in enumerate(sync.programs):
        name = f"sync {number}, program {program}"
        at = int(released[member])
        assert at <= int(timeline.reached_ps[program]), f"{name}: released at {at}, after its last backward"
        assert int(done[member]) >= at, f"{name}: done before its own release"
        bodies = workload.programs[program].bodies
        announcing = {key for key, body in bodies.items() if Ready(number) in body.steps}
        inside = [
            r
            for r in rows[program]
            if (str(timeline.kind[r]), int(timeline.chunk[r])) in announcing
            and int(timeline.start_ps[r]) <= at <= int(timeline.end_ps[r])
        ]
        assert inside or not announcing, f"{name}: released at {at}, outside the actions that complete its gradients"
    assert int(done.max()) >= int(released.max()), f"sync {number} is done before its last member came"
