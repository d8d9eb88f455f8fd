"""What failures cost and what is done about them: throughput kept and the time to replan, of a sweep over failures.

python -m analysis.failures outputs/failures

The run before is the first of planner=given to which nothing has happened: no rank is lost, and nothing is set of its
cluster. Runs of the same model and the same other options are compared with it. What happened is another cluster, what
is set of it (``cluster.*``), ``faults``, or else ``planner.lost``; ranks lost besides are devices that are left out.
Throughput kept is samples per second over those before, with the plan before. A planner that plans anew is also
compared with what it finds where nothing has happened: that tells a loss from a plan that was poor before.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from analysis.command import Parser, exits
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["Outcome", "main", "outcomes", "show"]

Row = Mapping[str, Any]

COLUMNS = ("what happened", "what is done", "iteration [s]", "samples/s", "kept", "kept of its own", "search [s]")
STRATEGIES = {"shrink": "reduced TP", "drop": "dropped replica", "keep": "dealt out anew"}  # of planner=repair, by how
GIVEN = "as it is"
HOW, LOST = "planner.how", "planner.lost"
DAMAGE = ("cluster.", "faults")  # begin what is set of a point if something has happened
NONE = "[]"
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of a sweep over failures.

    Attributes:
        model: Its name, with what else sets its scenario apart.
        happened: What befell the cluster; ``nothing`` before.
        done: What is done about it: ``reduced TP``, ``dropped replica``, ``dealt out anew``, ``as it is``, or
            ``fresh plan`` and the planner.
        status: ``ok``, or why it has no figures.
        time_s: Of an iteration; None without figures.
        samples_per_s: Throughput; None without figures.
        kept: Share of the throughput of the run before.
        kept_of_own: Share of what the same planner has where nothing has happened; None if nobody asked it.
        search_s: How long replanning took; None where nothing is planned.
    """

    model: str
    happened: str
    done: str
    status: str
    time_s: float | None
    samples_per_s: float | None
    kept: float | None
    kept_of_own: float | None
    search_s: float | None


@exits
def main(argv: Sequence[str]) -> int:
    """Print the tables."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep such as +grid=failures")
    given = parser.parse_args(argv)
    from analysis.tables import select

    found = select(given.folder)
    show(outcomes(found.table.to_pylist()))
    for note in found.notes():
        print(note)
    return 0


def outcomes(rows: Sequence[Row]) -> tuple[Outcome, ...]:
    """What became of each run, in table order.

    Raises:
        SpecError: No run is one before a failure.
    """
    whole = next((row["cluster"] for row in rows if row["planner"] == "given" and not _damage(row)), None)
    if whole is None:
        problem = "no run of planner=given has a cluster to which nothing has happened"
        raise SpecError("folder", "its runs", problem, "add one, as conf/grid/failures.yaml has it")
    before: dict[tuple[str, str], float] = {}
    for row in rows:
        rate = _rate(row)
        if rate is not None and _happened(row, whole) == NOTHING:
            before.setdefault((_scenario(row, rows), _done(row, whole)), rate)
    return tuple(_outcome(row, rows, whole, before) for row in rows)


def _outcome(row: Row, rows: Sequence[Row], whole: str, before: Mapping[tuple[str, str], float]) -> Outcome:
    scenario, done, rate = _scenario(row, rows), _done(row, whole), _rate(row)
    first, own = before.get((scenario, GIVEN)), before.get((scenario, done.partition(", without")[0]))
    return Outcome(
        model=scenario,
        happened=_happened(row, whole),
        done=done,
        status="does_not_fit" if row["status"] == "ok" and not row["fits"] else row["status"],
        time_s=None if rate is None else row["training_time_s"],
        samples_per_s=rate,
        kept=None if rate is None or first is None else rate / first,
        kept_of_own=None if rate is None or own is None or done == GIVEN else rate / own,
        search_s=None if row["planner"] == "given" else row.get("search_s"),
    )


def _rate(row: Row) -> float | None:
    """Samples per second; None of a run that failed or does not fit."""
    return float(row["samples_per_s"]) if row["status"] == "ok" and row["fits"] else None


def _words(row: Row) -> list[str]:
    return [word for word in (row["point"] or "").split(", ") if word]


def _damage(row: Row) -> list[str]:
    return [word for word in _words(row) if word.startswith(DAMAGE)]


def _lost(row: Row) -> str:
    """Of ``planner.lost``, as it stands there; empty if no rank is."""
    found = next((word.partition("=")[2] for word in _words(row) if word.startswith(f"{LOST}=")), NONE)
    return "" if found == NONE else found


def _happened(row: Row, whole: str) -> str:
    found = [f"cluster={row['cluster']}"] if row["cluster"] != whole else []
    found += _damage(row)
    if not found and _lost(row):
        found = [f"lost={_lost(row)}"]
    return ", ".join(found) or NOTHING


def _done(row: Row, whole: str) -> str:
    """By whom, with which options; ``without`` names devices that still work and are left out."""
    options = dict(word.partition("=")[::2] for word in _words(row) if word.startswith("planner."))
    lost, how = _lost(row), options.pop(HOW, "shrink")
    options.pop(LOST, None)
    if row["planner"] == "given":
        name = GIVEN
    else:
        name = STRATEGIES[how] if row["planner"] == "repair" else f"fresh plan, {row['planner']}"
    told = [name, *(f"{key.removeprefix('planner.')}={value}" for key, value in options.items())]
    worn = lost and (_damage(row) or row["cluster"] != whole)
    return ", ".join([*told, *([f"without {lost}"] if worn else [])])


def _scenario(row: Row, rows: Sequence[Row]) -> str:
    """The model, and what else is set besides cluster and planner; the batch and other groups if they vary."""
    words = [word for word in _words(row) if not word.startswith((*DAMAGE, "planner."))]
    varied = ("batch", "reshard", "collective", "schedule", "compute", "topology", "network")
    words += [f"{name}={row[name]}" for name in varied if len({other.get(name) for other in rows}) > 1]
    return " ".join([row["model"], *words])


def show(found: Sequence[Outcome], file: TextIO | None = None) -> None:
    """A table for each model: a line per run, those after the same failure beside one another."""
    for number, model in enumerate(dict.fromkeys(each.model for each in found)):
        if number:
            print(file=file)
        print(f"{model}: kept is the share of samples/s before", file=file)
        own = [each for each in found if each.model == model]
        order = list(dict.fromkeys(each.happened for each in own))
        own.sort(key=lambda each: (each.happened != NOTHING, order.index(each.happened)))
        print_table(COLUMNS, [_line(each) for each in own], numbers=COLUMNS[2:], file=file)
    print("kept of its own: share of what the same planner reaches where nothing has happened", file=file)
    if any(each.kept is not None and each.kept > 1 for each in found):
        print("above 100 %: the plan before was poor; dealing out or planning anew gains more than is lost", file=file)


def _line(each: Outcome) -> list[str]:
    search = "" if each.search_s is None else f"{each.search_s:.3g}"
    if each.time_s is None:
        return [each.happened, each.done, each.status, "", "", "", search]
    shares = ("" if share is None else f"{share:.1%}" for share in (each.kept, each.kept_of_own))
    return [each.happened, each.done, f"{each.time_s:.4g}", f"{each.samples_per_s:.4g}", *shares, search]


if __name__ == "__main__":
    raise SystemExit(main())
