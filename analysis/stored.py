"""What lies in a folder of results: single files of runs, and the parts that they are folded into.

A row is in a single file when it has just been written, and in a part later. No clock says which of two rows of one
key is the newer: a single file is newer than any part, and a part newer than those of lower numbers.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.version import CONFIG, SCHEMA_VERSION
from xsim.errors import SpecError

__all__ = [
    "DETAIL",
    "MANIFEST",
    "RUNS",
    "TABLE",
    "Loose",
    "gathered",
    "loose",
    "newest",
    "part_names",
    "parts",
    "read_json",
    "stored",
]

RUNS = "runs"
TABLE = "table"
DETAIL = "detail"  # large tables of runs, a folder for each
MANIFEST = "manifest.json"
NEEDED = ("key", "status", CONFIG)  # columns of every version
FOREIGN = "holds no runs, though its name says so, and is left out"
A_FEW = 64  # tables of one row that are held at a time
LOOKS = 5  # at a table that another process rewrites meanwhile


@dataclass(frozen=True, slots=True)
class Loose:
    """A run in a file of its own.

    Attributes:
        found: Which file that was when it was read, for whoever is about to remove it.
    """

    path: Path
    found: tuple[int, int]

    @property
    def untouched(self) -> bool:
        """Whether the file is still the one that was read."""
        try:
            return _identity(self.path) == self.found
        except FileNotFoundError:
            return False


def stored(folder: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The newest row of every key in ``folder``, of every version that this one can read; ``None`` without a row.

    Args:
        folder: Of a sweep.
        columns: Which to read, ``key`` among them; without it all.

    Raises:
        SpecError: A newer version of Xsim wrote there.
    """
    single = gathered(_some(table, columns) for _, table in loose(folder))  # before the parts: rows move there
    folded = [table for table in parts(folder, columns).values() if table is not None]
    return newest(folded if single is None else [*folded, single])


def gathered(tables: Iterable[pa.Table]) -> pa.Table | None:
    """``tables``, small ones, in one; a few at a time, as each costs far more than its rows. ``None`` without one."""
    few, whole = list[pa.Table](), list[pa.Table]()
    for table in tables:
        few.append(table)
        if len(few) == A_FEW:
            whole.append(_joined(few).combine_chunks())
            few.clear()
    return _joined([*whole, *few]) if whole or few else None


def newest(tables: Sequence[pa.Table]) -> pa.Table | None:
    """The rows of ``tables``, of each key the last; ``None`` without a row. Columns that one lacks are null there.

    Raises:
        SpecError: A column has types that do not go together.
    """
    filled = [table for table in tables if table.num_rows]
    if not filled:
        return None
    table = _joined(filled)
    last = {key: index for index, key in enumerate(table["key"].to_pylist())}
    if len(last) < table.num_rows:
        table = table.take(pa.array(sorted(last.values()), pa.int64()))
    return table


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        fix = "use another folder for each of the versions that wrote them"
        raise SpecError("results", "columns", f"their types do not go together: {error}", fix) from None


def loose(folder: Path) -> Iterator[tuple[Loose, pa.Table]]:
    """The runs that have files of their own; what a crash left half-written is not a run.

    Raises:
        SpecError: A newer version of Xsim wrote one.
    """
    for path in sorted((folder / RUNS).glob("??/[!.]*.arrow")):
        try:
            found = _identity(path)
            data = path.read_bytes()
            if not data:
                continue
            table = pa.ipc.open_file(data).read_all()
        except FileNotFoundError:  # folded into a part meanwhile
            continue
        except (pa.ArrowInvalid, OSError) as error:
            warnings.warn(f"{path} is no whole file and is left out: {error}", stacklevel=2)
            continue
        check_version(path, (table.schema.metadata or {}).get(b"schema_version", b"0"))
        if not _is_ours(table.column_names):
            warnings.warn(f"{path} {FOREIGN}", stacklevel=2)
            continue
        yield Loose(path, found), table


def parts(folder: Path, columns: Sequence[str] | None = None) -> dict[str, pa.Table | None]:
    """The parts of the table by name, the oldest first; ``None`` for one that is lost or broken.

    Raises:
        SpecError: A newer version of Xsim wrote them.
    """
    found: dict[str, pa.Table | None] = {}
    for _ in range(LOOKS):
        names = part_names(folder)
        found = {name: _part(folder / TABLE / name, columns) for name in names}
        if None not in found.values() or part_names(folder) == names:
            break
    for name, table in found.items():
        if table is None:
            if _is_foreign(folder / TABLE / name):
                warnings.warn(f"{folder / TABLE / name} {FOREIGN}", stacklevel=2)
                continue
            problem = "it is broken" if (folder / TABLE / name).exists() else "it is lost"
            warnings.warn(f"{folder / TABLE / name} is left out, its runs are missing: {problem}", stacklevel=2)
    return found


def part_names(folder: Path) -> list[str]:
    """The files of the parts, the oldest first. Where the manifest is lost, every part that lies there is one.

    Raises:
        SpecError: A newer version of Xsim wrote the manifest.
    """
    manifest = read_json(folder / TABLE / MANIFEST)
    check_version(folder, str(manifest.get("schema_version", 0)).encode())
    named = manifest.get("parts")
    if isinstance(named, list):
        return [str(name) for name in named]
    return sorted(path.name for path in (folder / TABLE).glob("part-*.parquet"))


def check_version(place: Path, version: bytes) -> None:
    """Refuse what a newer version of Xsim wrote: this one cannot know what it means."""
    number = int(version) if version.isdigit() else 0
    if number > SCHEMA_VERSION:
        problem = f"a newer Xsim wrote there (tables of version {number}; this one knows {SCHEMA_VERSION})"
        raise SpecError("folder", str(place), problem, "update Xsim, or choose another folder by out=")


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file ``path``; empty if there is none, or a file that something else has spoiled."""
    try:
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return found
        problem = "it holds no object"
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        problem = str(error)
    warnings.warn(f"{path} cannot be read and is left out: {problem}", stacklevel=2)
    return {}


def _part(path: Path, columns: Sequence[str] | None) -> pa.Table | None:
    """The table in the file ``path``; ``None`` if there is none, or only a piece of one."""
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            check_version(path, (schema.metadata or {}).get(b"schema_version", b"0"))
            if not _is_ours(schema.names):
                return None
            return file.read(None if columns is None else [name for name in columns if name in schema.names])
    except (pa.ArrowInvalid, OSError):
        return None


def _is_ours(columns: Sequence[str]) -> bool:
    """Whether a table with ``columns`` can be one of runs."""
    return all(name in columns for name in NEEDED)


def _is_foreign(path: Path) -> bool:
    """Whether the file ``path`` is a whole table, of something else."""
    try:
        return not _is_ours(pq.read_schema(path).names)
    except (pa.ArrowInvalid, OSError):
        return False


def _some(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    return table if columns is None else table.select([name for name in columns if name in table.column_names])


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
