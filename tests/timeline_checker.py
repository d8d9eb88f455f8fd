"""An independent judge of timelines: could this have happened?

Actions in their order and apart, steps that fill their action, transfers and syncs after what they carry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from xsim.plan.workload import Action, Collect, Compute, Fetch, Ready, Workload
from xsim.sim.timeline import Timeline

__all__ = ["Fetched", "beside_ps", "check_timeline", "fetches"]

Fetched = Mapping[int, Mapping[int, tuple[int, int]]]


def fetches(workload: Workload, timeline: Timeline) -> Fetched:
    """Per fetch and gather ahead (sync number), when each program waited for it, as the steps of its actions say."""
    found: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    passed: dict[tuple[int, str, int], int] = defaultdict(int)
    columns = (timeline.program, timeline.kind, timeline.micro_batch, timeline.chunk, timeline.walk)
    for index, kind, micro_batch, chunk, walk in zip(*(column.tolist() for column in columns), strict=True):
        steps = workload.programs[index].body(Action(kind, micro_batch, chunk)).steps
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
    fetched = fetches(workload, timeline)
    for number, sync in enumerate(workload.syncs):
        if sync.does in ("ahead", "fetch"):
            _check_fetch(workload, timeline, number, fetched[number])
        if sync.does != "fetch":
            _check_sync(workload, timeline, number, rows)
    if workload.prefetch:
        _check_prefetches(workload, timeline, fetched)
    assert {workload.syncs[number].does for number in fetched} <= {"ahead", "fetch"}, "a step waits for another sync"
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
    if not (workload.blocking_sends or workload.rendezvous) or not sends:
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
    body = program.body(timeline.action(row))
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
            at, number = max(end, start + beside_ps(step)), number + 1
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
        elif sync.does == "ahead":
            assert at == 0, f"{name}: comes at {at} to what the iteration begins with"
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


def _check_prefetches(workload: Workload, timeline: Timeline, fetched: Fetched) -> None:
    """A program comes to a fetch when it uses what the one before has brought, to its first one when it needs it."""
    own: dict[int, list[tuple[int, int]]] = {}
    for number, times in fetched.items():
        for program, (start, _) in times.items():
            own.setdefault(program, []).append((start, number))
    for program, starts in own.items():
        had = None
        for start, number in starts:
            member = workload.syncs[number].programs.index(program)
            come = int(timeline.released_ps[number][member])
            assert come == (start if had is None else had), f"program {program} comes to fetch {number} at {come}"
            had = max(start, int(timeline.done_ps[number][member]))


def _check_fetch(workload: Workload, timeline: Timeline, number: int, fetched: Mapping[int, tuple[int, int]]) -> None:
    sync = workload.syncs[number]
    assert sorted(fetched) == sorted(sync.programs), f"fetch {number} is of {sync.programs}, {sorted(fetched)} come"
    for member, program in enumerate(sync.programs):
        name = f"fetch {number}, program {program}"
        ahead = sync.does == "ahead" or workload.prefetch
        columns = (timeline.needed_ps,) if ahead else (timeline.needed_ps, timeline.released_ps, timeline.joined_ps)
        noted = {int(times[number][member]) for times in columns}
        come, joined = int(timeline.released_ps[number][member]), int(timeline.joined_ps[number][member])
        assert sync.does == "ahead" or come == joined, f"{name}: comes at {come}, takes part from {joined}"
        start, end = fetched[program]
        assert noted == {start}, f"{name}: noted at {noted}, its action comes to it at {start}"
        done = int(timeline.done_ps[number][member])
        assert (max(done, start) if ahead else done) == end, f"{name}: has the weights at {done}, goes on at {end}"
        assert end >= start, f"{name}: done before it came"
    last = int(timeline.released_ps[number].max()) if workload.prefetch else max(start for start, _ in fetched.values())
    assert max(end for _, end in fetched.values()) >= last, f"fetch {number} is over before its last member came"


def _completing(workload: Workload, timeline: Timeline, number: int, rows: list[int]) -> list[int]:
    """Those of a program's actions that may complete its gradients for sync ``number``."""
    found: list[int] = []
    turns: dict[int, int] = defaultdict(int)
    for row in rows:
        kind, chunk = str(timeline.kind[row]), int(timeline.chunk[row])
        body = workload.programs[int(timeline.program[row])].body(timeline.action(row))
        announced = [step for step in body.steps if isinstance(step, Ready)]
        if any(step.sync + step.every * turns[chunk] == number for step in announced):
            found.append(row)
        turns[chunk] += kind in ("B", "W")
    return found


def _done_ps(workload: Workload, timeline: Timeline, number: int, program: int) -> int:
    """When ``program`` has the result of sync ``number``; 0 if it is no member."""
    members = workload.syncs[number].programs
    return int(timeline.done_ps[number][members.index(program)]) if program in members else 0


def beside_ps(step: Collect | Fetch) -> int:
    """How long the slowest rank computes beside a collective."""
    return max(step.beside.durations_ps) if isinstance(step, Collect) and step.beside is not None else 0
