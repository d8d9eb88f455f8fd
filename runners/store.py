"""Results on disk: one whole Arrow file per finished run, compacted into Parquet when a sweep ends.

Only the process that started the sweep writes. Every file appears under its name complete or not at all: it is
written under a name that begins with a dot, forced to disk, and renamed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.tables import MANIFEST, RUNS, SWEEP, TABLE, compacted, rows_of, runs
from runners.inputs import SCHEMA_VERSION
from runners.options import LABELS
from runners.points import Point
from runners.worker import Outcome
from xsim.metrics import COLUMNS

__all__ = ["SCHEMA", "VOLATILE", "Store", "row_of", "write_whole"]

ARROW = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_(), "text": pa.string()}

# (name, kind, unit, meaning)
_IDENTITY = (
    ("key", "text", "", "identity of the run: hash of inputs, code and schema"),
    ("status", "text", "", "ok, failed, timeout, crashed, out_of_memory, does_not_fit or invalid"),
    ("reason", "text", "", "why the status is not ok"),
    *((label, "text", "", f"name of the {label} option") for label in LABELS),
    ("point", "text", "", "what else the sweep that ran it set or varied: model.seq_len=2048"),
    ("seed", "int", "1", "of everything random"),
    ("batch", "int", "1", "samples per iteration"),
)
_ORIGIN = (
    ("code", "text", "", "hash of the simulator's source"),
    ("config_json", "text", "", "the resolved experiment"),
)
_VOLATILE = (
    ("wall_s", "float", "s", "how long the simulation took"),
    ("worker", "int", "1", "number of the process that ran it; -1: none did"),
    ("attempt", "int", "1", "how often it was started"),
    ("details", "text", "", "traceback of a failure"),
)
VOLATILE = tuple(name for name, *_ in _VOLATILE)  # the columns that may differ between equal runs


def _field(name: str, kind: str, unit: str, doc: str) -> pa.Field:
    return pa.field(name, ARROW[kind], metadata={"unit": unit, "doc": doc})


SCHEMA: pa.Schema = pa.schema(
    [
        *(_field(*column) for column in _IDENTITY),
        *(_field(column.name, column.kind, column.unit, column.doc) for column in COLUMNS),
        *(_field(*column) for column in (*_ORIGIN, *_VOLATILE)),
    ],
    metadata={"schema_version": str(SCHEMA_VERSION)},
)

Row = dict[str, object]


def row_of(point: Point, outcome: Outcome, *, worker: int, attempt: int) -> Row:
    """The row of a finished run: every column of ``SCHEMA``, null where there is no figure."""
    known: Row = {
        "key": point.key,
        "status": outcome["status"],
        "reason": outcome["reason"],
        **point.labels,
        "point": point.choice,
        "seed": point.seed,
        "batch": point.batch,
        **outcome["metrics"],
        "code": point.code,
        "config_json": point.config_json,
        "wall_s": outcome["wall_s"],
        "worker": worker,
        "attempt": attempt,
        "details": outcome["details"],
    }
    return {name: known.get(name) for name in SCHEMA.names}


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of one grid."""

    folder: Path

    def known(self) -> dict[str, str]:
        """Status of every run that is there, by key."""
        table = self._all()
        return dict(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))

    def older(self, code: str) -> int:
        """How many rows another version of the simulator than ``code`` wrote."""
        return sum(other != code for other in self._all()["code"].to_pylist())

    def lasted(self) -> list[dict[str, Any]]:
        """How long each simulation took that is there, and of what: network, cluster, model and wall_s."""
        table = self._all()
        found = table.filter(pc.equal(table["status"], "ok")).select(["network", "cluster", "model", "wall_s"])
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def rows(self, points: Iterable[Point]) -> pa.Table:
        """The rows of ``points``, in their order and under their names, whichever sweep wrote them."""
        return rows_of(self._all(), [point.named for point in points])

    def begin(self, asked: Mapping[str, object], again: Collection[str], *, shared: bool = False) -> None:
        """Note what was asked, and remove what dead writers left, unless it is ``shared`` with writers elsewhere.

        The rows of ``again`` are to be replaced: the compacted table may not shadow them.
        """
        for pattern in () if shared else (".*", f"{TABLE}/.*", f"{RUNS}/??/.*"):
            for path in self.folder.glob(pattern):
                if _is_abandoned(path):
                    path.unlink(missing_ok=True)
        if again:
            (self.folder / TABLE / MANIFEST).unlink(missing_ok=True)
        write_whole(self.folder / SWEEP, _json(asked))

    def write(self, row: Row) -> None:
        """One finished run."""
        sink = pa.BufferOutputStream()
        table = pa.Table.from_pylist([row], schema=SCHEMA)
        with pa.ipc.new_file(sink, SCHEMA) as writer:
            writer.write_table(table)
        key = str(row["key"])
        write_whole(self.folder / RUNS / key[:2] / f"{key}.arrow", sink.getvalue().to_pybytes())

    def note(
        self, state: str, total: int, done: Mapping[str, int], eta_s: float | None, name: str = "status.json"
    ) -> None:
        """Where the sweep stands, for other programs: of its ``total`` points, how many ended with which status.

        A process that was killed cannot say so: whether it lives shows its number, or how old the note is.
        """
        status: dict[str, object] = {"state": state, "total": total, "done": dict(done), "eta_s": eta_s}
        status |= {"pid": os.getpid(), "host": socket.gethostname(), "noted_unix_s": round(time.time(), 1)}
        write_whole(self.folder / name, _json(status))

    def compact(self) -> None:
        """Bring the compacted table up to date, if it is not; the runs stay."""
        table_folder = self.folder / TABLE
        table = self._all()
        if table.num_rows == sum(part.num_rows for part in compacted(self.folder)):
            return
        old = table_folder.glob("part-*.parquet")
        number = 1 + max((int(path.stem.removeprefix("part-")) for path in old), default=0)
        part = f"part-{number:06d}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        write_whole(table_folder / part, sink.getvalue().to_pybytes())
        write_whole(table_folder / MANIFEST, _json({"parts": [part], "rows": table.num_rows}))
        for path in table_folder.glob("part-*.parquet"):
            if path.name != part:
                path.unlink()

    def _all(self) -> pa.Table:
        found = runs(self.folder)
        return SCHEMA.empty_table() if found is None else found


def write_whole(path: Path, data: bytes) -> None:
    """``data`` under ``path``, complete or not at all, also if the machine stops meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with hidden.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_abandoned(path: Path) -> bool:
    """Whether ``path`` is half of a file whose writer has ended."""
    writer = re.fullmatch(r"\..+\.(\d+)", path.name)
    return writer is not None and not Path("/proc", writer[1]).exists()


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
