from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from analysis.compare import CASE_COLUMNS, Failure, compare, failures, main, show
from analysis.plots import save_bars


def table(*rows: Mapping[str, object]) -> pa.Table:
    common: dict[str, object] = dict.fromkeys(CASE_COLUMNS, "same") | {"seed": 0, "batch": 24}
    figures: dict[str, object] = {"status": "ok", "reason": "", "training_time_s": 1.0, "bubble_time_s": 0.1}
    return pa.Table.from_pylist([{**common, **figures, "idle_time_s": 0.0, "fits": True, **row} for row in rows])


GRID = table(
    {"cluster": "a", "deployment": "a_7b", "reshard": "lcm", "training_time_s": 1.0},
    {"cluster": "a", "deployment": "a_7b", "reshard": "hetauto", "training_time_s": 1.5},
    {"cluster": "b", "deployment": "b_7b", "reshard": "lcm", "training_time_s": 2.0, "fits": False},
    {"cluster": "b", "deployment": "b_7b", "reshard": "hetauto", "status": "invalid", "reason": "no such layer"},
)


def test_strategies_stand_side_by_side() -> None:
    found = compare(GRID)

    assert (found.by, found.options, found.columns) == ("reshard", ("lcm", "hetauto"), ("cluster", "model"))
    times = {case: {name: run.training_time_s for name, run in runs.items()} for case, runs in found.cases.items()}
    assert times == {("a", "same"): {"lcm": 1.0, "hetauto": 1.5}, ("b", "same"): {"lcm": 2.0}}


def test_any_choice_can_be_compared() -> None:
    found = compare(GRID, by="network")

    assert found.options == ("same",)
    assert found.columns == ("cluster", "model", "reshard")


def test_the_text_names_misfits_failures_and_the_fastest() -> None:
    out = io.StringIO()

    show(GRID, file=out)

    text = out.getvalue()
    assert "| a       | same  |     1.0000 |         1.5000 |" in text
    assert "lcm (1.500x)" in text
    assert "2.0000*" in text
    assert "1 x invalid: no such layer" in text
    assert all(len(line) < 150 for line in text.splitlines())


def test_failures_are_grouped() -> None:
    bad = {"status": "failed", "reason": "ValueError: x"}

    found = failures(table(bad, bad | {"cluster": "b"}, {"status": "timeout", "reason": "late"}, {}))

    assert found == [
        Failure("failed", "ValueError: x", 2, "same/same/same/same/same"),
        Failure("timeout", "late", 1, "same/same/same/same/same"),
    ]


def test_nothing_to_compare_is_fine() -> None:
    out = io.StringIO()

    show(table({"status": "failed", "reason": "x"}), file=out)

    assert out.getvalue() == "1 x failed: x (first: same/same/same/same/same)\n"


def test_the_figure_is_a_picture(tmp_path: Path) -> None:
    path = save_bars(compare(GRID), tmp_path / "figures" / "by_reshard.png")

    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_results_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "it holds no results" in capsys.readouterr().err
