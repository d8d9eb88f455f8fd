"""What a single run leaves beside its row: tables per rank, operator, link and so on, over time, and a timeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runners.run_tables import TIMELINE
from runners.whole_files import write_whole
from xsim.tables import Table

__all__ = ["DOCS", "lacking", "write_large", "write_tables"]

TRACE = "trace.json"

UNITS = {"_ps": "ps", "_bytes": "B", "_bytes_per_s": "B/s"}  # by the end of a column's name

DOCS: Mapping[str, str] = {
    "rank": "global rank",
    "host": "position of its host in the cluster",
    "device": "its name",
    "speed": "clock of its device over the nominal one, in the iteration that the tables show",
    "iteration": "of those that were simulated, from 0",
    "iteration_ps": "how long it took",
    "replica": "position in the deployment",
    "stage": "position in the replica",
    "group": "position in the stage",
    "compute_ps": "in forward and backward operators",
    "optimizer_ps": "in the optimizer",
    "tp_comm_ps": "in collectives of its own group, every member there",
    "dp_comm_ps": "in gradient syncs, every member there and nothing left to hide them",
    "bubble_ps": "waiting for the pipeline",
    "straggler_wait_ps": "waiting for slower ranks or replicas; the results of a sweep call it idle_time_s",
    "end_ps": "when it ended; of a rank, when its program did",
    "weight_bytes": "weights that it holds",
    "gradient_bytes": "gradients that it holds",
    "optimizer_bytes": "state of the optimizer",
    "activation_bytes": "kept for the backward passes of all micro-batches in flight",
    "workspace_bytes": "what its widest operator reads and writes",
    "buffer_bytes": "what is handed over between stages, and of sharded gradients and weights what is whole for a time",
    "reserve_bytes": "of the framework, and what lies unusable between tensors",
    "action": "F forward, B backward or its halves I and W, with its micro-batch and virtual stage; U0 the update; "
    "of a critical path that in which it is: a hand-over follows it, a sync what its last member did in it",
    "from_ps": "when it began",
    "until_ps": "when it ended",
    "kept_bytes": "activations that are kept when it has ended",
    "needed_bytes": "the most that the rank needs meanwhile, of all causes",
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
    "sent_bytes": "begun to be sent, headers, acknowledgements and pause frames included; in a table over time, within "
    "the interval that ends then",
    "packets": "begun to be sent, acknowledgements and pause frames included",
    "marks": "packets marked as they left its queue",
    "pauses": "how often its far end told it to pause",
    "paused_ps": "for how long it was paused",
    "drops": "packets that found no room behind it",
    "lost": "packets lost on the wire",
    "cuts": "packets that found no room in its queue, of which the header alone was sent",
    "go_backs": "how often senders went back and sent again what was missing; of a link, of the flows that begin at it",
    "queued_bytes": "waiting at its port at that instant, beside what is being sent",
    "rate_bytes_per_s": "bytes of packets that it began to send in the interval that ends then, over its length",
    "percent": "of the flows",
    "flows": "how many took that long",
    "duration_ps": "from start to completion; of a percentage of the flows, what so many do not exceed",
    "flow": "what it is called in its list",
    "src": "host that sends",
    "dst": "host that receives",
    "start_ps": "when it began",
    "piece": "of the critical path: compute; collective of a device group; hand_over between stages; sync of gradients "
    "or parameters",
    "held_up_ps": "what it took longer than with the wires to itself",
    "lever": "what is changed",
    "makespan_ps": "the iteration with that; that of the run where it cannot be",
    "saved_ps": "by how much the iteration is shorter",
    "fits": "whether it fits into memory with that",
    "problem": "why it cannot be; empty if it can",
    "pipeline": "which of a plan's entries, from 0",
    "pipelines": "how many equal ones the entry stands for",
    "first_layer": "that it holds; 0 is the embedding",
    "last_layer": "that it holds; the head comes after all others",
    "tp": "devices that cut a copy among them, or the part of one context rank",
    "cp": "context-parallel degree: parts of every sequence",
    "ep": "expert-parallel degree: copies that share out the experts",
    "copies": "data-parallel ones, on devices of this kind",
    "samples": "of each micro-batch that a copy takes",
    "micro_batch": "samples of one, or in a table of passes its number",
    "micro_batches": "of each pipeline in an iteration",
    "recompute": "operators that are computed again, and in how many layers; empty if none is",
    "part": "of the stage: which of its kinds of copies, from 0",
    "pass": "F forward, B backward or its halves I and W, U update, S waiting for gradient syncs",
}


def write_large(folder: Path, tables: Mapping[str, Table | bytes]) -> None:
    """Tables as Parquet files of their names, a timeline as ``trace.json``."""
    for name, table in tables.items():
        if isinstance(table, bytes):
            write_whole(folder / TRACE, table)
        else:
            write_tables(folder, {name: table})


def lacking(folder: Path, names: Collection[str]) -> bool:
    """Whether a run whose tables lie in ``folder`` has to run again for those called ``names``."""
    files = {name: TRACE if name == TIMELINE else f"{name}.parquet" for name in names if name != "queues"}
    return not all((folder / file).is_file() for file in files.values())


def write_tables(folder: Path, tables: Mapping[str, Table]) -> None:
    """Each as a Parquet file of its name; every column carries its unit and meaning."""
    for name, columns in tables.items():
        write_whole(folder / f"{name}.parquet", _parquet(columns))


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
