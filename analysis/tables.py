"""The rows of a sweep, from disk into one Arrow table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.screen import counted
from analysis.stored import read_json, stored
from xsim.errors import SpecError

__all__ = ["SWEEP", "SWEEPS", "Selection", "filled", "load", "rows_of", "runs", "select"]

SWEEP = "sweep.json"
SWEEPS = "sweeps"  # folder of what each sweep asked for

# What identifies a run to a reader, in the order in which rows are sorted.
SORTED_BY = (
    *("cluster", "model", "deployment", "topology", "network", "background", "noise", "compute", "planner", "schedule"),
    *("collective", "reshard", "estimate", "point", "seed", "key"),
)

# What earlier versions, which did not write these columns, did.
UNWRITTEN = {"background": "none", "noise": "none", "estimate": "none"}


def load(folder: str | os.PathLike[str], *, every_version: bool = False) -> pa.Table:
    """One row per run of the sweep in ``folder``, sorted by what was run; each field carries its unit and meaning.

    Args:
        folder: ``outputs/<grid>``.
        every_version: Also rows that an earlier version of the simulator wrote; they have other keys.

    Raises:
        SpecError: There is no run.
    """
    root = Path(folder)
    table = runs(root) if root.is_dir() else None
    if table is None:
        problem = "it holds no results" if root.is_dir() else "there is no such folder"
        raise SpecError("folder", str(root), problem, "name the folder of a sweep, such as outputs/hetero_llama")
    code = read_json(root / SWEEP).get("code")
    if code is not None and not every_version:
        table = table.filter(pc.equal(table["code"], code))
    return table


def runs(folder: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """All that ``folder`` holds, of every version, sorted; ``None`` without a run.

    Args:
        folder: Of a sweep.
        columns: Which to read, ``key`` among them; without it all.
    """
    table = stored(folder, columns)
    if table is None:
        return None
    table = filled(table, columns)
    order = [name for name in SORTED_BY if name in table.column_names]
    return table.sort_by([(name, "ascending") for name in order]).combine_chunks()


def filled(table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """``table`` with what earlier versions did not write, of ``columns``; without them of all."""
    for name, value in UNWRITTEN.items():
        if name in table.column_names:
            index = table.column_names.index(name)
            table = table.set_column(index, table.field(index), pc.fill_null(table[name], value))
        elif columns is None or name in columns:
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


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

    A run that an earlier sweep left there has the names and labels under which the last one asked for it.

    Raises:
        SpecError: There is no run.
    """
    versions = load(folder, every_version=True)
    sweep = read_json(Path(folder) / SWEEP)
    current = versions.filter(pc.equal(versions["code"], sweep["code"])) if "code" in sweep else versions
    older = versions.num_rows - current.num_rows
    points = sweep.get("points")
    if points is None:
        return Selection(current, 0, older)
    if everything:
        return Selection(_named_by(current, points), 0, older)
    table = rows_of(current, points)
    return Selection(table, current.num_rows - table.num_rows, older)


def rows_of(table: pa.Table, points: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of ``points``, in their order, under the names that they give; one without a row is passed over.

    Args:
        table: One row per run.
        points: Per run its ``key``, and by column what names it.
    """
    position = {key: index for index, key in enumerate(table["key"].to_pylist())}
    found = [position[point["key"]] for point in points if point["key"] in position]
    return _named_by(table.take(pa.array(found, pa.int64())), points)


def _named_by(table: pa.Table, points: Sequence[Mapping[str, Any]]) -> pa.Table:
    """``table`` with what ``points`` say in the rows of their keys: equal runs may go by several names."""
    asked = {point["key"]: point for point in points}
    given = [asked.get(key, {}) for key in table["key"].to_pylist()]
    for index, field in enumerate(table.schema):
        if any(field.name in names for names in given):
            stored = table[field.name].to_pylist()
            values = [names.get(field.name, value) for names, value in zip(given, stored, strict=True)]
            table = table.set_column(index, field, pa.array(values, field.type))
    return table
