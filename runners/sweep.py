"""Run a grid of experiments side by side, and compare them.

    python -m runners.sweep +grid=hetero_llama
    python -m runners.sweep +grid=hetero_llama network=flow seed=0,1,2
    python -m runners.sweep cluster=fig4 reshard=lcm,hetauto dry_run=true

A sweep that was started before runs only what is missing.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from analysis.command import INTERRUPTED, exits, starts, tell
from analysis.screen import counted
from runners.brake import FAILURES
from runners.cli import read_command

if TYPE_CHECKING:
    import pyarrow as pa

    from runners.brake import Brake
    from runners.durations import Durations
    from runners.points import Plan, Point
    from runners.pool import Finished
    from runners.progress import Count
    from runners.store import Store
    from runners.track import Tracker

STATUS_EVERY_S = 5.0


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if a row failed, 2 if the input is wrong, 130 or 143 if stopped."""
    command = read_command(argv, __doc__ or "")
    from runners.points import composed, plan_sweep

    if command.show:
        print(composed(command), end="")
        return 0
    plan = plan_sweep(command)
    if plan.settings.dry_run:
        from runners.preview import preview

        shard = plan.settings.shard
        points = [point for point in plan.points if shard is None or shard.holds(point.key)]
        for point in points:
            print(preview(point)[0])
        tell(counted(len(points), "point"))
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
    with (
        stoppable() as stop,
        claimed(folder, argv, settings.shard),
        told(settings.on_done, folder, stop) as ending,
    ):
        brake = Brake(stop, settings.max_failures, settings.time_budget_s)
        ending.code, ending.summary = _run_claimed(plan, argv, brake)
    return stop.code or ending.code


def _run_claimed(plan: Plan, argv: Sequence[str], brake: Brake) -> tuple[int, str]:
    """The exit code, and a line on what became of the points."""
    from runners.store import Store

    store, shard = Store(plan.settings.out / plan.name), plan.settings.shard
    known = store.known()
    asked = _asked(plan, argv)
    if shard is not None:
        plan = replace(plan, points=tuple(point for point in plan.points if shard.holds(point.key)))
    missing = [point for point in plan.points if _is_due(known.get(point.key), retry=plan.settings.retry_failed)]
    due = {point.key for point in missing}
    there = [point for point in plan.points if point.key not in due]
    _announce(plan, store, len(there), str(asked["code"]))
    store.begin(asked, again=[point.key for point in missing if point.key in known], shared=shard is not None)
    before = Counter(known[point.key] for point in there)
    with _tracker(plan, store, there, to_run=len(missing), code=str(asked["code"])) as tracker:
        cause = _run_missing(plan, store, missing, before, tracker, brake)
        rows = store.rows(plan.points)
        states = Counter(rows["status"].to_pylist())
        failed = any(status in FAILURES for status in states)
        if tracker is not None:
            tracker.status = "KILLED" if cause else "FAILED" if failed else "FINISHED"
        if shard is None:
            _report(store, rows)
    if tracker is not None and rows:
        _report_tracking(plan, tracker)
    if cause:
        tell(f"{cause}: {len(rows)} of {len(plan.points)} are done; the same command runs the rest")
    elif shard is not None:
        tell("when all parts are done, the same command without shard= compares them")
    shown = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    summary = f"{plan.name}: {len(rows)} of {len(plan.points)} done{f' ({shown})' if shown else ''}"
    return (int(failed) if not cause or brake.failed else INTERRUPTED), summary


def _announce(plan: Plan, store: Store, there: int, code: str) -> None:
    """How many points are to run, and why perhaps more than expected."""
    text = f"{plan.name}: {counted(len(plan.points), 'point')}, {there} already there"
    if older := store.older(code):
        cause = "the simulator's code has changed since: " if there < len(plan.points) else ""
        text += f"; {cause}{counted(older, 'row')} of an earlier version hidden"
    tell(text)


def _is_due(status: str | None, *, retry: bool) -> bool:
    return status is None or (retry and status in FAILURES)


def _asked(plan: Plan, argv: Sequence[str]) -> dict[str, object]:
    packages = ("xsim", "numba", "numpy", "ray", "simpy")
    return {
        "command": ["python", "-m", "runners.sweep", *argv],
        "code": plan.points[0].code,
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in packages},
        "points": [point.named for point in plan.points],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@contextmanager
def _tracker(plan: Plan, store: Store, there: Sequence[Point], to_run: int, code: str) -> Iterator[Tracker | None]:
    """Where rows are logged; rows that an interrupted sweep left unlogged come first.

    Parts of a sweep, which may run on other hosts, leave a file of all results to the sweep that compares them.
    """
    from runners.settings import default_uri
    from runners.track import Tracker, tracked

    uri = plan.settings.tracking_uri
    if uri is None or (plan.settings.shard is not None and uri == default_uri(plan.settings.out)):
        yield None
        return
    identity = hashlib.sha256("\n".join(sorted(point.key for point in plan.points)).encode()).hexdigest()[:16]
    tracker = Tracker(uri=uri, grid=plan.name, sweep=identity, folder=store.folder, code=code)
    logged = tracked(store.folder, uri)
    untracked = [point for point in there if point.key not in logged]
    with closing(tracker):
        if untracked or to_run:
            tracker.start()
        if untracked:
            for row in store.rows(untracked).to_pylist():
                tracker.add(row)
        yield tracker


def _run_missing(
    plan: Plan, store: Store, missing: Sequence[Point], before: Counter[str], tracker: Tracker | None, brake: Brake
) -> str:
    """Run and store ``missing``, beside the points that ended ``before``; what stopped it early, if anything did."""
    from runners.progress import Count

    settings = plan.settings
    workers = settings.num_workers or len(os.sched_getaffinity(0))
    count = Count(len(missing), min(workers, len(missing)))

    def note(state: str) -> None:
        name = "status.json" if settings.shard is None else f"status-{settings.shard.name}.json"
        store.note(state, len(plan.points), before + count.done, count.eta_s, name)

    state, cause = "stopped", ""
    try:
        if missing:
            _follow(plan, store, missing, count, tracker, note, brake)
        cause = brake.cause if count.left else ""
        state = "interrupted" if cause else "finished"
    except KeyboardInterrupt:
        state = cause = "interrupted"
    finally:
        note(state)
        if settings.shard is None:
            store.compact()
    return cause


def _follow(
    plan: Plan,
    store: Store,
    missing: Sequence[Point],
    count: Count,
    tracker: Tracker | None,
    note: Callable[[str], None],
    brake: Brake,
) -> None:
    """Store and show each outcome as it comes."""
    from runners.durations import Durations
    from runners.progress import progress
    from runners.store import row_of

    noted_s, durations = 0.0, Durations.of(store.lasted())
    with progress(count) as display, closing(_outcomes(plan, missing, durations, brake)) as outcomes:
        for done in outcomes:
            if done is not None:
                row = row_of(done.point, done.outcome, worker=done.worker, attempt=done.attempt)
                store.write(row)
                if tracker is not None:
                    tracker.add(row)
                brake.count(done.outcome["status"])
                count.add(done.outcome["status"], done.outcome["wall_s"], done.worker)
            display.show(count)
            if time.monotonic() - noted_s > STATUS_EVERY_S:
                noted_s = time.monotonic()
                note("running")


def _outcomes(plan: Plan, missing: Sequence[Point], durations: Durations, brake: Brake) -> Generator[Finished | None]:
    """Contradictions are answered here, the rest by workers."""
    from runners.pool import Finished, Limits, finished
    from runners.worker import Outcome

    for point in missing:
        if point.contradiction:
            reason = str(point.contradiction)
            yield Finished(point, Outcome(status="invalid", reason=reason, details="", metrics={}, wall_s=0.0), -1, 0)
    sound = [point for point in missing if not point.contradiction]
    settings = plan.settings
    limits = Limits(
        workers=settings.num_workers,
        timeout_s=settings.timeout_s,
        retries=settings.retries,
        address=settings.ray_address,
        ship=settings.ray_ship,
        reserve=settings.reserve,
        durations=durations,
        brake=brake,
    )
    if sound:
        _compile(sound)
        yield from finished(sound, limits)


def _compile(points: Sequence[Point]) -> None:
    """What packets need, before several workers do it at once."""
    if any(point.labels["network"] == "packet" for point in points):
        from runners.warm import warm
        from xsim.families import build

        warm(build("network", {"name": "packet"}))


def _report(store: Store, rows: pa.Table) -> None:
    from analysis.compare import draw, show

    if not rows:
        return
    show(rows)
    print(f"\nTables:  {store.folder} (analysis.load reads them)")
    path = draw(rows, store.folder)
    if path is not None:
        print(f"Figure:  {path}")
    print(f"Compare: {starts('analysis.compare')} {shlex.quote(str(store.folder))}", flush=True)


def _report_tracking(plan: Plan, tracker: Tracker) -> None:
    from runners.settings import default_uri

    if tracker.problem:
        tell(f"warning: MLflow has not all runs: {tracker.problem}; the same command logs the rest")
    own = tracker.uri == default_uri(plan.settings.out)
    place = shlex.quote(str(plan.settings.out)) if own else f"--uri {shlex.quote(tracker.uri)}"
    print(f"MLflow:  {starts('runners.ui')} {place}")


if __name__ == "__main__":
    raise SystemExit(main())
