"""Planners of a sweep beside one another: what their plans take, what they predict, how long they search.

python -m analysis.planners outputs/eth_fig9
python -m analysis.planners outputs/eth_fig9 --against metis                           # and speed-ups over it
python -m analysis.planners outputs/eth_fig9 --against metis --page docs/eth.md        # and puts its table there

Runs are compared that differ in nothing but the planner and its options. A plan that does not fit is a line without a
time, and counts in no mean. Means are geometric, per cluster.
"""

from __future__ import annotations

import argparse
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from analysis.command import Parser, exits
from analysis.pages import replace_table
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["Case", "cases", "main", "show", "speed_ups"]

Row = Mapping[str, Any]

COLUMNS = (
    *("cluster", "model", "batch", "planner", "iteration [s]", "of the best", "compute [s]", "bubble [s]", "comm [s]"),
    *("wait [s]", "predicted", "search [s]"),
)
NUMBERS = COLUMNS[2:3] + COLUMNS[4:]
WHAT = "planner."  # begins an option of the planner in the column ``point``


@dataclass(frozen=True, slots=True)
class Case:
    """Runs that differ in nothing but the planner.

    Attributes:
        rows: By planner, in table order; those that failed too.
    """

    cluster: str
    model: str
    batch: int
    others: str
    rows: Mapping[str, Row]

    @property
    def best_s(self) -> float:
        """The shortest iteration of any; infinite if none has one."""
        return min((_time_s(row) for row in self.rows.values()), default=math.inf)


def _time_s(row: Row) -> float:
    counts = row["status"] == "ok" and row["training_time_s"] is not None and row["fits"]
    return float(row["training_time_s"]) if counts else math.inf


@exits
def main(argv: Sequence[str]) -> int:
    """Print the tables."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep over planner=")
    parser.add_argument("--against", default="", help="the planner that others are compared with")
    parser.add_argument("--page", type=Path, help="a Markdown file whose table of these columns is replaced")
    given = parser.parse_args(argv)
    from analysis.tables import select

    found = cases(select(given.folder).table.to_pylist())
    known = list(dict.fromkeys(name for case in found for name in case.rows))
    if given.against and given.against not in known:
        fix = f"choose one of {', '.join(known)}"
        raise SpecError("--against", given.against, "no run of the sweep has that planner", fix)
    show(found)
    if given.against:
        print()
        _show_speed_ups(found, known, given.against)
    if given.page is not None:
        out = io.StringIO()
        show(found, file=out)
        replace_table(given.page, COLUMNS[0], out.getvalue().splitlines())
    return 0


def cases(rows: Sequence[Row]) -> tuple[Case, ...]:
    """The rows of a sweep by what they have in common, in table order."""
    shared = set.intersection(*(set(_parts(row)) for row in rows)) if rows else set()
    found: dict[tuple[str, str, int, str], dict[str, Row]] = {}
    for row in rows:
        own = [part for part in _parts(row) if part.startswith(WHAT)]
        others = [part for part in _parts(row) if not part.startswith(WHAT) and part not in shared]
        others += [f"{name}={row[name]}" for name in _varied(rows)]
        case = (row["cluster"], row["model"], row["batch"], ", ".join(others))
        planner = ", ".join([row["planner"], *(part.removeprefix(WHAT) for part in own)])
        found.setdefault(case, {})[planner] = row
    return tuple(Case(*case, by_planner) for case, by_planner in found.items())


def _parts(row: Row) -> list[str]:
    return [part for part in (row["point"] or "").split(", ") if part]


def _varied(rows: Sequence[Row]) -> list[str]:
    """Groups beside cluster, model and planner that the sweep varies; with a planner goes no deployment."""
    names = ("reshard", "collective", "schedule", "compute", "topology", "network", "background")
    return [name for name in names if len({row.get(name) for row in rows}) > 1]


def show(found: Sequence[Case], file: TextIO | None = None) -> None:
    """A line per run, the planners of a case beside one another."""
    lines = []
    for case in found:
        for planner, row in case.rows.items():
            place = [case.cluster, " ".join(filter(None, (case.model, case.others))), str(case.batch), planner]
            if math.isinf(_time_s(row)):
                fate = row["status"] if row["status"] != "ok" else "does_not_fit"
                lines.append([*place, fate, *[""] * (len(COLUMNS) - 6), _number(row.get("search_s"))])
                continue
            time_s = _time_s(row)
            lines.append(
                [
                    *place,
                    f"{time_s:.4g}",
                    f"{time_s / case.best_s:.3f}",
                    *(_number(row[name]) for name in ("compute_time_s", "bubble_time_s")),
                    _number(row["tp_comm_time_s"] + row["dp_comm_time_s"]),
                    _number(row["idle_time_s"]),
                    "" if row.get("predicted_s") is None else f"{row['predicted_s'] / time_s - 1:+.1%}",
                    _number(row.get("search_s")),
                ]
            )
    print_table(COLUMNS, lines, numbers=NUMBERS, file=file)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def speed_ups(found: Sequence[Case], planner: str, against: str) -> list[float]:
    """How many times shorter the iteration is with ``planner`` than ``against``, of each case that has both."""
    pairs = [(case.rows[planner], case.rows[against]) for case in found if {planner, against} <= set(case.rows)]
    times = [(_time_s(own), _time_s(other)) for own, other in pairs]
    return [other / own for own, other in times if math.isfinite(own) and math.isfinite(other)]


def _show_speed_ups(found: Sequence[Case], known: Sequence[str], against: str) -> None:
    lines = []
    for cluster in dict.fromkeys(case.cluster for case in found):
        own = [case for case in found if case.cluster == cluster]
        for planner in known:
            ups = speed_ups(own, planner, against)
            if ups and planner != against:
                mean = math.exp(sum(map(math.log, ups)) / len(ups))
                lines.append([cluster, planner, f"{mean:.3f}", f"{min(ups):.3f}", f"{max(ups):.3f}", str(len(ups))])
    columns = ["cluster", "planner", f"over {against}", "least", "most", "cases"]
    print_table(columns, lines, numbers=columns[2:])


if __name__ == "__main__":
    raise SystemExit(main())
