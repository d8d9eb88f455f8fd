"""An iteration as events of the Chrome trace format, which https://ui.perfetto.dev shows.

A process of the trace is a replica, a thread a rank. A rank's outer slices cover the whole iteration: its actions, with
operators and collectives inside them, and its waits, named by their cause. Arrows follow activations and gradients from
group to group; syncs are asynchronous slices, since computation may hide them.

The format (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) counts in microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from xsim.plan.workload import Action, Collect, Program, Workload
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import rank_devices, rank_hosts
from xsim.spec.scenario import Scenario
from xsim.waits import CAUSES, action_steps, early_waits, fetch_waits, gathers, waits

__all__ = ["trace_events"]

PS_PER_US = 10**6

Event = dict[str, Any]  # as JSON has it


def trace_events(
    workload: Workload, timeline: Timeline, scenario: Scenario | None = None, ranks: Collection[int] | None = None
) -> list[Event]:
    """The events; a file of them is ``{"traceEvents": [...]}`` or the list itself.

    Args:
        workload: What ran.
        timeline: When it ran.
        scenario: If given, threads name their device and host too.
        ranks: Which ranks to show; absent: all. An action of a rank takes an event per step of its body.
    """
    programs = workload.programs
    shown = {
        index: members
        for index, program in enumerate(programs)
        if (members := [(i, r) for i, r in enumerate(program.devices.ranks) if ranks is None or r in ranks])
    }
    waited: dict[int, list[tuple[str, int, int]]] = {index: [] for index in range(len(programs))}
    found = waits(workload, timeline)
    columns = (found.program.tolist(), found.start_ps.tolist(), found.end_ps.tolist(), found.cause.tolist())
    for index, start, end, cause in zip(*columns, strict=True):
        waited[index].append((CAUSES[cause], start, end))
    for index, start, there, end in fetch_waits(workload, timeline):
        parts = (("straggler_wait", start, there), ("dp_comm", there, end))
        waited[index] += [part for part in parts if part[1] < part[2]]
    gathering = gathers(workload)
    early: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
    for index, position, start, end, cause in early_waits(workload, timeline):
        early.setdefault((index, position), []).append((CAUSES[cause], start, end))
    events: list[Event] = []
    for index, members in shown.items():
        rows: list[int] = np.flatnonzero(timeline.program == index).tolist()
        for position, rank in members:
            thread = {"pid": programs[index].replica, "tid": rank}
            events += _names(programs[index], position, thread, scenario)
            events += [_slice(thread, name, "wait", start, end) for name, start, end in waited[index]]
            for row in rows:
                followed = timeline.kind[row] != "U" or index in gathering
                events += _action(workload, timeline, row, position, thread, followed=followed)
            own = early.get((index, position), ())
            events += [_slice(thread, name, "wait", start, end) for name, start, end in own]
    threads = {index: {"pid": programs[index].replica, "tid": members[0][1]} for index, members in shown.items()}
    return [*events, *_arrows(workload, timeline, threads), *_syncs(workload, timeline, threads)]


def _names(program: Program, position: int, thread: Event, scenario: Scenario | None) -> Iterator[Event]:
    """What the thread is called, and that it stands below those of earlier stages."""
    rank = thread["tid"]
    name = f"rank {rank}, stage {program.stage}"
    if len(program.devices.ranks) > 1:
        name += f", TP {position}"
    if scenario is not None:
        name += f", {rank_devices(scenario.cluster)[rank].name} in host {rank_hosts(scenario.cluster)[rank]}"
    yield {**thread, "ph": "M", "name": "process_name", "args": {"name": f"replica {program.replica}"}}
    yield {**thread, "ph": "M", "name": "thread_name", "args": {"name": name}}
    order = (program.stage * 1000 + program.group) * 1000 + position
    yield {**thread, "ph": "M", "name": "thread_sort_index", "args": {"sort_index": order}}


def _slice(thread: Event, name: str, category: str, start_ps: int, end_ps: int) -> Event:
    timing = {"ts": start_ps / PS_PER_US, "dur": (end_ps - start_ps) / PS_PER_US}
    return {**thread, "ph": "X", "name": name, "cat": category, **timing}


def _action(
    workload: Workload, timeline: Timeline, row: int, position: int, thread: Event, *, followed: bool
) -> Iterator[Event]:
    """The slice of an action, and in it what the rank at ``position`` of the group does in each step.

    Args:
        followed: The group goes on together after it.
    """
    name = f"{timeline.kind[row]}{timeline.micro_batch[row]}"
    if timeline.chunk[row]:
        name += f".{timeline.chunk[row]}"
    yield _slice(thread, name, "action", int(timeline.start_ps[row]), int(timeline.end_ps[row]))
    steps = list(action_steps(workload, timeline, row))
    for number, (step, start, talked, end) in enumerate(steps, start=1):
        own_end = start
        work = step.beside if isinstance(step, Collect) else step
        if work is not None:
            own_end += work.durations_ps[position]
            yield _slice(thread, work.kind, "optimizer" if work.kind == "optimizer" else "compute", start, own_end)
        if isinstance(step, Collect) and (talked > own_end or work is None):
            yield _slice(thread, f"{step.kind}_comm", "tp_comm", own_end, talked)
        own_end = max(own_end, talked)
        if own_end < end and (number < len(steps) or followed or isinstance(step, Collect)):
            yield _slice(thread, "straggler_wait", "wait", own_end, end)


def _arrows(workload: Workload, timeline: Timeline, threads: Mapping[int, Event]) -> Iterator[Event]:
    """One per move and micro-batch, from the action that sends to the action that needs it."""
    columns = (timeline.program, timeline.kind, timeline.chunk, timeline.micro_batch, timeline.start_ps)
    start_us: dict[tuple[int, str, int], dict[int, float]] = {}
    for program, kind, chunk, micro_batch, start in zip(*(column.tolist() for column in columns), strict=True):
        carried = Action(kind, micro_batch, chunk).carries
        start_us.setdefault((program, carried, chunk), {})[micro_batch] = start / PS_PER_US
    number = 0
    for move in workload.moves:
        if move.source not in threads or move.target not in threads:
            continue
        name = {"name": "activation" if move.kind == "F" else "gradient", "cat": "move"}
        needed = start_us[move.target, move.kind, move.target_chunk]
        for micro_batch, sent in start_us[move.source, move.kind, move.source_chunk].items():
            yield {**threads[move.source], **name, "ph": "s", "id": number, "ts": sent}
            yield {**threads[move.target], **name, "ph": "f", "bp": "e", "id": number, "ts": needed[micro_batch]}
            number += 1


def _syncs(workload: Workload, timeline: Timeline, threads: Mapping[int, Event]) -> Iterator[Event]:
    """A pair per gradient sync and member: from the member's coming to its result."""
    for number, sync in enumerate(workload.syncs):
        name = {"name": sync.content, "cat": "sync"}
        joined, done = timeline.joined_ps[number].tolist(), timeline.done_ps[number].tolist()
        for program, start, end in zip(sync.programs, joined, done, strict=True):
            if program in threads:
                where = {**threads[program], **name, "id": f"{number}/{program}"}
                args = {"size_bytes": sync.size_bytes} | ({"strategy": sync.strategy} if sync.strategy else {})
                yield {**where, "ph": "b", "ts": start / PS_PER_US, "args": args}
                yield {**where, "ph": "e", "ts": end / PS_PER_US}
