"""Replay measured runs and say how far the predictions are off; exit code 1 if a bound is passed.

    python -m runners.validate                                         # rows of $XSIM_REFERENCE_DATA, or of the project
    python -m runners.validate --rows runs.csv --rows mixed.csv        # others, with the same columns
    python -m runners.validate --group vtrain_multi network=analytic   # some sources; keys of a sweep hold for all rows

The page is outputs/validate/report.md; out= names another folder. What has been simulated is not simulated again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.command import INTERRUPTED, Parser, exits, tell
from analysis.screen import counted
from runners.cli import read_command
from runners.published.rows import MIXED, RUNS
from xsim.errors import SpecError

if TYPE_CHECKING:
    from analysis.validation import Bound, Case
    from runners.points import Plan
    from runners.published.plan import Planned
    from runners.settings import Settings

__all__ = ["NAME", "OWN", "VARIABLE", "bounds", "cases", "main", "missed", "tables"]

NAME = "validate"  # folder of the results
VARIABLE = "XSIM_REFERENCE_DATA"
OWN = Path(__file__).with_name("published")
BOUNDS = OWN / "bounds.yaml"
MODEL = Path(__file__).resolve().parent.parent / "docs" / "model.md"


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if a bound is passed or a simulation failed, 2 if the input is wrong, 130 or 143 if stopped."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--rows", type=Path, action="append", default=[], help="a table of measured runs")
    parser.add_argument("--group", action="append", default=[], help="a source; without it all of the tables")
    parser.add_argument("--help", "-h", action="store_true", help="this page")
    given, rest = parser.parse_known_args(argv)
    if given.help:
        parser.print_help()
        return 0
    command = read_command(rest, __doc__ or "")
    from runners.points import Plan
    from runners.published.plan import plan_rows
    from runners.published.rows import read_rows

    rows = [row for row in read_rows(given.rows or tables()) if not given.group or row.group in given.group]
    if not rows:
        raise SpecError("group", ", ".join(given.group), "no table has rows of it", "leave it out")
    planned, settings = plan_rows(rows, command)
    points = {point.key: point for each in planned for point in each.points}
    if not points:
        raise SpecError("rows", planned[0].row.name, f"none can be replayed: {planned[0].reason}", "name other rows")
    results = _simulated(Plan(name=NAME, points=tuple(points.values()), settings=settings), argv)
    return _report(planned, results, settings) if results is not None else INTERRUPTED


def tables() -> tuple[Path, ...]:
    """Of the folder that the environment names, else those of the project.

    Raises:
        SpecError: That folder has none.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return (OWN / RUNS, OWN / MIXED)
    found = tuple(path for path in (Path(folder) / "measured" / name for name in (RUNS, MIXED)) if path.is_file())
    if not found:
        fix = f"set it to a folder with measured runs in measured/{RUNS}, or to nothing"
        raise SpecError(VARIABLE, folder, f"there is no measured/{RUNS} in it", fix)
    return found


def _simulated(plan: Plan, argv: Sequence[str]) -> Mapping[str, Mapping[str, Any]] | None:
    """The result of each point by its key, run as a sweep runs them; ``None`` if that was stopped."""
    from collections import Counter

    from runners.brake import Brake
    from runners.due import History, why
    from runners.manifest import manifest
    from runners.preflight import check_writable, claimed
    from runners.running import Running
    from runners.stop import stoppable
    from runners.store import Store

    store = Store(plan.settings.out / plan.name)
    check_writable(store.folder)
    with stoppable() as stop, claimed(store.folder, argv):
        history = History.of(store.folder)
        missing = [point for point in plan.points if why(point, history, plan.settings)]
        tell(f"{NAME}: {counted(len(plan.points), 'simulation')}, {len(plan.points) - len(missing)} already there")
        store.begin(manifest(plan, argv))
        before = Counter(history.known[p.key] for p in plan.points if p.key in history.known and p not in missing)
        brake = Brake(stop, plan.settings.max_failures, plan.settings.time_budget_s)
        cause = Running(plan, store, len(plan.points), before, history.durations, None, brake).run(missing)
    if cause:
        tell(f"{cause}; the same command runs the rest")
        return None
    return {row["key"]: row for row in store.rows(plan.points).to_pylist()}


def cases(planned: Iterable[Planned], results: Mapping[str, Mapping[str, Any]]) -> tuple[Case, ...]:
    """Every row with its prediction, that of the fastest of its experiments that fits."""
    return tuple(_case(each, [results[point.key] for point in each.points if point.key in results]) for each in planned)


def _case(planned: Planned, results: Sequence[Mapping[str, Any]]) -> Case:
    from analysis.validation import Case

    row = planned.row
    ended = [result for result in results if result["status"] == "ok"]
    fitting = [result for result in ended if result["fits"]]
    best = min(fitting or ended, key=lambda result: float(result["training_time_s"]), default=None)
    reason = planned.reason or next(
        (str(result["reason"]) for result in results if result not in ended), "not simulated"
    )
    shape = ", ".join(row.texts.get(name) or "?" for name in ("layers", "hidden", "heads"))
    return Case(
        name=row.name,
        group=row.group,
        source=row.texts["source"],
        sweep=f"{row.texts['model']} ({shape}) on {row.whole.get('num_gpus', '?')} {row.devices}",
        deployed=_deployed(planned, best),
        measured_s=planned.step_s,
        measured_bytes=planned.memory_bytes,
        predicted_s=None if best is None else float(best["training_time_s"]),
        reason="" if best is not None else reason,
        figures={} if best is None else {key: float(v) for key, v in best.items() if isinstance(v, int | float)},
        wall_s=sum(float(result["wall_s"]) for result in results),
    )


def _deployed(planned: Planned, best: Mapping[str, Any] | None) -> str:
    """Degrees in short, with what was tried and found fastest where the row does not say it."""
    row = planned.row
    words = [f"{name}{row.texts[name]}" for name in ("tp", "pp", "vp", "dp", "mbs") if row.texts.get(name)]
    if row.texts.get("tp_per_stage"):
        words.insert(0, f"tp{row.texts['tp_per_stage']}")
    if len(planned.points) > 1 and best is not None:
        (point,) = (point for point in planned.points if point.key == best["key"])
        chosen: Any = point.config["planner"]
        words.append(f"(fastest: mbs{chosen['micro_batch']} vp{chosen['chunks']})")
    return " ".join(words)


def bounds(path: Path = BOUNDS) -> tuple[Bound, ...]:
    """What is asked for."""
    import yaml

    from analysis.validation import Bound

    found = yaml.safe_load(path.read_text(encoding="utf-8"))["bounds"]
    return tuple(
        Bound(name=each["group"], time=each.get("time"), memory=each.get("memory"), peers=each["peers"])
        for each in found
    )


def missed() -> dict[str, str]:
    """Which bounds the documentation says are missed, and why."""
    from analysis.validation_report import missed_bounds

    return missed_bounds(MODEL.read_text(encoding="utf-8")) if MODEL.is_file() else {}


def _report(planned: Sequence[Planned], results: Mapping[str, Mapping[str, Any]], settings: Settings) -> int:
    from analysis.validation import grouped
    from analysis.validation_plots import draw
    from analysis.validation_report import Report, counts
    from runners.brake import FAILURES
    from runners.published.sources import read_sources

    groups = grouped(cases(planned, results))
    about = {name: source.about for name, source in read_sources()[0].items()}
    report = Report(groups=groups, bounds=bounds(), missed=missed(), about=about)
    folder = settings.out / NAME
    page = folder / "report.md"
    page.write_text(report.markdown(draw(groups, folder)), encoding="utf-8")
    report.show()
    print(f"\n{counts(groups)}\nReport: {page}")
    failures = [str(result["reason"]) for result in results.values() if result["status"] in FAILURES]
    if failures:
        tell(f"{counted(len(failures), 'simulation')} failed, the first: {failures[0]}")
    if report.failed:
        tell(f"passed without being listed in docs/model.md: the bounds of {', '.join(report.failed)}")
    return int(bool(failures or report.failed))


if __name__ == "__main__":
    raise SystemExit(main())
