"""Run one experiment and explain where its time went.

python -m runners.run
python -m runners.run cluster=h100x8_a100x1 deployment=h100x8_a100x1_7b reshard=hetauto memory=report
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import CONFIG_ERROR, exits, starts
from runners.cli import read_command, replaced

if TYPE_CHECKING:
    from runners.points import Plan, Point
    from xsim.experiment import Experiment, Result
    from xsim.tables import Table

TRACED_RANKS = 64  # a timeline of 1024 ranks would be a file of 700 MB

CAUSES = ("compute", "optimizer", "tp_comm", "dp_comm", "bubble", "idle")


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, 1 if the simulation failed, 2 if the input is wrong or does not fit."""
    command = read_command(argv, __doc__ or "")
    from runners.points import composed, plan_single

    if command.show:
        import yaml

        print(yaml.safe_dump(composed(command), sort_keys=False), end="")
        return 0
    plan = plan_single(command)
    if plan.settings.dry_run:
        print(f"{plan.points[0].key}  {plan.points[0].title}")
        return 0
    return _run(plan)


def _run(plan: Plan) -> int:
    from runners.inputs import read
    from runners.store import Store, row_of
    from runners.worker import attempted
    from xsim.experiment import run

    (point,) = plan.points
    experiment = read(point.config).experiment()
    result, outcome = attempted(lambda: run(experiment))
    if result is None:
        print(f"error: {outcome['reason']}", file=sys.stderr)
        if outcome["status"] in ("invalid", "does_not_fit"):
            return CONFIG_ERROR
        print(outcome["details"], file=sys.stderr, end="")
        return 1
    store = Store(plan.settings.out / plan.name)
    store.begin({"code": point.code, "points": [{"key": point.key, **point.labels}]}, again=[])
    store.write(row_of(point, outcome, worker=0, attempt=1))
    detail = store.folder / "detail" / point.key
    _write_detail(detail, experiment, result)
    _show(point, result, detail)
    return 0


def _write_detail(folder: Path, experiment: Experiment, result: Result) -> None:
    from runners.store import write_whole
    from xsim.tables import link_table, operator_table, rank_table
    from xsim.trace import trace_events

    scenario, timeline = experiment.scenario, result.timeline
    tables = {
        "ranks": rank_table(scenario, result.workload, timeline, result.account, result.memory),
        "operators": operator_table(result.account),
        "links": link_table(result.fabric, result.network, timeline.makespan_ps),
    }
    for name, columns in tables.items():
        write_whole(folder / f"{name}.parquet", _parquet(columns))
    events = trace_events(result.workload, timeline, scenario, _traced(result))
    write_whole(folder / "trace.json", json.dumps({"traceEvents": events}, separators=(",", ":")).encode())


def _traced(result: Result) -> frozenset[int] | None:
    """Ranks in the timeline: all of a small deployment (None), else the first of each group of the first replica."""
    if len(result.account.ranks) <= TRACED_RANKS:
        return None
    return frozenset(program.devices.ranks[0] for program in result.workload.programs if program.replica == 0)


def _parquet(columns: Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _show(point: Point, result: Result, detail: Path) -> None:
    """The account by cause, then every other figure, then what to do next."""
    from analysis.screen import print_table
    from xsim.metrics import COLUMNS

    row = result.metrics.row()
    total = float(row["training_time_s"])
    print(point.title)
    account = []
    for cause in CAUSES:
        mean, largest = float(row[f"{cause}_time_s"]), float(row[f"{cause}_time_max_s"])
        account.append([cause, f"{mean:.6f}", f"{mean / total:.2%}", f"{largest:.6f}"])
    account.append(["training time", f"{total:.6f}", "100.00%", f"{total:.6f}"])
    print_table(["per rank", "mean s", "share", "max s"], account, numbers=["mean s", "share", "max s"])
    shown = {"training_time_s", *(f"{cause}_time{part}_s" for cause in CAUSES for part in ("", "_max"))}
    rest = [column for column in COLUMNS if column.name not in shown and column.kind != "text"]
    print()
    print_table(
        ["figure", "value", "unit", "meaning"],
        [[column.name, _figure(row[column.name]), column.unit, column.doc] for column in rest],
        numbers=["value"],
    )
    print(f"\nMemory: {row['memory_verdict']}")
    print(f"Busiest link: {row['busiest_link']}")
    print(f"Tables per rank, operator and link: {detail}")
    part = "" if _traced(result) is None else " (one rank per group of the first replica)"
    print(f"Timeline{part}: open {detail / 'trace.json'} in https://ui.perfetto.dev")
    print("Compare strategies: python -m runners.sweep reshard=lcm,hetauto,alpacomm")


def _figure(value: float | bool | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
