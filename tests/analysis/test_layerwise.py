"""Section 5.3 (6) of the Xsim paper, and the page docs/layerwise.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.layerwise import main
from analysis.stored import DETAIL
from runners.cli import read_command
from runners.detail import write_large
from runners.points import plan_sweep
from runners.store import Store, row_of
from runners.worker import simulate

PAGE = Path(__file__).parents[2] / "docs" / "layerwise.md"
CHEAP = "b200x2_h200x4_7b"


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of what the command of the page writes."""
    folder = tmp_path_factory.mktemp("layerwise")
    plan = plan_sweep(read_command(["+grid=layerwise", "network=flow"], ""))
    for point in plan.points:
        if point.labels["deployment"] == CHEAP:
            outcome = simulate({**point.config, "detail": plan.settings.detail})
            write_large(folder / DETAIL / point.key, outcome["tables"])
            Store(folder).write(row_of(point, outcome, worker=0, attempt=1))
    return folder


def _column(text: str) -> dict[tuple[str, str], str]:
    """By operator and device, what a table says of the cheap run with flows."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    column = rows[0].index(f"{CHEAP}, flow [ms]")
    return {(row[0], row[1]): row[column] for row in rows[2:]}


def test_the_page_shows_what_its_command_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0

    printed = _column(capsys.readouterr().out)
    assert printed == _column(PAGE.read_text())
    assert (folder / "figures" / "layerwise.png").is_file()
    times = {operator: float(printed[operator, "b200"]) for operator, _ in printed}
    assert max(times.values()) / min(times.values()) > 1000
    assert {printed["grad_gather", device] for device in ("b200", "h200")} == {printed["grad_gather", "b200"]}


def test_a_run_without_tables_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").symlink_to(folder / "runs")

    assert main([str(tmp_path)]) == 2
    assert "sweep again with detail=[ranks,operators]" in capsys.readouterr().err
