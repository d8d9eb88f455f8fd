"""The rows of a sweep, from disk into one Arrow table."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.screen import counted
from xsim.errors import SpecError

__all__ = ["MANIFEST", "RUNS", "SWEEP", "TABLE", "Selection", "load", "rows_of", "select"]

RUNS = "runs"
TABLE = "table"
MANIFEST = "manifest.json"
SWEEP = "sweep.json"

# What identifies a run to a reader, in the order in which rows are sorted.
SORTED_BY = (
    *("cluster", "model", "deployment", "topology", "network", "compute", "planner", "schedule", "collective"),
    *("reshard", "point", "seed", "key"),
)


def load(folder: str | os.PathLike[str], *, every_version: bool = False) -> pa.Table:
    """One row per run of the sweep in ``folder``, sorted by what was run; each field carries its unit and meaning.

    Args:
        folder: ``outputs/<grid>``.
        every_version: Also rows that an earlier version of the simulator wrote; they have other keys.

    Raises:
        SpecError: There is no run.
    """
    root = Path(folder)
    parts = [pq.read_table(path) for path in _parts(root / TABLE)]
    compacted = {key for part in parts for key in part["key"].to_pylist()}
    tables = [*parts, *_loose(root / RUNS, compacted)]
    if not tables:
        problem = "it holds no results" if root.is_dir() else "there is no such folder"
        raise SpecError("folder", str(root), problem, "name the folder of a sweep, such as outputs/hetero_llama")
    table = pa.concat_tables(tables, promote_options="permissive")
    code = _sweep(root).get("code")
    if code is not None and not every_version:
        table = table.filter(pc.equal(table["code"], code))
    return table.sort_by([(name, "ascending") for name in SORTED_BY]).combine_chunks()


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs of a folder that are to be looked at.

    Attributes:
        table: One row per run.
        unasked: Runs of this version that are left out since only earlier sweeps asked for them.
        older: Runs of earlier versions of the simulator, left out too.
    """

    table: pa.Table
    unasked: int
    older: int

    def notes(self) -> Iterator[str]:
        """A sentence for each kind of run that is left out."""
        if self.unasked:
            yield f"{counted(self.unasked, 'row')} of earlier sweeps not shown; --all shows everything"
        if self.older:
            yield f"{counted(self.older, 'row')} of an earlier version of the simulator hidden"


def select(folder: str | os.PathLike[str], *, everything: bool = False) -> Selection:
    """The runs that the last sweep in ``folder`` asked for, in its order; with ``everything`` all of its version.

    Raises:
        SpecError: There is no run.
    """
    versions = load(folder, every_version=True)
    sweep = _sweep(Path(folder))
    current = versions.filter(pc.equal(versions["code"], sweep["code"])) if "code" in sweep else versions
    older = versions.num_rows - current.num_rows
    if everything or "points" not in sweep:
        return Selection(current, 0, older)
    table = rows_of(current, [point["key"] for point in sweep["points"]])
    return Selection(table, current.num_rows - table.num_rows, older)


def rows_of(table: pa.Table, keys: Iterable[str]) -> pa.Table:
    """The rows of ``keys``, in their order; a key without a row is passed over."""
    position = {key: index for index, key in enumerate(table["key"].to_pylist())}
    return table.take(pa.array([position[key] for key in keys if key in position], pa.int64()))


def _parts(folder: Path) -> list[Path]:
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return []
    named = [folder / name for name in json.loads(manifest.read_text())["parts"]]
    return [path for path in named if path.is_file()]  # the runs hold what a lost part held


def _loose(folder: Path, compacted: set[str]) -> Iterator[pa.Table]:
    """Runs that are not in the compacted table; what a crash left half-written is not a run."""
    for path in sorted(folder.glob("??/[!.]*.arrow")):
        if path.stem in compacted or path.stat().st_size == 0:
            continue
        try:
            yield pa.ipc.open_file(path.read_bytes()).read_all()
        except pa.ArrowInvalid as error:
            warnings.warn(f"{path} is no whole Arrow file and is left out: {error}", stacklevel=3)


def _sweep(root: Path) -> dict[str, Any]:
    """What was asked for last; empty if that is unknown."""
    sweep = root / SWEEP
    if not sweep.is_file():
        return {}
    found: dict[str, Any] = json.loads(sweep.read_text())
    return found
