"""Rows of a sweep arranged for comparison: cases, and in each the options of one choice side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.titles import row_title

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPARED", "Case", "Comparison", "Failure", "Figures", "compare", "failures", "offered", "varying"]

Case = tuple[str, ...]
Row = Mapping[str, Any]

# What is compared first if it varies; what tells cases apart, in reading order.
COMPARED = (
    *("reshard", "collective", "schedule", "planner", "network"),
    *("topology", "background", "noise", "compute", "estimate", "point"),
)
CASE_COLUMNS = (
    *("cluster", "model", "network", "deployment", "topology", "background", "noise", "compute", "planner", "schedule"),
    *("collective", "reshard", "estimate", "point", "seed", "batch"),
)
ALWAYS = ("cluster", "model")
UNSET = "not set"

READ = frozenset(
    (
        *CASE_COLUMNS,
        *("status", "reason", "training_time_s", "bubble_time_s", "idle_time_s", "reshard_comm_time_s"),
        *("dp_comm_time_s", "move_optimality", "sync_optimality", "fits"),
    )
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of one run; ``fits`` tells whether its memory suffices.

    Attributes:
        sync_time_s: Exposed communication of hand-overs and gradient syncs; absent in tables that do not tell.
        move_optimality, sync_optimality: None in rows of versions that did not have them.
    """

    training_time_s: float
    bubble_time_s: float
    idle_time_s: float
    sync_time_s: float | None
    move_optimality: float | None
    sync_optimality: float | None
    fits: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs that differ in one choice, side by side.

    Attributes:
        by: Column of that choice.
        options: Its values, in table order.
        columns: What tells the cases apart.
        along: What differs between the options of a case besides the choice.
        cases: Per case in which an option ran, named by its values of ``columns``, the figures of those that did.
        without: Per case the status of the options that have no figures.
        left_out: How many cases are not in it, as no option of theirs has figures.
    """

    by: str
    options: tuple[str, ...]
    columns: tuple[str, ...]
    along: tuple[str, ...]
    cases: Mapping[Case, Mapping[str, Figures]]
    without: Mapping[Case, Mapping[str, str]]
    left_out: int = 0

    def label(self, option: str) -> str:
        """``lcm``, ``planner.tp=2``: what says enough where the choice itself does not stand beside it."""
        if self.by in COMPARED:
            return option
        return f"{self.by} {UNSET}" if option == UNSET else f"{self.by}={option}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that ended alike; ``example`` names the first of them."""

    status: str
    reason: str
    count: int
    example: str


def compare(table: pa.Table, by: str | None = None) -> Comparison:
    """The runs of ``table``, compared by ``by``, one of ``offered``, or by the first choice that varies.

    A case of which no option ran is left out, and counted: ``failures`` tells why.
    """
    rows = _rows(table)
    chosen = by or next((name for name in COMPARED if len({row[name] for row in rows}) > 1), COMPARED[0])
    rows = _without_own_options(rows, chosen) if chosen in COMPARED else _split_off(rows, chosen)
    others = [name for name in CASE_COLUMNS if name != chosen]
    columns = _distinguishing(rows, others, chosen)
    alive = {_case(row, columns) for row in rows if row["status"] == "ok"}
    kept = [row for row in rows if _case(row, columns) in alive]
    cases: dict[Case, dict[str, Figures]] = {_case(row, columns): {} for row in kept}
    without: dict[Case, dict[str, str]] = defaultdict(dict)
    for row in kept:
        case, option = _case(row, columns), _shown(row[chosen])
        if row["status"] == "ok":
            cases[case][option] = _figures(row)
        else:
            without[case][option] = str(row["status"])
    options = tuple(dict.fromkeys(_shown(row[chosen]) for row in kept))
    along = tuple(name for name in others if name not in columns and _differs(kept, columns, name))
    left_out = len({_case(row, columns) for row in rows} - alive)
    return Comparison(chosen, options, columns, along, cases, without, left_out)


def offered(table: pa.Table) -> tuple[str, ...]:
    """What its runs can be compared by: a choice, or a key that was set in some, such as an option of a planner."""
    keys = dict.fromkeys(part.partition("=")[0] for row in _rows(table) for part in _parts(row) if "=" in part)
    return (*COMPARED, *keys)


def varying(table: pa.Table) -> tuple[str, ...]:
    """Those of ``offered`` of which its runs have more than one value."""
    rows = _rows(table)
    found = []
    for name in offered(table):
        seen = rows if name in COMPARED else _split_off(rows, name)
        if not _constant(seen, name):
            found.append(name)
    return tuple(found)


def failures(table: pa.Table) -> list[Failure]:
    """The runs that did not end well, by status and reason, most frequent first."""
    rows = _rows(table)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["status"] != "ok":
            groups[row["status"], row["reason"]].append(row_title(row))
    found = [Failure(status, reason, len(runs), runs[0]) for (status, reason), runs in groups.items()]
    return sorted(found, key=lambda failure: (-failure.count, failure.status, failure.reason))


def _without_own_options(rows: Sequence[Row], chosen: str) -> list[Row]:
    """The rows without such words of their points as are options of what is compared, and the same for all of its runs.

    ``network.payload_bytes=9000`` of all runs of one network is a part of that option, and tells no case apart.
    """
    parts = [_parts(row) for row in rows]
    constant: dict[str, set[str]] = {}
    for row, own in zip(rows, parts, strict=True):
        mine = {part for part in own if part.startswith(f"{chosen}.")}
        constant[row[chosen]] = constant.get(row[chosen], mine) & mine
    return [
        {**row, "point": ", ".join(part for part in own if part not in constant[row[chosen]])}
        for row, own in zip(rows, parts, strict=True)
    ]


def _split_off(rows: Sequence[Row], key: str) -> list[Row]:
    """The rows with what their points set ``key`` to in a column of its own; ``UNSET`` where they do not."""
    found: list[Row] = []
    for row in rows:
        own = [part for part in _parts(row) if part.startswith(f"{key}=")]
        rest = ", ".join(part for part in _parts(row) if part not in own)
        found.append({**row, "point": rest, key: own[0].removeprefix(f"{key}=") if own else UNSET})
    return found


def _parts(row: Row) -> list[str]:
    """What its point sets, ``key=value`` each."""
    return [part for part in str(row["point"] or "").split(", ") if part]


def _rows(table: pa.Table) -> list[Row]:
    """What is looked at here of each row: a table holds much more."""
    rows: list[Row] = table.select([name for name in table.column_names if name in READ]).to_pylist()
    return rows


def _constant(rows: Sequence[Row], name: str) -> bool:
    """Whether ``name`` tells no two of ``rows`` apart."""
    return len({row[name] for row in rows}) <= 1


def _figures(row: Row) -> Figures:
    return Figures(
        training_time_s=row["training_time_s"],
        bubble_time_s=row["bubble_time_s"],
        idle_time_s=row["idle_time_s"],
        sync_time_s=_sync_time_s(row),
        move_optimality=row.get("move_optimality"),
        sync_optimality=row.get("sync_optimality"),
        fits=bool(row["fits"]),
    )


def _sync_time_s(row: Row) -> float | None:
    """Exposed hand-overs and gradient syncs; tables of earlier versions of the simulator lack the first."""
    resharding_s = row.get("reshard_comm_time_s")
    return None if resharding_s is None else float(resharding_s + row["dp_comm_time_s"])


def _case(row: Row, columns: Sequence[str]) -> Case:
    return tuple(_shown(row[name]) for name in columns)


def _distinguishing(rows: Sequence[Row], names: Sequence[str], chosen: str) -> tuple[str, ...]:
    """Those of ``names`` that tell rows of one option of ``chosen`` apart which the names before them do not."""
    kept = [name for name in ALWAYS if name in names]
    for name in names:
        if name in kept or _constant(rows, name):
            continue
        before = len({_case(row, (chosen, *kept)) for row in rows})
        if len({_case(row, (chosen, *kept, name)) for row in rows}) > before:
            kept.append(name)
    return tuple(kept)


def _differs(rows: Sequence[Row], columns: Sequence[str], name: str) -> bool:
    """Whether rows of one case have unlike values of ``name``."""
    if _constant(rows, name):
        return False
    return len({_case(row, (*columns, name)) for row in rows}) > len({_case(row, columns) for row in rows})


def _shown(value: object) -> str:
    return "" if value is None else str(value)
