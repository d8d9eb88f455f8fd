"""Results on disk: one whole Arrow file per finished run, folded into Parquet parts by hundreds.

Only the process that started the sweep writes. Every file appears under its name complete or not at all: it is
written under a name that begins with a dot, forced to disk, and renamed. A row leaves its own file only when the part
that holds it, and the manifest that names the part, are safe.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.best import shortened
from analysis.stored import DETAIL, MANIFEST, RUNS, TABLE, Loose, gathered, loose, newest, parts, read_json, stored
from analysis.tables import SWEEP, SWEEPS, filled, rows_of, runs
from analysis.version import CONFIG, SCHEMA_VERSION
from runners.locks import lock
from runners.options import LABELS
from runners.points import Point
from runners.whole_files import write_whole
from runners.worker import Outcome
from xsim.metrics import COLUMNS

__all__ = ["SCHEMA", "VOLATILE", "Store", "row_of"]

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
    (CONFIG, "text", "", "the resolved experiment"),
)
_VOLATILE = (
    ("tables", "text", "", "folder of its large tables, beside this one, if the sweep that ran it asked for any"),
    ("wall_s", "float", "s", "how long the simulation took"),
    ("search_s", "float", "s", "what of it the planner took to find its plan; null if it found none"),
    ("worker", "int", "1", "number of the process that ran it; -1: none did"),
    ("attempt", "int", "1", "how often it was started"),
    ("details", "text", "", "traceback of a failure"),
)
FOLD_ROWS = 500  # rows in files of their own at most: a reader needs 0.3 ms for each
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

_STRUCT = pa.struct(list(SCHEMA))

Row = dict[str, object]
NOTHING: Mapping[str, object] = {}


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
        CONFIG: point.config_json,
        "tables": f"{DETAIL}/{point.key}" if outcome.get("tables") else None,
        "wall_s": outcome["wall_s"],
        "search_s": outcome.get("search_s"),
        "worker": worker,
        "attempt": attempt,
        "details": outcome["details"],
    }
    return {name: known.get(name) for name in SCHEMA.names}


@dataclass(slots=True)
class Store:
    """The folder of one grid."""

    folder: Path
    _unfolded: int = field(default=0, init=False)

    def known(self) -> dict[str, str]:
        """Status of every run that is there, by key."""
        table = self._all(("key", "status"))
        return dict(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))

    def older(self, code: str) -> int:
        """How many rows another version of the simulator than ``code`` wrote."""
        return sum(other != code for other in self._all(("key", "code"))["code"].to_pylist())

    def rows(self, points: Iterable[Point]) -> pa.Table:
        """The rows of ``points``, in their order and under their names, whichever sweep wrote them."""
        return self._rows(list(points), SCHEMA.names)

    def rows_in_brief(self, points: Iterable[Point]) -> pa.Table:
        """The same as far as reports read them: of many thousands of rows the configs are nearly all there is."""
        wanted = list(points)
        table = self._rows(wanted, [name for name in SCHEMA.names if name != CONFIG])
        configs = {point.key: shortened(point.config_json) for point in wanted}
        return table.append_column(CONFIG, pa.array([configs[key] for key in table["key"].to_pylist()], pa.string()))

    def everything(self) -> pa.Table:
        """The newest row of every key, of every version."""
        return self._all()

    def begin(self, asked: Mapping[str, object], *, shared: bool = False) -> None:
        """Note what was asked, by the last sweep and by each.

        And remove what dead writers left, unless the folder is ``shared`` with writers elsewhere.
        """
        for pattern in () if shared else (".*", f"{TABLE}/.*", f"{SWEEPS}/.*", f"{RUNS}/??/.*"):
            for path in self.folder.glob(pattern):
                if _is_abandoned(path):
                    path.unlink(missing_ok=True)
        write_whole(self.folder / SWEEP, _json(asked))
        if "sweep" in asked:
            write_whole(self.folder / SWEEPS / f"{asked['sweep']}.json", _json(asked))

    def write(self, row: Row) -> None:
        """One finished run; every ``FOLD_ROWS`` of them are folded into a part."""
        key = str(row["key"])
        values = pa.array([row], _STRUCT)  # all columns at once: an array for each takes three times as long
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, SCHEMA) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(values.flatten(), schema=SCHEMA))
        write_whole(self.folder / RUNS / key[:2] / f"{key}.arrow", sink.getvalue().to_pybytes())
        self._unfolded += 1
        if self._unfolded >= FOLD_ROWS:
            self.compact()

    def note(
        self,
        state: str,
        total: int,
        done: Mapping[str, int],
        eta_s: float | None,
        more: Mapping[str, object] = NOTHING,
        name: str = "status.json",
    ) -> None:
        """Where the sweep stands, for other programs: of its ``total`` points, how many ended with which status.

        A process that was killed cannot say so: whether it lives shows its number, or how old the note is.
        """
        status: dict[str, object] = {"state": state, "total": total, "done": dict(done), "eta_s": eta_s}
        status |= more
        status |= {"pid": os.getpid(), "host": socket.gethostname(), "noted_unix_s": round(time.time(), 1)}
        write_whole(self.folder / name, _json(status))

    def compact(self) -> None:
        """Fold the runs that have files of their own into a part. If that fails nothing is lost: they stay."""
        self._unfolded = 0
        try:
            single = list[Loose]()
            rows = gathered(_noted(loose(self.folder), single))
            if rows is None:
                return
            (self.folder / TABLE).mkdir(parents=True, exist_ok=True)
            holder = lock(self.folder / TABLE / ".lock", surely=True)
            if holder is None:  # another process does it, or might
                return
            with holder:
                _fold(self.folder, rows)
                for entry in single:
                    if entry.untouched:
                        entry.path.unlink(missing_ok=True)
            pa.default_memory_pool().release_unused()
        except OSError as error:
            warnings.warn(f"{self.folder}: runs keep files of their own: {error.strerror}", stacklevel=2)

    def _rows(self, points: Sequence[Point], columns: Sequence[str]) -> pa.Table:
        table = stored(self.folder, columns)
        there = SCHEMA.empty_table().select(columns) if table is None else filled(table, columns)
        found = rows_of(there, [point.named for point in points])
        pa.default_memory_pool().release_unused()
        return found

    def _all(self, columns: Sequence[str] | None = None) -> pa.Table:
        found = runs(self.folder, columns)
        return SCHEMA.empty_table() if found is None else found


def _noted(found: Iterable[tuple[Loose, pa.Table]], files: list[Loose]) -> Iterator[pa.Table]:
    """The tables of ``found``, whose ``files`` are noted."""
    for file, table in found:
        files.append(file)
        yield table


def _fold(folder: Path, rows: pa.Table) -> None:
    """Write ``rows`` as the newest part, the small ones before it in the same; of old rows half at most stay.

    A broken part is put aside as soon as all that was asked for is there without it.
    """
    found = parts(folder, ("key",))
    there = {name: table for name, table in found.items() if table is not None or (folder / TABLE / name).exists()}
    names = list(there)
    kept = len(names)
    while kept and (last := there[names[kept - 1]]) is not None and last.num_rows < FOLD_ROWS:
        kept -= 1
    whole = [table for table in there.values() if table is not None]
    distinct = {key for table in (*whole, rows) for key in table["key"].to_pylist()}
    if len(whole) == len(names) and sum(table.num_rows for table in whole[:kept]) > 2 * len(distinct):
        kept = 0
    broken = [name for name in names if there[name] is None] if _asked(folder, distinct) else []
    joined = newest([*(pq.read_table(folder / TABLE / name) for name in names[kept:]), rows])
    assert joined is not None
    taken = {*found, *(path.name for path in (folder / TABLE).glob("part-*.parquet*"))}
    numbers = (int(number[1]) for each in taken if (number := re.match(r"part-(\d+)\.parquet", each)))
    name = f"part-{1 + max(numbers, default=0):06d}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(joined.combine_chunks(), sink, compression="zstd")
    write_whole(folder / TABLE / name, sink.getvalue().to_pybytes())
    named = [*(each for each in names[:kept] if each not in broken), name]
    write_whole(folder / TABLE / MANIFEST, _json({"schema_version": SCHEMA_VERSION, "parts": named}))
    for each in broken:
        (folder / TABLE / each).rename(folder / TABLE / f"{each}.broken")
    for path in (folder / TABLE).glob("part-*.parquet"):
        if path.name not in named:
            path.unlink()


def _asked(folder: Path, keys: Set[str]) -> bool:
    """Whether ``keys`` are all that sweeps of the present version asked for: what a broken part held ran again."""
    last = read_json(folder / SWEEP)
    notes = [last, *map(read_json, (folder / SWEEPS).glob("[!.]*.json"))]
    own = [note["points"] for note in notes if note.get("code") == last.get("code") and note.get("points")]
    return bool(own) and all(point["key"] in keys for points in own for point in points)


def _is_abandoned(path: Path) -> bool:
    """Whether ``path`` is half of a file whose writer, on this machine, has ended."""
    writer = re.fullmatch(r"\..+\.(\d+)@(.+)", path.name)
    return writer is not None and writer[2] == socket.gethostname() and not Path("/proc", writer[1]).exists()


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
