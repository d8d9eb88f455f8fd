"""What a single run leaves beside its row: tables per rank, operator, link, exchange and collective, a timeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runners.store import write_whole
from xsim.experiment import Experiment, Result
from xsim.tables import Table, collective_table, exchange_table, link_table, operator_table, rank_table
from xsim.trace import trace_events

__all__ = ["DOCS", "traced", "write_detail"]

TRACED_RANKS = 64  # a timeline of 1024 ranks would be a file of 700 MB

UNITS = {"_ps": "ps", "_bytes": "B", "_bytes_per_s": "B/s"}  # by the end of a column's name

DOCS: Mapping[str, str] = {
    "rank": "global rank",
    "host": "position of its host in the cluster",
    "device": "its name",
    "replica": "position in the deployment",
    "stage": "position in the replica",
    "group": "position in the stage",
    "compute_ps": "in forward and backward operators",
    "optimizer_ps": "in the optimizer",
    "tp_comm_ps": "in collectives of its own group, every member there",
    "dp_comm_ps": "in gradient syncs, every member there and nothing left to hide them",
    "bubble_ps": "waiting for the pipeline",
    "straggler_wait_ps": "waiting for slower ranks or replicas; the results of a sweep call it idle_time_s",
    "end_ps": "when its program ended",
    "weight_bytes": "weights that it holds",
    "gradient_bytes": "gradients that it holds",
    "optimizer_bytes": "state of the optimizer",
    "activation_bytes": "kept for the backward passes of all micro-batches in flight",
    "workspace_bytes": "what its widest operator reads and writes",
    "peak_memory_bytes": "all it needs at once",
    "device_memory_bytes": "what its device has",
    "operator": "kind of operator, or of the communication that belongs to it",
    "time_ps": "what it took in the iteration",
    "link": "its name; one direction",
    "link_kind": "scale_up, pcie, nic or spine",
    "bandwidth_bytes_per_s": "of this direction",
    "latency_ps": "of this link alone",
    "carried_bytes": "in the iteration",
    "busy_ps": "time in which it carried something",
    "utilisation": "part of the iteration in which it was busy",
    "exchange": "a hand-over of activations (move F) or their gradients (move B), or a gradient sync and its class; "
    "with optimizer sharding to the shards (sync scatter), and of updated parameters from them (sync gather), with "
    "sharded weights before each pass (sync fetch)",
    "content": "what is exchanged: activations or their gradients, or which parameters or gradients of which layers",
    "groups": "replica.stage.group of those that take part",
    "ranks": "of each of these groups",
    "strategy": "which way the resharding strategy took, or which strategy was chosen; empty where it has but one",
    "times": "how often in the iteration",
    "bound_ps": "no plan takes less",
    "alone_ps": "what it takes with the wires to itself",
    "optimality": "bound over that time",
    "collective": "its kind",
    "members": "how many ranks take part",
    "hosts": "over how many hosts",
    "size_bytes": "of the whole tensor",
    "way": "the algorithm, and the protocol where one was chosen",
}


def write_detail(folder: Path, experiment: Experiment, result: Result) -> None:
    """``ranks``, ``operators``, ``links``, ``exchanges``, ``collectives`` as Parquet, ``trace.json`` for Perfetto."""
    scenario, timeline = experiment.scenario, result.timeline
    tables = {
        "ranks": rank_table(scenario, result.workload, timeline, result.account, result.memory),
        "operators": operator_table(result.account),
        "links": link_table(result.fabric, result.network, timeline.makespan_ps),
        "exchanges": exchange_table(result.workload, result.optimality),
        "collectives": collective_table(result.collectives),
    }
    for name, columns in tables.items():
        write_whole(folder / f"{name}.parquet", _parquet(columns))
    events = trace_events(result.workload, timeline, scenario, traced(result))
    write_whole(folder / "trace.json", json.dumps({"traceEvents": events}, separators=(",", ":")).encode())


def traced(result: Result) -> frozenset[int] | None:
    """Ranks in the timeline: all of a small deployment (None), else the first of each group of the first replica."""
    if len(result.account.ranks) <= TRACED_RANKS:
        return None
    return frozenset(program.devices.ranks[0] for program in result.workload.programs if program.replica == 0)


def _parquet(columns: Table) -> bytes:
    plain = pa.table(columns)
    fields = [field.with_metadata(_metadata(field.name)) for field in plain.schema]
    sink = pa.BufferOutputStream()
    pq.write_table(plain.cast(pa.schema(fields)), sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _metadata(column: str) -> dict[str, str]:
    unit = next((unit for end, unit in UNITS.items() if column.endswith(end)), "")
    return {"unit": unit, "doc": DOCS[column]}
