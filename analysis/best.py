"""The best points of a sweep: by each figure, and the front of those that nothing beats in both time and cost.

python -m analysis.best outputs/hetero_llama

Points are compared that train the same: one model in one precision with one optimizer, as many tokens in an iteration,
told by one network. What does not fit into memory, and what is no finite number, is never best. Figures that print
alike are alike, as in the tables of a comparison. The total cost of ownership is no figure to choose by, as it falls
when runs get slower.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from analysis.cases import CASE_COLUMNS
from analysis.command import Parser, exits
from analysis.screen import counted, print_table
from analysis.version import CONFIG

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["METRICS", "Group", "Leader", "front", "groups", "leaders", "main", "shortened", "show"]

Row = Mapping[str, Any]

METRICS: Mapping[str, str] = {  # column: whether less or more of it is better
    "training_time_s": "less",
    "tokens_per_s": "more",
    "mfu": "more",
    "bubble_time_s": "less",
    "idle_time_s": "less",
    "usd_per_iteration": "less",
    "energy_j": "less",
    "peak_memory_bytes": "less",
    "training_time_mean_s": "less",
    "training_time_p99_s": "less",
}
OF_SEVERAL = ("training_time_mean_s", "training_time_p99_s")  # of one iteration they are its time once more
TIME, COST = "training_time_s", "usd_per_iteration"
ROWS_AT_ONCE = 500
SHOWN_GROUPS = 6  # in the report of a sweep
SHOWN_FRONT = 12


@dataclass(frozen=True, slots=True)
class Group:
    """Points that train the same.

    Attributes:
        model: Its name.
        tokens: Of one iteration.
        variant: What tells it from other groups of that model and as many tokens; empty if there is none.
        rows: Of points that ended well and fit, in table order.
        columns: What tells them apart.
    """

    model: str
    tokens: int
    variant: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]

    @property
    def title(self) -> str:
        """``llama2_7b, 98304 tokens an iteration (network=flow)``."""
        return f"{self.model}, {self.tokens} tokens an iteration{f' ({self.variant})' if self.variant else ''}"

    def name(self, row: Row) -> str:
        """What tells ``row`` from the others."""
        return "/".join(str(row[name]) for name in self.columns if row[name] not in (None, "")) or "the only one"


@dataclass(frozen=True, slots=True)
class Leader:
    """The best of a group by one column, the first in table order; ``alike`` more points print the same figure."""

    metric: str
    value: float
    row: Row
    alike: int


@exits
def main(argv: Sequence[str]) -> int:
    """Print the best points of a sweep's folder, and the front of time and cost."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep: outputs/<grid>")
    parser.add_argument("--all", action="store_true", help="also runs that only earlier sweeps of the folder asked for")
    given = parser.parse_args(argv)
    from analysis.tables import select

    found = select(given.folder, everything=given.all)
    if not show(found.table, most=None):
        print("no two points train the same: there is nothing to choose among")
    for note in found.notes():
        print(note)
    return 0


def show(table: pa.Table, file: TextIO | None = None, most: int | None = SHOWN_GROUPS) -> bool:
    """Print leaders and fronts of the groups of ``table`` that have two points or more; whether there is one.

    Args:
        most: Groups at most; absent: all.
    """
    out = file or sys.stdout
    found = [group for group in groups(table) if len(group.rows) > 1]
    for group in found[:most]:
        print(f"\nbest of {counted(len(group.rows), 'point')}: {group.title}", file=out)
        rows = [[one.metric, _figure(one.value), _alike(group.name(one.row), one.alike)] for one in leaders(group)]
        if not rows:
            print("every figure is the same in all of them", file=out)
            continue
        print_table(["figure", "value", "point"], rows, numbers=["value"], file=out)
        _print_front(group, out)
    if most is not None and len(found) > most:
        print(f"and {counted(len(found) - most, 'group')} more: analysis.best shows them", file=out)
    misfits = _misfits(table)
    if misfits:
        print(f"\nnone of the best: {counted(misfits, 'point')} left out that do not fit into memory", file=out)
    return bool(found)


def _misfits(table: pa.Table) -> int:
    """How many points do not fit into memory, whether they were simulated all the same or not."""
    columns = [name for name in ("status", "fits") if name in table.column_names]
    rows = table.select(columns).to_pylist()
    return sum(row["status"] == "does_not_fit" or (row["status"] == "ok" and not row.get("fits")) for row in rows)


def groups(table: pa.Table) -> list[Group]:
    """The points of ``table`` that ended well and fit, by what they train."""
    wanted = (*CASE_COLUMNS, *METRICS, "status", "fits", "iterations", CONFIG)
    names = [name for name in wanted if name in table.column_names]
    together: dict[tuple[str, int], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(table.select(names)):
        if row["status"] == "ok" and row.get("fits") and _is_finite(row.get(TIME)) and _is_finite(row["tokens_per_s"]):
            same = together[str(row["model"]), round(row["tokens_per_s"] * row[TIME])]
            same[row[CONFIG]].append(row)
    return [
        Group(model, tokens, variant, tuple(rows), tuple(_telling(rows, names)))
        for (model, tokens), same in together.items()
        for variant, rows in zip(_variants(list(same.values())), same.values(), strict=True)
    ]


def shortened(config_json: str | None) -> str:
    """Of a config, which is long, what is read here of it: what is trained."""
    config = json.loads(config_json or "{}")
    return json.dumps({key: config.get(key) for key in ("model", "precision", "optimizer")})


def _rows(table: pa.Table) -> Iterator[Row]:
    """Of ``table``, a few at a time; the config equal for points that train the same by one network."""
    known: dict[str, str] = {}
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            trained = f"{row.get('network')} {shortened(row.get(CONFIG))}"
            yield row | {CONFIG: known.setdefault(trained, trained)}


def _variants(groups: Sequence[Sequence[Row]]) -> list[str]:
    """Of each group the words of its points that all of them have, and not all of the other groups."""
    words = [set.intersection(*(_words(row) for row in rows)) for rows in groups]
    everywhere = set.intersection(*words)
    return [", ".join(sorted(own - everywhere)) for own in words]


def _words(row: Row) -> set[str]:
    return {f"network={row.get('network')}", *(word for word in str(row.get("point") or "").split(", ") if word)}


def leaders(group: Group) -> list[Leader]:
    """The best point of ``group`` by every figure that it has and that differs, as printed, among its points."""
    found = []
    single = all(row.get("iterations") in (None, 1) for row in group.rows)
    for metric, better in METRICS.items():
        if single and metric in OF_SEVERAL:
            continue
        sign = 1 if better == "less" else -1
        known = [
            (sign * _printed(row[metric]), number)
            for number, row in enumerate(group.rows)
            if _is_finite(row.get(metric))
        ]
        if len({value for value, _ in known}) > 1:
            best, number = min(known)
            alike = sum(value == best for value, _ in known) - 1
            found.append(Leader(metric, sign * best, group.rows[number], alike))
    return found


def front(group: Group) -> list[tuple[Row, int]]:
    """The points than which none is both as fast and as cheap, as printed, fastest first.

    Each, the first in table order, comes with how many more are alike.
    """
    known = [
        (_printed(row[TIME]), _printed(row[COST]), number)
        for number, row in enumerate(group.rows)
        if _is_finite(row.get(COST)) and row[COST] > 0
    ]
    found: list[tuple[Row, int]] = []
    last: tuple[float, float] | None = None  # time and cost
    for time_s, cost, number in sorted(known):
        if last == (time_s, cost):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        elif last is None or cost < last[1]:
            found.append((group.rows[number], 0))
            last = time_s, cost
    return found


def _print_front(group: Group, out: TextIO) -> None:
    found = front(group)
    if len(found) < 2:  # one point is both the fastest and the cheapest: it is the leader above
        return
    print("no point is faster and no dearer, or cheaper and no slower, than one of these", file=out)
    rows = [[_figure(row[TIME]), _figure(row[COST]), _alike(group.name(row), alike)] for row, alike in found]
    columns = ["time [s]", "USD an iteration", "point"]
    print_table(columns, rows[:SHOWN_FRONT], numbers=columns[:2], file=out)
    if len(rows) > SHOWN_FRONT:
        print(f"and {len(rows) - SHOWN_FRONT} more, slower and cheaper", file=out)


def _telling(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name in CASE_COLUMNS and name != "model" and len({row[name] for row in rows}) > 1:
            yield name


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _figure(value: float) -> str:
    return f"{value:.5g}"


def _printed(value: float) -> float:
    return float(_figure(value))


def _alike(name: str, alike: int) -> str:
    return f"{name} (and {alike} more)" if alike else name


if __name__ == "__main__":
    raise SystemExit(main())
