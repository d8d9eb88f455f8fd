"""Replay measured runs and say how far the predictions are off; exit code 1 if a bound is passed.

    python -m runners.validate                                         # rows of $XSIM_REFERENCE_DATA, or of the project
    python -m runners.validate --rows runs.csv --rows mixed.csv        # others, with the same columns
    python -m runners.validate --group vtrain_multi network=analytic   # some sources; keys of a sweep hold for all rows

The page is outputs/validate/report.md; out= names another folder. What has been simulated is not simulated again. A row
that takes longer than five minutes is left out; timeout_s= sets another limit.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.command import INTERRUPTED, Parser, Stopped, exits, tell
from analysis.screen import counted, print_table
from runners.cli import read_command
from runners.published.rows import MIXED, RUNS
from xsim.errors import SpecError

if TYPE_CHECKING:
    from analysis.validation import Bound, Case
    from runners.points import Point
    from runners.published.collectives import Measured
    from runners.published.plan import Planned
    from runners.published.sections import Section
    from runners.settings import Settings

__all__ = ["NAME", "OWN", "VARIABLE", "bounds", "cases", "fastest", "main", "missed", "tables"]

Results = dict[str, dict[str, Any]]  # rows of the store, by key

NAME = "validate"  # folder of the results
VARIABLE = "XSIM_REFERENCE_DATA"
OWN = Path(__file__).with_name("published")
BOUNDS = OWN / "bounds.yaml"
NARROW = ", FP8"  # of the groups of rows that compute in it: no bound is asked for, and none of 16 bits hold for them


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
    from runners.published.collectives import plan_collectives
    from runners.published.plan import plan_rows
    from runners.published.rows import read_rows
    from xsim.spec.naming import nearest

    rows = read_rows(given.rows or tables())
    if not rows:
        raise SpecError("rows", ", ".join(map(str, given.rows)), "they have no rows", "name a table of measured runs")
    known = dict.fromkeys(row.group for row in rows)
    for name in given.group:
        if name not in known:
            raise SpecError("group", name, "no table has rows of it", nearest(name, known))
    rows = tuple(row for row in rows if not given.group or row.group in given.group)
    reference = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
    planned, settings = plan_rows(rows, command, reference=reference)
    whole = not (given.rows or given.group)
    beside = plan_collectives(reference if whole else None, command)
    if all(each.reason for each in planned):
        raise SpecError("rows", planned[0].row.name, f"none can be replayed: {planned[0].reason}", "name other rows")
    if settings.dry_run:
        _list(planned)
        if beside:
            lacking = sum(each.point is None for each in beside)
            print(f"{counted(len(beside), 'measured collective')} besides, {lacking} of them left out")
        return 0
    trials = _simulated((point for each in planned for point in each.trials), settings, argv)
    planned = fastest(planned, trials)
    points = [*(each.point for each in planned if each.point), *(each.point for each in beside if each.point)]
    results = _simulated(points, settings, argv)
    more = _beside(reference if whole else None, beside, results)
    return _report(planned, trials | results, settings, more)


def _beside(folder: Path | None, measured: Sequence[Measured], results: Results) -> list[Section]:
    """What is measured beside training runs."""
    from runners.published.collectives import judged
    from runners.published.sections import sections

    _, asked = bounds()
    return [*sections(folder, asked), *judged(measured, results, asked)]


def _list(planned: Sequence[Planned]) -> None:
    """What would run for each row, or why nothing would."""
    cells = [
        (each.row.name, each.row.group, _deployed(each), str(len(each.trials)) if each.trials else "", each.reason)
        for each in planned
    ]
    print_table(("row", "source", "deployed", "trials", "left out because"), cells, numbers=("trials",))


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


def _simulated(points: Iterable[Point], settings: Settings, argv: Sequence[str]) -> Results:
    """The result of each of ``points`` by its key, run as a sweep runs them.

    Raises:
        Stopped: A signal came, or the time is used up.
    """
    from runners.brake import Brake
    from runners.due import History, why
    from runners.manifest import manifest
    from runners.points import Plan
    from runners.preflight import check_writable, claimed
    from runners.running import Running
    from runners.stop import stoppable
    from runners.store import Store

    plan = Plan(name=NAME, points=tuple({point.key: point for point in points}.values()), settings=settings)
    if not plan.points:
        return {}
    store = Store(settings.out / NAME)
    check_writable(store.folder)
    with stoppable() as stop, claimed(store.folder, argv):
        history = History.of(store.folder)
        missing = [point for point in plan.points if why(point, history, settings)]
        tell(f"{NAME}: {counted(len(plan.points), 'simulation')}, {len(plan.points) - len(missing)} already there")
        store.begin(manifest(plan, argv, NAME))
        before = Counter(history.known[p.key] for p in plan.points if p.key in history.known and p not in missing)
        brake = Brake(stop, settings.max_failures, settings.time_budget_s)
        ended = Running(plan, store, len(plan.points), before, history.durations, None, brake).run(missing)
    if ended.cause:
        tell(f"{ended.cause}; the same command runs the rest")
        raise Stopped(stop.code or INTERRUPTED)
    return {row["key"]: row for row in store.rows(plan.points).to_pylist()}


def fastest(planned: Iterable[Planned], trials: Results) -> tuple[Planned, ...]:
    """Each row with one experiment: where there are trials, that of the fastest whose whole fits, or of all if none."""
    return tuple(_settled(each, trials) if each.trials else each for each in planned)


def _settled(planned: Planned, trials: Results) -> Planned:
    from runners.published.plan import fits

    times = {
        choice: float(trials[trial.key]["training_time_s"])
        for choice, trial in enumerate(planned.trials)
        if trial.key in trials and trials[trial.key]["status"] == "ok"
    }
    if not times:
        return replace(planned, choices=())
    ordered = sorted(times, key=lambda choice: times[choice])
    best = next((choice for choice in ordered if fits(planned.choices[choice])), ordered[0])
    return replace(planned, choices=(planned.choices[best],))


def cases(planned: Iterable[Planned], results: Results) -> tuple[Case, ...]:
    """Every row with its prediction."""
    return tuple(_case(each, results.get(each.point.key) if each.point else None) for each in planned)


def _case(planned: Planned, result: Mapping[str, Any] | None) -> Case:
    from analysis.validation import Case
    from runners.published.replay import narrow

    row = planned.row
    ended = result is not None and result["status"] == "ok"
    reason = planned.reason or ("none of its trials ended well" if result is None else str(result["reason"]))
    shape = ", ".join(row.texts.get(name) or "?" for name in ("layers", "hidden", "heads"))
    figures = {} if result is None else {key: float(v) for key, v in result.items() if isinstance(v, int | float)}
    return Case(
        name=row.name,
        group=row.group + (NARROW if narrow(row) else ""),
        source=row.texts["source"],
        sweep=f"{row.texts['model']} ({shape}) on {row.whole.get('num_gpus', '?')} {row.devices}",
        deployed=_deployed(planned),
        measured_s=planned.step_s,
        measured_bytes=planned.memory_bytes,
        predicted_s=figures["training_time_s"] if ended else None,
        reason="" if ended else reason,
        figures=figures if ended else {},
        wall_s=figures.get("wall_s", 0.0),
    )


def _deployed(planned: Planned) -> str:
    """Degrees in short; what the row does not say and was found by trials stands in brackets."""
    row = planned.row
    told = {name: row.texts[name] for name in ("tp", "cp", "pp", "vp", "dp", "mbs") if row.texts.get(name)}
    words = [f"{name}{text}" for name, text in told.items() if (name, text) != ("cp", "1")]
    if row.texts.get("tp_per_stage"):
        words.insert(0, f"tp{row.texts['tp_per_stage']}")
    planner: Any = planned.point.config["planner"] if planned.point else {}
    found = [f"{name}{planner[key]}" for name, key in (("vp", "chunks"), ("mbs", "micro_batch")) if key in planner]
    return " ".join(words if row.texts.get("mbs") or not found else [*words, f"({' '.join(found)})"])


def bounds(path: Path = BOUNDS) -> tuple[tuple[Bound, ...], Mapping[str, float]]:
    """What is asked for of each source, and of each further section."""
    import yaml

    from analysis.validation import Bound

    plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = (
        Bound(
            name=f"*{NARROW}" if each.get("narrow") else each["group"],
            time=each.get("time"),
            memory=each.get("memory"),
            peers=each["peers"],
        )
        for each in plain["bounds"]
    )
    return tuple(found), plain["sections"]


def missed(path: Path = BOUNDS, *, alone: bool = True) -> dict[str, str]:
    """Which bounds are known to be missed, and why; ``alone``: those too that hold with the times of the sources."""
    import yaml

    listed = yaml.safe_load(path.read_text(encoding="utf-8"))["missed"]
    return {each["group"]: each["why"] for each in listed if alone or not each.get("alone")}


def _report(planned: Sequence[Planned], results: Results, settings: Settings, beside: Sequence[Section]) -> int:
    """Write and print it."""
    from analysis.validation import grouped
    from analysis.validation_plots import draw
    from analysis.validation_report import Report, counts
    from runners.brake import FAILURES
    from runners.published.sources import read_sources, source_of

    groups = grouped(cases(planned, results))
    known = {group.name: source_of(group.name.removesuffix(NARROW), read_sources()[0]) for group in groups}
    about = {name: source.about for name, source in known.items() if source}
    asked, _ = bounds()
    reference = os.environ.get(VARIABLE)
    known_to_be = missed(alone=not (reference and Path(reference, "planner_data").is_dir()))
    folder = settings.out / NAME
    pages = [(section.heading, [*section.lines, *_figure(section, folder)]) for section in beside]
    report = Report(groups=groups, bounds=asked, missed=known_to_be, about=about, sections=pages)
    page = folder / "report.md"
    page.write_text(report.markdown(draw(groups, folder)), encoding="utf-8")
    report.show()
    print(f"\n{counts(groups)}\nReport: {page}")
    failed = [status for status in FAILURES if status != "timeout"]  # that is an answer: the row is left out
    failures = [str(result["reason"]) for result in results.values() if result["status"] in failed]
    if failures:
        tell(f"{counted(len(failures), 'simulation')} failed, the first: {failures[0]}")
    passed = [*report.failed, *(name for section in beside for name in section.passed)]
    if passed:
        tell(f"passed without being listed as missed in bounds.yaml: the bounds of {', '.join(passed)}")
    return int(bool(failures or passed))


def _figure(section: Section, folder: Path) -> list[str]:
    """Lines that show the figure of a section that has one."""
    from analysis.validation_plots import scatter

    if not section.points:
        return []
    path = scatter(section.heading, section.points, "of a collective", folder)
    return ["", f"![{section.heading}: predicted over measured]({path})"]


if __name__ == "__main__":
    raise SystemExit(main())
