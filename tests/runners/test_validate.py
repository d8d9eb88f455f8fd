"""Published runs are replayed: their rows as experiments, how far off these are, and the command that reports it."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.validation import Case, Group, grouped
from runners import pool
from runners.cli import read_command
from runners.published.plan import plan_rows
from runners.published.sections import sections
from runners.validate import BOUNDS, NARROW, VARIABLE, bounds, cases, fastest, main, missed
from tests.runners.in_process import in_process
from tests.runners.measured_rows import ROWS, simulated

NO_WORSE = {
    "vtrain_multi": 0.066,
    "korthikanti_2022": 0.054,
    "megatron_sc21": 0.035,
    "mcore_h100": 0.088,
    "simumax_b200": 0.085,
    "dgxc_pretrain": 0.067,
    "dgxc_pretrain, FP8": 0.06,
    "nemo_pretrain, FP8": 0.08,
    "mbridge_dense, FP8": 0.02,
    "mosaic_fsdp": 0.04,
    "bigscience_a100": 0.14,
    "sailor_clariden": 0.565,
    "sailor_mit": 0.224,
    "amp_het_cluster": 0.199,
}
NO_WORSE_MEMORY = {"simumax_b200": 0.035}
HELD = (
    "vtrain_multi",
    "korthikanti_2022",
    "megatron_sc21",
    "simumax_b200",
    "dgxc_pretrain",
    "amp_het_cluster",
)  # sources whose bound the project's rows meet
LARGEST = 64  # devices of rows that every test run predicts; a soak run predicts all
LARGE = {"bigscience_a100"}  # sources without any
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@pytest.fixture(scope="module")
def groups() -> Mapping[str, Group]:
    """Rows of the project, predicted; in a soak run all of them."""
    command = read_command([], "")
    rows = [row for row in ROWS.values() if SOAK or row.whole["num_gpus"] <= LARGEST]
    planned, _ = plan_rows(rows, command)
    trials = simulated(point for each in planned for point in each.trials)
    planned = fastest(planned, trials)
    results = simulated(each.point for each in planned if each.point)
    return {group.name: group for group in grouped(cases(planned, results))}


def test_every_row_of_the_project_is_predicted(groups: Mapping[str, Group]) -> None:
    assert {name: group.left_out for name, group in groups.items() if group.left_out} == {}
    assert set(groups) | LARGE == set(NO_WORSE)
    assert sum(len(group.shown) for group in groups.values()) >= 28


def test_the_project_has_a_few_dozen_rows_of_every_source_with_their_addresses() -> None:
    assert 36 <= len(ROWS) <= 60
    assert {row.group for row in ROWS.values()} == {name.removesuffix(NARROW) for name in NO_WORSE}
    assert all(row.texts["source"].startswith("https://") for row in ROWS.values())


@pytest.mark.parametrize("name", [name for name in NO_WORSE if SOAK or name not in LARGE])
def test_predictions_are_no_worse_than_they_were(groups: Mapping[str, Group], name: str) -> None:
    assert (groups[name].mape or 1) < NO_WORSE[name]
    if name in NO_WORSE_MEMORY:
        assert (groups[name].memory_mape or 1) < NO_WORSE_MEMORY[name]


@pytest.mark.parametrize("name", HELD)
def test_bounds_that_hold_are_kept(groups: Mapping[str, Group], name: str) -> None:
    (asked,) = (bound for bound in bounds()[0] if fnmatchcase(name, bound.name))

    assert asked.time is not None
    assert (groups[name].mape or 1) < asked.time


def test_the_documentation_shows_the_bounds_that_are_missed() -> None:
    listed = yaml.safe_load(BOUNDS.read_text(encoding="utf-8"))["missed"]
    names = ("group", "bound", "reached", "why")
    page = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
    table = page.partition("## Bounds that are missed")[2]

    shown = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]

    assert shown == [[f"`{each['group']}`", *(str(each[name]) for name in names[1:])] for each in listed]
    assert missed() == {each["group"]: each["why"] for each in listed}
    assert list(missed(alone=False)) == ["mcore_h100"]
    assert {name for name in NO_WORSE if name not in HELD} >= set(missed())


def table(path: Path, *names: str, **texts: str) -> Path:
    """Some rows of the project in a file, the cells of all of them changed."""
    chosen = [{**ROWS[name].texts, **texts} for name in names]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(chosen[0]))
        writer.writeheader()
        writer.writerows(chosen)
    return path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "it has no column id, source, group"),
        (None, r"pp = 'two': line 2 (vtrain_multi_0003): a whole number above 0 belongs here"),
        ("missing", "it cannot be read"),
    ],
)
def test_a_bad_table_is_one_line(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    if text is None:
        table(path, "vtrain_multi_0003", pp="two")
    elif text != "missing":
        path.write_text(text)

    assert main(["--rows", str(path), f"out={tmp_path}"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


@pytest.mark.parametrize(("name", "fix"), [("korthikanti", "did you mean korthikanti_2022?"), ("qq", "choose one of ")])
def test_an_unknown_source_is_answered_with_those_there_are(
    name: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--group", "vtrain_multi", "--group", name, f"out={tmp_path}"]) == 2

    assert f"group = '{name}': no table has rows of it; {fix}" in capsys.readouterr().err


def test_a_row_with_too_many_cells_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "rows.csv", "vtrain_multi_0003")
    path.write_text(path.read_text().replace("GPT-3.6B", "GPT,3.6B"))

    assert main(["--rows", str(path), f"out={tmp_path}"]) == 2
    assert "line 2 = " not in (line := capsys.readouterr().err)
    assert "it has another number of cells than the first line" in line


def test_an_environment_without_tables_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    assert main([]) == 2
    assert "there is no measured/training_runs.csv in it" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "code"), [(1.0, 0), (0.4, 1)])
def test_the_command_writes_a_page_and_fails_where_a_bound_is_passed(
    share: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    name = "korthikanti_t5_megatron-22B_full"
    (planned,), _ = plan_rows([ROWS[name]], read_command([], ""))
    (result,) = simulated(point for point in (planned.point,) if point).values()
    rows = table(tmp_path / "a.csv", name, step_time_s=str(share * result["training_time_s"]))
    others = table(tmp_path / "b.csv", "vtrain_multi_0003", notes="LoRA")

    assert main(["--rows", str(rows), "--rows", str(others), f"out={tmp_path}"]) == code

    page = (tmp_path / "validate" / "report.md").read_text()
    told = capsys.readouterr()
    assert "1 row compared, 1 left out" in told.out
    assert f"| {'ok' if code == 0 else 'passed'} |" in page
    assert "| vtrain_multi | 1 | LoRA is not simulated |" in page
    assert "No training run has been seen by a fit." in page
    assert (tmp_path / "validate" / "figures" / "korthikanti_2022.png").stat().st_size > 10_000
    assert ("the bounds of korthikanti_2022" in told.err) == bool(code)


def test_kernels_are_judged_where_their_table_is(reference_data: Path, tmp_path: Path) -> None:
    asked = {"kernels": 0.05, "scaled": 0.15}
    kernels, scaled = sections(reference_data, asked)

    assert "kernels (product) of a100_80" in kernels.passed
    assert "kernels (product) of h200" not in kernels.passed
    assert scaled.passed == ["kernels (attention) carried from a100_80 to h100_80"]
    assert len(scaled.lines) == 5 + 2 * 3
    assert list(sections(tmp_path, {})) == []
    assert list(sections(None, {})) == []


def case(name: str, measured_s: float, predicted_s: float | None, **more: Any) -> Case:
    return Case(
        name=name,
        group="a",
        source="",
        sweep="",
        deployed="",
        figures={},
        measured_s=measured_s,
        predicted_s=predicted_s,
        **more,
    )


def test_errors_of_a_group() -> None:
    (group,) = grouped([case("long", 2.0, 2.2), case("short", 2.0, 1.4), case("none", 2.0, None, reason="no")])

    assert group.errors == pytest.approx([0.1, -0.3])
    assert group.mape == pytest.approx(0.2)
    assert group.bias == pytest.approx(-0.1)
    assert [each.name for each in group.worst] == ["short", "long"]
    assert group.left_out == {"no": 1}


@pytest.mark.parametrize("word", ["only=ffff", "shard=1/8", "copy_to=file:///nowhere.parquet"])
def test_what_only_a_sweep_knows_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--group", "simumax_b200", "dry_run=true", word]) == 2

    assert capsys.readouterr().err.startswith(f"error: {word.partition('=')[0]} = ")
