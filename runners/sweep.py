"""Run a grid of experiments side by side, and compare them.

    python -m runners.sweep +grid=hetero_llama
    python -m runners.sweep +grid=hetero_llama network=flow seed=0,1,2
    python -m runners.sweep cluster=fig4 reshard=lcm,hetauto dry_run=true

A sweep that was started before runs only what is missing.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.command import INTERRUPTED, exits, starts, tell
from analysis.screen import counted
from analysis.secrets import shown, shown_words
from runners.brake import FAILURES
from xsim.errors import XsimError

if TYPE_CHECKING:
    import pyarrow as pa

    from runners.brake import Brake
    from runners.points import Plan, Point
    from runners.running import Ended
    from runners.store import Store
    from runners.track import Tracker

TOLD_FROM = 20  # runs that wait for MLflow: half a second


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if a row failed, 2 if the input is wrong, 130 or 143 if stopped."""
    from runners.cli import read_command  # here, so that Ctrl-C is a word from the first moments on
    from runners.points import composed, plan_sweep

    command = read_command(argv, __doc__ or "")
    if command.show:
        print(composed(command), end="")
        return 0
    plan = plan_sweep(command)
    if plan.settings.dry_run:
        from runners.preview import list_points

        list_points(plan)
        return 0
    return _run(plan, argv)


def _run(plan: Plan, argv: Sequence[str]) -> int:
    from runners.brake import Brake
    from runners.on_done import told
    from runners.preflight import check_store, check_writable, claimed
    from runners.stop import stoppable

    settings = plan.settings
    folder = settings.out / plan.name
    check_writable(folder)
    if settings.tracking_uri is not None:
        check_store(settings.tracking_uri)
    if settings.copy_to is not None:
        from runners.copies import check_target

        check_target(settings.copy_to)
    with (
        stoppable() as stop,
        told(settings.on_done, folder, stop) as ending,  # which may start the next sweep in the folder
        claimed(folder, argv, settings.shard),
    ):
        brake = Brake(stop, settings.max_failures, settings.time_budget_s)
        ending.code, ending.summary = _run_claimed(plan, argv, brake)
    return stop.code or ending.code


def _run_claimed(plan: Plan, argv: Sequence[str], brake: Brake) -> tuple[int, str]:
    """The exit code, and a line on what became of the points."""
    from runners.due import History, chosen, why
    from runners.manifest import manifest
    from runners.running import Running
    from runners.store import Store

    store, shard = Store(plan.settings.out / plan.name), plan.settings.shard
    history = History.of(store.folder)
    known = history.known
    asked = manifest(plan, argv)
    wanted = chosen(plan.points, plan.settings.only)
    if shard is not None:
        plan = replace(plan, points=tuple(point for point in plan.points if shard.holds(point.key)))
        wanted = [point for point in wanted if shard.holds(point.key)]
    missing = [point for point in wanted if why(point, history, plan.settings)]
    if plan.settings.detail:
        missing = _with_tables(plan, store, wanted, known, missing)
    due = {point.key for point in missing}
    there = [point for point in plan.points if point.key in known and point.key not in due]
    before = Counter(known[point.key] for point in wanted if point.key in known and point.key not in due)
    again = sum(point.key in known for point in missing)
    _announce(plan, store, len(wanted), before.total(), again, str(asked["code"]))
    store.begin(asked, shared=shard is not None)
    with _tracker(plan, store, there, to_run=len(missing), asked=asked) as tracker:
        ended = Running(plan, store, len(wanted), before, history.durations, tracker, brake).run(missing)
        cause, states = ended.cause, ended.states
        rows = store.rows_in_brief(plan.points)
        failed = sum(count for status, count in states.items() if status in FAILURES)
        if tracker is not None:
            well = not any(status in FAILURES for status in rows["status"].to_pylist())
            tracker.end("KILLED" if cause else "FINISHED" if well else "FAILED", hurry=cause == "interrupted")
        if shard is None:
            _report(store, rows)
    if tracker is not None and rows:
        _report_tracking(plan, tracker)
    if plan.settings.copy_to is not None and rows:
        from runners.copies import copy_table

        copy_table(store.rows(plan.points), plan.settings.copy_to)
        rest = "" if len(rows) == len(plan.points) else f" of {len(plan.points)}"
        print(f"Copy:    {shown(plan.settings.copy_to)} ({counted(len(rows), 'row')}{rest}: the points asked for)")
    _check_rows(store, rows, wanted, ended)
    if shard is None and failed:
        print(f"Again:   {_again(argv)}   (what failed, {counted(failed, 'point')})", flush=True)
    return (min(failed, 1) if not cause or brake.failed else INTERRUPTED), _told(plan, ended, len(wanted))


def _told(plan: Plan, ended: Ended, wanted: int) -> str:
    """A line on what became of the points, and what to do next if they are not all that were asked for."""
    states = ended.states
    if ended.cause:
        tell(f"{ended.cause}: {states.total()} of {_asked(plan, wanted)} are done; the same command runs the rest")
    elif plan.settings.shard is not None:
        tell("when all parts are done, the same command without shard= compares them")
    text = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    return f"{plan.name}: {states.total()} of {_asked(plan, wanted)} done{f' ({text})' if text else ''}"


def _check_rows(store: Store, rows: pa.Table, wanted: Sequence[Point], ended: Ended) -> None:
    """Whether all that ended has its row.

    Raises:
        XsimError: Somebody removed files.
    """
    there = {*rows["key"].to_pylist()}
    gone = ended.states.total() - sum(point.key in there for point in wanted)
    if gone > 0:
        problem = f"{counted(gone, 'row')} of {ended.states.total()} are gone: files in {store.folder} were removed"
        raise XsimError(f"{problem} while it ran; the same command runs these points again")


def _with_tables(
    plan: Plan, store: Store, wanted: Sequence[Point], known: Mapping[str, str], missing: Sequence[Point]
) -> list[Point]:
    """``missing`` and the sound runs that lack tables that are to be kept, in order; each is told which those are."""
    from analysis.stored import DETAIL
    from runners.detail import lacking

    due, names = {point.key for point in missing}, plan.settings.detail
    for key, status in known.items():
        if status == "ok" and lacking(store.folder / DETAIL / key, names):
            due.add(key)
    asked = {"detail": list(names)}
    return [replace(point, config={**point.config, **asked}) for point in wanted if point.key in due]


def _again(argv: Sequence[str]) -> str:
    """The command that runs what failed."""
    kept = [word for word in argv if not word.startswith(("force=", "retry="))]
    return f"{starts('runners.sweep')} {shlex.join([*shown_words(kept), 'retry=failed'])}"


def _asked(plan: Plan, wanted: int) -> str:
    """How many points were asked for, and that they are not all, if ``only`` names some."""
    return f"{wanted} asked for" if plan.settings.only else str(wanted)


def _announce(plan: Plan, store: Store, wanted: int, there: int, again: int, code: str) -> None:
    """How many points are to run, of them some ``again``, and why perhaps more than expected; and how to follow it."""
    part = f" in part {plan.settings.shard.name}" if plan.settings.shard else ""
    asked = f", {_asked(plan, wanted)}" if plan.settings.only else ""
    text = f"{plan.name}: {counted(len(plan.points), 'point')}{part}{asked}, {there} already there"
    if again:
        text += f", {again} to run again"
    if older := store.older(code):
        cause = "the simulator's code has changed since: " if there < wanted else ""
        text += f"; {cause}{counted(older, 'row')} of an earlier version hidden"
    tell(text)
    if there < wanted:
        tell(f"how far it is tells another shell: {starts('runners.status')} {shlex.quote(str(store.folder))}")


@contextmanager
def _tracker(
    plan: Plan, store: Store, there: Sequence[Point], to_run: int, asked: Mapping[str, object]
) -> Iterator[Tracker | None]:
    """Where rows are logged; those that an interrupted sweep left unlogged come last.

    All parts of a sweep are one in MLflow: what was ``asked`` for names it.

    Parts of a sweep, which may run on other hosts, leave a file of all results to the sweep that compares them.
    """
    from runners.mlflow_writer import Target, tracked
    from runners.preflight import answers
    from runners.settings import default_uri
    from runners.track import Tracker

    uri, shard = plan.settings.tracking_uri, plan.settings.shard
    if uri is None or (shard is not None and uri == default_uri(plan.settings.out)):
        yield None
        return
    sweep, code, part = str(asked["sweep"]), str(asked["code"]), "" if shard is None else shard.name
    tracker = Tracker(Target(uri=uri, grid=plan.name, sweep=sweep, folder=store.folder, code=code, part=part))
    if not answers(uri):
        later = "rows are stored all the same, and this command logs them when it does"
        tell(f"warning: no MLflow server answers at {shown(uri)}; {later}")
    logged = tracked(store.folder, uri)
    untracked = [point.key for point in there if point.key not in logged]
    with closing(tracker):
        tracker.add_stored(untracked)
        if untracked or to_run:
            tracker.start()
        yield tracker
        if tracker.left > TOLD_FROM and not tracker.hurry:
            tell(f"MLflow is given the last {counted(tracker.left, 'run')}; Ctrl-C leaves them to the next start")


def _report(store: Store, rows: pa.Table) -> None:
    from analysis.best import show as show_best
    from analysis.compare import draw, show

    if not rows:
        return
    show(rows)
    show_best(rows)
    print(f"\nTables:  {store.folder} (analysis.load reads them)")
    path = draw(rows, store.folder)
    if path is not None:
        print(f"Figure:  {path}")
    print(f"Compare: {starts('analysis.compare')} {shlex.quote(str(store.folder))}", flush=True)


def _report_tracking(plan: Plan, tracker: Tracker) -> None:
    from runners.settings import default_uri

    if tracker.problem:
        tell(
            f"warning: MLflow has not all runs: {tracker.problem}; when that is mended, the same command logs the rest"
        )
    own = tracker.target.uri == default_uri(plan.settings.out)
    if tracker.target.uri.startswith("http"):
        print(f"MLflow:  {shown(tracker.target.uri)}")
    else:
        place = shlex.quote(str(plan.settings.out)) if own else f"--uri {shlex.quote(shown(tracker.target.uri))}"
        print(f"MLflow:  {starts('runners.ui')} {place}")


if __name__ == "__main__":
    raise SystemExit(main())
