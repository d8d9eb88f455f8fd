"""Run one experiment and explain where its time went.

python -m runners.run
python -m runners.run cluster=h100x8_a100x1 deployment=h100x8_a100x1_7b reshard=hetauto
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.command import CONFIG_ERROR, exits, starts, tell
from runners.cli import read_command, replaced

if TYPE_CHECKING:
    from runners.points import Plan

__all__ = ["main"]

SHARDED = re.compile(r"; set zero: (?P<zero>\d)(?P<bucket> and a bucket of one layer)? on the deployment")


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if the simulation failed, 2 if the input is wrong or does not fit."""
    command = read_command(argv, __doc__ or "")
    from runners.points import composed, plan_single

    if command.show:
        print(composed(command), end="")
        return 0
    plan = plan_single(command)
    if plan.settings.dry_run:
        from runners.preview import preview

        line, runs = preview(plan.points[0])
        print(line)
        return 0 if runs else CONFIG_ERROR
    return _run(plan, argv)


def _run(plan: Plan, argv: Sequence[str]) -> int:
    from analysis.stored import DETAIL
    from runners.detail import write_large
    from runners.inputs import read
    from runners.options import offered
    from runners.preflight import check_writable
    from runners.run_screen import explain
    from runners.run_tables import TIMELINE, run_tables, timeline, traced
    from runners.store import Store, row_of
    from runners.watch import watching
    from runners.worker import attempted

    (point,) = plan.points
    store = Store(plan.settings.out / plan.name)
    check_writable(store.folder)
    experiment = read(point.config).experiment()
    with watching(experiment.network, experiment.iterations) as network:
        result, outcome = attempted(
            lambda: replace(experiment, network=network), network.begins, network.plans, network.progress
        )
    if result is None:
        tell(f"error: {outcome['reason']}{_typed(outcome['reason'], experiment.planner)}")
        if outcome["status"] in ("invalid", "does_not_fit"):
            return CONFIG_ERROR
        tell(outcome["details"].rstrip())
        return 1
    detail = store.folder / DETAIL / point.key
    store.begin({"code": point.code, "points": [point.named]})
    outcome["tables"] = {**run_tables(experiment, result), TIMELINE: timeline(experiment, result)}
    write_large(detail, outcome["tables"])
    store.write(row_of(point, outcome, worker=0, attempt=1))
    print(point.title)
    explain(experiment, result)
    print(f"Tables per rank, operator, link, exchange and collective: {detail}")
    if result.network.samples is not None:
        from analysis.queues import draw

        print(f"Queues and rates of links over time: {draw(detail)}")
    part = "" if traced(result) is None else " (one rank per group of the first replica)"
    print(f"Timeline{part}: open {detail / 'trace.json'} in https://ui.perfetto.dev")
    where = [word for word in argv if word.startswith("out=")]
    print(f"Critical path and levers: {starts('runners.explain')} {shlex.join([f'key={point.key[:8]}', *where])}")
    print(f"Compare strategies: {starts('runners.sweep')} {replaced(argv, 'reshard', offered('reshard'))}")
    return 0


def _typed(reason: str, planner: object) -> str:
    """What to type here, where a remedy for a plan that does not fit into memory is a key of this command.

    Args:
        reason: What is wrong, as ``xsim.plan.remedies`` words it if it is memory.
        planner: Its options take the place of the deployment's keys, which a planner does not read.
    """
    from xsim.families import name_of

    if not (found := SHARDED.search(reason)):
        return ""
    values = {"zero": found["zero"], **({"bucket": "1B"} if found["bucket"] else {})}
    group = "deployment" if name_of("planner", planner) == "given" else "planner"
    if group == "planner" and not all(hasattr(planner, key) for key in values):
        return ""
    words = " ".join(f"{group}.{key}={value}" for key, value in values.items())
    return f": write {words}, or memory=report to simulate it all the same"


if __name__ == "__main__":
    raise SystemExit(main())
