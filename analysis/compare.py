"""Strategies side by side, case by case: training time and bubble, as in Figure 12 of the Xsim paper.

python -m analysis.compare outputs/hetero_llama
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from analysis.screen import print_table
from analysis.tables import load
from xsim.errors import SpecError

__all__ = ["Comparison", "Failure", "Figures", "compare", "failures", "main", "show"]

# What is compared first if it varies; what tells cases apart, in reading order.
COMPARED = ("reshard", "collective", "schedule", "planner", "network", "topology", "compute", "point")
CASE = (
    "cluster",
    "model",
    "network",
    "deployment",
    "topology",
    "compute",
    "planner",
    "schedule",
    "collective",
    "reshard",
)
CASE_COLUMNS = (*CASE, "point", "seed", "batch")
ALWAYS = ("cluster", "model")
SHOWN_OF_FAILURE = ("cluster", "model", "deployment", "reshard", "network")


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of one run; ``fits`` tells whether its memory suffices."""

    training_time_s: float
    bubble_time_s: float
    idle_time_s: float
    fits: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs that differ in one choice, side by side.

    Attributes:
        by: Column of that choice.
        options: Its values, in table order.
        columns: What tells the cases apart.
        cases: Per case, named by its values of ``columns``, the figures of each option that ran.
    """

    by: str
    options: tuple[str, ...]
    columns: tuple[str, ...]
    cases: Mapping[tuple[str, ...], Mapping[str, Figures]]


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that ended alike; ``example`` names the first of them."""

    status: str
    reason: str
    count: int
    example: str


def compare(table: pa.Table, by: str | None = None) -> Comparison:
    """The runs of ``table`` that ended well, compared by the column ``by``, or by the first choice that varies."""
    rows = [row for row in table.to_pylist() if row["status"] == "ok"]
    chosen = by or next((name for name in COMPARED if len({row[name] for row in rows}) > 1), COMPARED[0])
    columns = _distinguishing(rows, [name for name in CASE_COLUMNS if name != chosen])
    cases: dict[tuple[str, ...], dict[str, Figures]] = {}
    for row in rows:
        case = cases.setdefault(tuple(_shown(row[name]) for name in columns), {})
        case[_shown(row[chosen])] = Figures(
            row["training_time_s"], row["bubble_time_s"], row["idle_time_s"], bool(row["fits"])
        )
    options = tuple(dict.fromkeys(_shown(row[chosen]) for row in rows))
    return Comparison(chosen, options, columns, cases)


def failures(table: pa.Table) -> list[Failure]:
    """The runs that did not end well, by status and reason, most frequent first."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in table.to_pylist():
        if row["status"] != "ok":
            groups[row["status"], row["reason"]].append("/".join(_shown(row[name]) for name in SHOWN_OF_FAILURE))
    found = [Failure(status, reason, len(runs), runs[0]) for (status, reason), runs in groups.items()]
    return sorted(found, key=lambda failure: (-failure.count, failure.status, failure.reason))


def show(table: pa.Table, by: str | None = None, file: TextIO | None = None) -> None:
    """Print the comparison and what went wrong."""
    out = file or sys.stdout
    found = compare(table, by)
    if found.cases:
        headings = list(_headings(found))
        rows = [[*case, *_cells(found, figures)] for case, figures in found.cases.items()]
        print_table([*found.columns, *headings], rows, numbers=headings[:-1], file=out)
        if any(not entry.fits for figures in found.cases.values() for entry in figures.values()):
            print("* does not fit the memory of its devices", file=out)
    for failure in failures(table):
        print(f"{failure.count} x {failure.status}: {failure.reason} (first: {failure.example})", file=out)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and draw the figure of a sweep's folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep: outputs/<grid>")
    parser.add_argument("--by", choices=COMPARED, help="what to compare; default: the first that varies")
    given = parser.parse_args(argv)
    try:
        table = load(given.folder)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(table, given.by)
    found = compare(table, given.by)
    if found.cases:
        from analysis.plots import save_bars

        path = save_bars(found, given.folder / "figures" / f"by_{found.by}.png")
        print(f"\nFigure: {path}")
    return 0


def _distinguishing(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` that tell rows apart which the names before them do not."""
    kept = [name for name in ALWAYS if name in names]
    for name in names:
        if name in kept:
            continue
        before = len({tuple(row[key] for key in kept) for row in rows})
        if len({tuple(row[key] for key in (*kept, name)) for row in rows}) > before:
            kept.append(name)
    return tuple(kept)


def _headings(found: Comparison) -> Iterator[str]:
    for option in found.options:
        yield f"{option} time s"
    for option in found.options:
        yield f"{option} bubble s"
    yield "fastest"


def _cells(found: Comparison, figures: Mapping[str, Figures]) -> Iterator[str]:
    for option in found.options:
        entry = figures.get(option)
        yield "-" if entry is None else f"{entry.training_time_s:.4f}{'' if entry.fits else '*'}"
    for option in found.options:
        entry = figures.get(option)
        yield "-" if entry is None else f"{entry.bubble_time_s:.4f}"
    yield _fastest(figures)


def _fastest(figures: Mapping[str, Figures]) -> str:
    times = {option: entry.training_time_s for option, entry in figures.items()}
    best, slowest = min(times, key=lambda option: times[option]), max(times.values())
    if len(times) == 1:
        return best
    return f"{best} ({slowest / times[best]:.3f}x)" if slowest > times[best] else "all equal"


def _shown(value: object) -> str:
    return "" if value is None else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
