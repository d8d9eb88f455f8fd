"""Run a grid of experiments side by side, and compare them.

    python -m runners.sweep +grid=hetero_llama
    python -m runners.sweep +grid=hetero_llama network=flow seed=0,1,2
    python -m runners.sweep cluster=fig4 reshard=lcm,hetauto dry_run=true

A sweep that was started before runs only what is missing.
"""

from __future__ import annotations

import hashlib
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from runners.cli import INTERRUPTED, exits, read_command

if TYPE_CHECKING:
    import pyarrow as pa

    from runners.points import Plan, Point
    from runners.store import Store
    from runners.track import Tracker

FAILURES = ("failed", "timeout", "crashed", "out_of_memory")  # the other states are answers


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if a row failed, 2 if the input is wrong, 130 if interrupted."""
    command = read_command(argv, __doc__ or "")
    from runners.points import composed, plan_sweep

    if command.show:
        import yaml

        print(yaml.safe_dump(composed(command), sort_keys=False), end="")
        return 0
    plan = plan_sweep(command)
    if plan.settings.dry_run:
        _list(plan)
        return 0
    return _run(plan, argv)


def _list(plan: Plan) -> None:
    for point in plan.points:
        problem = f"  invalid: {point.contradiction}" if point.contradiction else ""
        print(f"{point.key}  {point.title}{problem}")
    print(f"{len(plan.points)} points", file=sys.stderr)


def _run(plan: Plan, argv: Sequence[str]) -> int:
    from runners.store import Store

    store = Store(plan.settings.out / plan.name)
    known = store.known()
    retry = FAILURES if plan.settings.retry_failed else ()
    missing = [point for point in plan.points if known.get(point.key, retry[:1] or None) in (None, *retry)]
    again = [point.key for point in missing if point.key in known]
    tracker = _tracker(plan, store)
    store.begin(_asked(plan, argv), again)
    print(f"{plan.name}: {len(plan.points)} points, {len(plan.points) - len(missing)} already there", file=sys.stderr)
    interrupted = _run_missing(plan, store, missing, tracker)
    if missing:
        store.compact()
    rows = store.rows([point.key for point in plan.points])
    failed = any(status in FAILURES for status in rows["status"].to_pylist())
    _track_rest(plan, store, rows, tracker)
    if tracker is not None:
        tracker.close("KILLED" if interrupted else "FAILED" if failed else "FINISHED")
    _report(plan, rows, tracker)
    return INTERRUPTED if interrupted else int(failed)
