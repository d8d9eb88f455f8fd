"""The details of one iteration as columns: per rank, operator, link, exchange, kind of collective, and over time.

A table maps column names to columns of one length, plain lists or arrays; names end in their unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from xsim.account import Account
from xsim.fabric.fabric import Fabric
from xsim.iterations import Iterations
from xsim.optimality import Distance, Optimality
from xsim.plan.memory import RankMemory, Verdict
from xsim.plan.noted import Taken
from xsim.plan.workload import Action, Sync, Workload
from xsim.sim.contracts import FlowTimes, LinkCounts, LinkSamples, NetworkStats
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import rank_devices, rank_hosts
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S
from xsim.waits import CAUSES

__all__ = [
    "Table",
    "collective_table",
    "completion_table",
    "count_columns",
    "exchange_table",
    "flow_table",
    "iteration_table",
    "link_table",
    "memory_table",
    "operator_table",
    "queue_table",
    "ranges",
    "rank_table",
]

Table = dict[str, Sequence[str] | Sequence[int] | NDArray[np.int64] | NDArray[np.float64]]

_SYNCS = {"sum": "sync "} | {does: f"sync {does} " for does in ("scatter", "gather", "ahead", "fetch")}
_CARRIED = {"F": "activations", "B": "gradients of activations"}
_PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 100)
_MEMORY = tuple(field.name for field in fields(RankMemory))


def rank_table(
    scenario: Scenario,
    workload: Workload,
    timeline: Timeline,
    account: Account,
    memory: Verdict,
    speeds: Sequence[float] = (),
) -> Table:
    """A row per rank of the deployment: its place, its six causes (they sum to the makespan), its end, its memory.

    Args:
        speeds: Of the device of each rank of the cluster; empty: as the cluster has them.
    """
    programs = [workload.programs[index] for index in account.program.tolist()]
    devices = rank_devices(scenario.cluster)
    hosts = rank_hosts(scenario.cluster)
    ranks: list[int] = account.ranks.tolist()
    return {
        "rank": ranks,
        "host": [hosts[rank] for rank in ranks],
        "device": [devices[rank].name for rank in ranks],
        "speed": np.array([speeds[rank] if speeds else devices[rank].speed for rank in ranks], dtype=np.float64),
        "replica": [program.replica for program in programs],
        "stage": [program.stage for program in programs],
        "group": [program.group for program in programs],
        **{f"{cause}_ps": account.cause_ps(cause) for cause in CAUSES},
        "end_ps": timeline.ended_ps[account.program],
        **{name: [getattr(need, name) for _, need in memory.needs] for name in _MEMORY},
        "peak_memory_bytes": [need.total_bytes for _, need in memory.needs],
        "device_memory_bytes": [devices[rank].memory_bytes for rank in ranks],
    }


def memory_table(
    curves: Mapping[int, Mapping[Action, tuple[int, int]]], workload: Workload, timeline: Timeline, memory: Verdict
) -> Table:
    """A row per rank and action, in order: what the rank needs meanwhile, by cause, and what it keeps afterwards.

    Args:
        curves: Of each rank and action, the most activations during it, and those after it (``memory_curves``).
    """
    needs = dict(memory.needs)
    own = [np.flatnonzero(timeline.program == index) for index in range(len(workload.programs))]
    acting = [[_action(timeline, row) for row in rows.tolist()] for rows in own]
    program = {rank: index for index, each in enumerate(workload.programs) for rank in each.devices.ranks}
    ranks = sorted(program)
    rows = np.concatenate([own[program[rank]] for rank in ranks])
    times = [len(own[program[rank]]) for rank in ranks]
    kept = np.array([curves[rank].get(action, (0, 0)) for rank in ranks for action in acting[program[rank]]])
    causes = {name: np.repeat([getattr(needs[rank], name) for rank in ranks], times) for name in _MEMORY}
    causes["activation_bytes"] = kept[:, 0]
    return {
        "rank": np.repeat(ranks, times),
        "action": [str(action) for rank in ranks for action in acting[program[rank]]],
        "from_ps": timeline.start_ps[rows],
        "until_ps": timeline.end_ps[rows],
        **causes,
        "kept_bytes": kept[:, 1],
        "needed_bytes": np.sum(list(causes.values()), axis=0),
    }


def _action(timeline: Timeline, row: int) -> Action:
    return Action(str(timeline.kind[row]), int(timeline.micro_batch[row]), int(timeline.chunk[row]))


def operator_table(account: Account) -> Table:
    """A row per rank and operator kind that took any time on any rank."""
    used = np.flatnonzero(account.operators_ps.any(axis=0))
    return {
        "rank": np.repeat(account.ranks, len(used)),
        "operator": [account.operators[column] for column in used.tolist()] * len(account.ranks),
        "time_ps": account.operators_ps[:, used].ravel(),
    }


def link_table(fabric: Fabric, stats: NetworkStats, makespan_ps: int) -> Table:
    """A row per link: what it is, what it carried, in which part of the iteration it was busy, what packets did."""
    return {
        "link": [link.name for link in fabric.links],
        "link_kind": [link.kind for link in fabric.links],
        "bandwidth_bytes_per_s": fabric.bandwidth_bytes_per_s,
        "latency_ps": fabric.latency_ps,
        "carried_bytes": stats.link_bytes,
        "busy_ps": stats.link_busy_ps,
        "utilisation": stats.link_busy_ps / makespan_ps,
        **({} if stats.packets is None else count_columns(stats.packets)),
    }


def count_columns(counts: LinkCounts) -> Table:
    """What packets did on each link, as further columns."""
    return {field.name: getattr(counts, field.name) for field in fields(counts)}


def queue_table(links: Sequence[str], samples: LinkSamples) -> Table:
    """A row per instant and link that had anything to send then, or at the instant before."""
    return {
        "time_ps": samples.time_ps,
        "link": [links[link] for link in samples.link.tolist()],
        "queued_bytes": samples.queued_bytes,
        "sent_bytes": samples.sent_bytes,
        "rate_bytes_per_s": np.multiply(samples.sent_bytes, PS_PER_S / samples.interval_ps, dtype=np.float64),
    }


def completion_table(flows: FlowTimes) -> Table:
    """A row per percentage of the flows: the time within which so many are complete."""
    durations_ps = [flows.percentile_ps(percent) for percent in _PERCENTS] if len(flows.counts) else []
    percents = _PERCENTS[: len(durations_ps)]
    return {
        "percent": np.array(percents, dtype=np.int64),
        "duration_ps": np.array(durations_ps, dtype=np.int64),
    }


def flow_table(flows: FlowTimes) -> Table:
    """A row per completion time: how many flows took it; the shortest first."""
    return {"duration_ps": flows.durations_ps, "flows": flows.counts}


def iteration_table(iterations: Iterations) -> Table:
    """A row per iteration of the run, in order: how long it took."""
    return {
        "iteration": np.arange(len(iterations.times_ps), dtype=np.int64),
        "iteration_ps": np.array(iterations.times_ps, dtype=np.int64),
    }


def ranges(ranks: Sequence[int]) -> str:
    """Ranks in order, neighbours joined.

    >>> ranges((0, 1, 2, 7, 9))
    '0-2 7 9'
    """
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and parts[-1][-1] + 1 == rank:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return " ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def exchange_table(workload: Workload, found: Optimality) -> Table:
    """A row per hand-over and per gradient sync: between which groups, and how near it comes to the best possible.

    What syncs after every micro-batch is one row, which says how often.
    """
    names = [f"{program.replica}.{program.stage}.{program.group}" for program in workload.programs]
    ranks = [ranges(program.devices.ranks) for program in workload.programs]
    syncs: dict[Sync, Distance] = {}
    for sync, distance in zip(workload.syncs, found.syncs, strict=True):
        before = syncs[sync].times if sync in syncs else 0
        syncs[sync] = replace(distance, times=before + distance.times)
    distances = (*found.moves, *syncs.values())
    return {
        "exchange": [f"move {move.kind}" for move in workload.moves] + [_SYNCS[x.does] + x.kind for x in syncs],
        "content": [_CARRIED[move.kind] for move in workload.moves] + [sync.content for sync in syncs],
        "groups": [
            *(f"{names[move.source]} -> {names[move.target]}" for move in workload.moves),
            *(", ".join(names[program] for program in sync.programs) for sync in syncs),
        ],
        "ranks": [
            *(f"{ranks[move.source]} -> {ranks[move.target]}" for move in workload.moves),
            *(", ".join(ranks[program] for program in sync.programs) for sync in syncs),
        ],
        "strategy": [move.strategy for move in workload.moves] + [sync.strategy for sync in syncs],
        "times": np.array([distance.times for distance in distances], dtype=np.int64),
        "bound_ps": np.array([distance.bound_ps for distance in distances], dtype=np.int64),
        "alone_ps": np.array([distance.alone_ps for distance in distances], dtype=np.int64),
        "optimality": np.array([distance.optimality for distance in distances], dtype=np.float64),
    }


def collective_table(taken: Sequence[Taken]) -> Table:
    """A row per kind, size and extent of the collectives of the run: which way they took."""
    return {
        "collective": [each.kind for each in taken],
        "members": np.array([each.ranks for each in taken], dtype=np.int64),
        "hosts": np.array([each.hosts for each in taken], dtype=np.int64),
        "size_bytes": np.array([each.size_bytes for each in taken], dtype=np.int64),
        "way": [each.way for each in taken],
    }
