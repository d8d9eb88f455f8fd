from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analysis.planners import cases, main, show, speed_ups

PARTS = {
    "compute_time_s": 1.0,
    "bubble_time_s": 0.5,
    "tp_comm_time_s": 0.25,
    "dp_comm_time_s": 0.25,
    "idle_time_s": 0.0,
}


def row(cluster: str, planner: str, time_s: float | None, point: str = "", **more: Any) -> dict[str, Any]:
    status = "does_not_fit" if time_s is None else "ok"
    own = {"cluster": cluster, "model": "m", "batch": 8, "planner": planner, "point": point, "status": status}
    told = {"training_time_s": time_s, "fits": time_s is not None, "predicted_s": None, "search_s": 0.5}
    return {**own, **told, **PARTS, "reshard": "lcm", **more}


ROWS = [
    row("a", "metis", 4.0, "memory=enforce", predicted_s=5.0),
    row("a", "eth", 2.0, "memory=enforce, planner.alpha=1.5"),
    row("a", "xsim", 1.0, "memory=enforce"),
    row("b", "metis", 3.0, "memory=enforce, model.layers=4"),
    row("b", "xsim", None, "memory=enforce, model.layers=4"),
    row("b", "xsim", 1.5, "memory=enforce, model.layers=8"),
    row("b", "metis", 3.0, "memory=enforce, model.layers=8", reshard="star"),
]


def test_cases_differ_in_nothing_but_the_planner() -> None:
    found = cases(ROWS)

    assert [(case.cluster, case.others, list(case.rows)) for case in found] == [
        ("a", "reshard=lcm", ["metis", "eth, alpha=1.5", "xsim"]),
        ("b", "model.layers=4, reshard=lcm", ["metis", "xsim"]),
        ("b", "model.layers=8, reshard=lcm", ["xsim"]),
        ("b", "model.layers=8, reshard=star", ["metis"]),
    ]
    assert [case.best_s for case in found] == [1.0, 3.0, 1.5, 3.0]
    assert speed_ups(found, "xsim", "metis") == [4.0]


def test_a_line_per_run() -> None:
    out = io.StringIO()

    show(cases(ROWS[:5]), file=out)

    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.getvalue().splitlines()[2:]]
    assert lines[0] == ["a", "m", "8", "metis", "4", "4.000", "1", "0.5", "0.5", "0", "+25.0%", "0.5"]
    assert lines[2][3:6] == ["xsim", "1", "1.000"]
    assert lines[4][1:6] == ["m model.layers=4", "8", "xsim", "does_not_fit", ""]


def test_speed_ups_are_geometric_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Selected:
        table = pa.Table.from_pylist([*ROWS[:3], row("a", "xsim", 1.0, "seed=1"), row("a", "metis", 1.0, "seed=1")])

    monkeypatch.setattr("analysis.tables.select", lambda folder: Selected)
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n| cluster | model |\n|---|---|\n| old | old |\n\nText.\n")

    assert main(["somewhere", "--against", "metis", "--page", str(page)]) == 0

    told = capsys.readouterr().out
    assert "| a       | xsim           |      2.000 | 1.000 | 4.000 |     2 |" in told
    assert "| a       | eth, alpha=1.5 |      2.000 | 2.000 | 2.000 |     1 |" in told
    assert "old" not in page.read_text()
    assert page.read_text().endswith("\n\nText.\n")
    assert main(["somewhere", "--against", "hap"]) == 2
    assert "choose one of metis, eth, alpha=1.5, xsim" in capsys.readouterr().err
