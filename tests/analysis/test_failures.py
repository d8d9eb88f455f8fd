from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analysis.failures import main, outcomes, show
from runners import pool, sweep
from tests.runners.in_process import in_process
from xsim.errors import SpecError

SLOW = "cluster.hosts.0.nic.bandwidth=100 Gbps"


def row(planner: str, samples_per_s: float | None, point: str = "", **more: Any) -> dict[str, Any]:
    ends = samples_per_s is not None
    own = {"cluster": "fig4", "model": "m", "batch": 24, "planner": planner, "point": point}
    told = {"status": "ok" if ends else "failed", "fits": ends, "search_s": 0.5, "samples_per_s": samples_per_s}
    return {**own, **told, "training_time_s": samples_per_s and 24 / samples_per_s, **more}


ROWS = [
    row("given", 8.0),
    row("repair", 6.0, "planner.how=shrink, planner.lost=[1]"),
    row("repair", 4.0, "planner.how=drop, planner.lost=[1]"),
    row("xsim", 16.0, "planner.lost=[]"),
    row("xsim", 12.0, "planner.lost=[1]"),
    row("given", 2.0, SLOW),
    row("repair", 5.0, f"{SLOW}, planner.how=keep"),
    row("repair", 3.0, f"{SLOW}, planner.how=drop, planner.lost=[1]"),
    row("xsim", 15.0, f"{SLOW}, planner.top=2, planner.lost=[]"),
    row("xsim", None, f"{SLOW}, planner.lost=[1]"),
    row("given", 1.0, cluster="fig4_slow"),
]


def test_throughput_is_compared_with_the_plan_before_and_with_a_fresh_one_before() -> None:
    found = outcomes(ROWS)

    assert [(each.happened, each.done, each.kept, each.kept_of_own) for each in found] == [
        ("nothing", "as it is", 1.0, None),
        ("lost=[1]", "reduced TP", 0.75, None),
        ("lost=[1]", "dropped replica", 0.5, None),
        ("nothing", "fresh plan, xsim", 2.0, 1.0),
        ("lost=[1]", "fresh plan, xsim", 1.5, 0.75),
        (SLOW, "as it is", 0.25, None),
        (SLOW, "dealt out anew", 0.625, None),
        (SLOW, "dropped replica, without [1]", 0.375, None),
        (SLOW, "fresh plan, xsim, top=2", 1.875, None),
        (SLOW, "fresh plan, xsim, without [1]", None, None),
        ("cluster=fig4_slow", "as it is", 0.125, None),
    ]
    assert [each.search_s for each in found[:2]] == [None, 0.5]


def test_runs_of_another_model_or_batch_have_a_run_before_of_their_own() -> None:
    more = [row("given", 10.0, batch=48), row("repair", 5.0, "planner.lost=[1]", batch=48), row("xsim", 1.0, model="n")]

    *_, shrunk, alone = outcomes([*ROWS, *more])

    assert (shrunk.model, shrunk.done, shrunk.kept) == ("m batch=48", "reduced TP", 0.5)
    assert (alone.model, alone.kept, alone.kept_of_own) == ("n batch=24", None, 1.0)


def test_what_follows_one_failure_stands_together() -> None:
    out = io.StringIO()

    show(outcomes(ROWS), file=out)

    first, *table = out.getvalue().splitlines()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:] if line.startswith("|")]
    assert first.startswith("m: kept is")
    assert [line.partition(":")[0] for line in table[-2:]] == ["kept of its own", "above 100 %"]
    assert [line[0] for line in lines] == ["nothing"] * 2 + ["lost=[1]"] * 3 + [SLOW] * 5 + ["cluster=fig4_slow"]
    assert lines[2][1:] == ["reduced TP", "4", "6", "75.0%", "", "0.5"]
    assert lines[4][1:] == ["fresh plan, xsim", "2", "12", "150.0%", "75.0%", "0.5"]
    assert lines[9][1:] == ["fresh plan, xsim, without [1]", "failed", "", "", "", "0.5"]


def test_the_command_prints_the_table_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Selected:
        table = pa.Table.from_pylist(ROWS)

        @staticmethod
        def notes() -> list[str]:
            return []

    monkeypatch.setattr("analysis.tables.select", lambda folder: Selected)

    assert main([str(tmp_path)]) == 0

    assert "| dropped replica " in capsys.readouterr().out


def test_the_grid_tells_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", in_process)
    assert sweep.main(["+grid=failures", "planner=given,repair", "network=analytic", "tracking=none"]) == 0
    capsys.readouterr()

    assert main(["outputs/failures"]) == 0

    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")][2:]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown]
    assert lines[0][:2] + lines[0][4:] == ["nothing", "as it is", "100.0%", "", ""]
    kept = {tuple(line[:2]): float(line[4].rstrip("%")) for line in lines if line[4]}
    assert kept["lost=[1]", "dropped replica"] < kept["cluster.hosts.1.scale_up=pcie", "as it is"] < 100
    assert kept["lost=[1]", "reduced TP"] > kept["lost=[1,8]", "reduced TP"]
    assert all(float(line[6]) > 0 for line in lines if line[1] not in ("as it is", ""))


def test_without_a_run_before_nothing_is_compared() -> None:
    with pytest.raises(SpecError, match="nothing has happened"):
        outcomes(ROWS[1:-1])
