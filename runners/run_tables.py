"""The large tables of a run, as plain columns: what a worker can send and the driver, or a single run, writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

from runners.options import TABLES
from xsim.experiment import Experiment, Result
from xsim.plan.memory import memory_curves
from xsim.tables import (
    Table,
    collective_table,
    completion_table,
    exchange_table,
    flow_table,
    iteration_table,
    link_table,
    memory_table,
    operator_table,
    queue_table,
    rank_table,
)
from xsim.trace import trace_events

__all__ = ["TIMELINE", "run_tables", "timeline", "traced"]

TRACED_RANKS = 64  # a timeline of 1024 ranks would be a file of 700 MB
TIMELINE = "timeline"


def _ranks(experiment: Experiment, result: Result) -> Table:
    found = (result.workload, result.timeline, result.account, result.memory)
    return rank_table(experiment.scenario, *found, result.speeds)


def _memory(experiment: Experiment, result: Result) -> Table:
    curves = memory_curves(experiment.scenario, result.deployment, experiment.schedule.order)
    return memory_table(curves, result.workload, result.timeline, result.memory)


def _links(_experiment: Experiment, result: Result) -> Table:
    return link_table(result.fabric, result.network, result.timeline.makespan_ps)


def _queues(_experiment: Experiment, result: Result) -> Table | None:
    samples = result.network.samples
    return None if samples is None else queue_table([link.name for link in result.fabric.links], samples)


_TABLES: Mapping[str, Callable[[Experiment, Result], Table | None]] = {
    "ranks": _ranks,
    "memory": _memory,
    "operators": lambda _, result: operator_table(result.account),
    "links": _links,
    "exchanges": lambda _, result: exchange_table(result.workload, result.optimality),
    "collectives": lambda _, result: collective_table(result.collectives),
    "completion": lambda _, result: completion_table(result.network.flows),
    "flows": lambda _, result: flow_table(result.network.flows),
    "queues": _queues,
    "iterations": lambda _, result: iteration_table(result.iterations),
}


def run_tables(experiment: Experiment, result: Result, names: Collection[str] = TABLES) -> dict[str, Table]:
    """The tables of these names; without one that the run has not, such as queues that were not sampled."""
    found = {name: make(experiment, result) for name, make in _TABLES.items() if name in names}
    return {name: table for name, table in found.items() if table is not None}


def timeline(experiment: Experiment, result: Result) -> bytes:
    """For Perfetto, as JSON."""
    events = trace_events(result.workload, result.timeline, experiment.scenario, traced(result))
    return json.dumps({"traceEvents": events}, separators=(",", ":")).encode()


def traced(result: Result) -> frozenset[int] | None:
    """Ranks in the timeline: all of a small deployment (None), else the first of each group of the first replica."""
    if len(result.account.ranks) <= TRACED_RANKS:
        return None
    return frozenset(program.devices.ranks[0] for program in result.workload.programs if program.replica == 0)
