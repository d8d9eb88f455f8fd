"""Tables of measured training runs: one row per run, one column per fact, cells empty where a source says nothing."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xsim.errors import SpecError

__all__ = ["MIXED", "RUNS", "Row", "read_rows"]

RUNS, MIXED = "training_runs.csv", "hetero_runs.csv"  # of one kind of device; with a placement, stage by stage
WHOLE = ("layers", "hidden", "heads", "ffn", "seq", "num_gpus", "nodes", "tp", "pp", "vp", "dp", "cp", "mbs", "gbs")
FLOATS = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "max_mem_bytes")
NEEDED = (
    *("id", "source", "group", "model", "notes", "precision", "recompute", "vocab", "step_time_s"),
    *(name for name in WHOLE if name not in ("tp", "vp", "cp")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured run.

    Attributes:
        texts: Every cell by its column; empty where the source says nothing.
        whole: The counts that are stated, by column.
        floats: The figures that are stated, by column.
    """

    texts: Mapping[str, str]
    whole: Mapping[str, int]
    floats: Mapping[str, float]

    @property
    def name(self) -> str:
        """What identifies it."""
        return self.texts["id"]

    @property
    def group(self) -> str:
        """The source that it is of."""
        return self.texts["group"]

    @property
    def devices(self) -> str:
        """Their kind, or kinds with their counts."""
        return self.texts.get("gpu_mix") or self.texts.get("gpu", "")

    @property
    def mixed(self) -> bool:
        """Whether it says which layers and devices each stage has."""
        return bool(self.texts.get("layers_per_stage"))


def read_rows(paths: Iterable[Path]) -> tuple[Row, ...]:
    """The rows of all tables; of rows with one id the last counts, so that a table of placements goes last.

    Raises:
        SpecError: A file is no such table, or a cell is no number; the message names the line.
    """
    found: dict[str, Row] = {}
    for path in paths:
        for row in _table(path):
            found.pop(row.name, None)
            found[row.name] = row
    return tuple(found.values())


def _table(path: Path) -> list[Row]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if lacking:
                fix = f"it needs the columns of {RUNS} or {MIXED}"
                raise SpecError("rows", str(path), f"it has no column {', '.join(lacking)}", fix)
            return [_row(raw, path, reader.line_num) for raw in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError("rows", str(path), f"it cannot be read ({error})", "name a table of measured runs") from None


def _row(raw: Mapping[str | None, object], path: Path, line: int) -> Row:
    if None in raw or None in raw.values():
        problem, fix = "it has another number of cells than the first line", "quote cells that hold commas"
        raise SpecError("rows", f"{path}, line {line}", problem, fix)
    texts = {str(name): str(cell).strip() for name, cell in raw.items()}
    whole: dict[str, int] = {}
    floats: dict[str, float] = {}
    for name in (*WHOLE, *FLOATS):
        text = texts.get(name, "")
        if not text:
            continue
        value = _number(text)
        if not 0 < value < math.inf or (name in WHOLE and value != int(value)):
            wanted = "a whole number above 0" if name in WHOLE else "a number above 0"
            problem = f"line {line} ({texts['id']}): {wanted} belongs here"
            raise SpecError(f"rows: {path}: {name}", text, problem, "correct the cell, or leave it empty")
        if name in WHOLE:
            whole[name] = int(value)
        else:
            floats[name] = value
    return Row(texts=texts, whole=whole, floats=floats)


def _number(text: str) -> float:
    """What ``text`` says, or not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
