"""The table of estimates beside simulations, and the page docs/paper_baselines.md."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from analysis.estimates import main, show
from runners.cli import read_command
from runners.points import plan_sweep
from runners.store import Store, row_of
from runners.worker import simulate

PAGE = Path(__file__).parents[2] / "docs" / "paper_baselines.md"
CHEAP = "xsim_testbed_nvlink_7b"


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of what the command of the page writes."""
    folder = tmp_path_factory.mktemp("paper_baselines")
    plan = plan_sweep(read_command(["+grid=paper_baselines"], ""))
    store = Store(folder)
    for point in plan.points:
        if point.labels["deployment"] == CHEAP:
            store.write(row_of(point, simulate(point.config), worker=0, attempt=1))
    return folder


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_shows_what_its_command_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0

    printed = {tuple(_cells(line)) for line in capsys.readouterr().out.splitlines() if CHEAP in line}
    shown = {tuple(_cells(line)) for line in PAGE.read_text().splitlines() if line.startswith("|") and CHEAP in line}
    assert len(printed) == 4
    assert printed == shown


def test_a_page_gets_a_new_table(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before\n\n| cluster | old |\n|---|---|\n| one | two |\n\nAfter\n")

    assert main([str(folder), "--page", str(page)]) == 0

    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("Before", "After")
    assert sum(CHEAP in line for line in lines) == 4
    assert "old" not in page.read_text()
    page.write_text("nothing\n")
    assert main([str(folder), "--page", str(page)]) == 2
    assert "it holds no table of a cluster" in capsys.readouterr().err


def test_an_option_of_an_estimate_names_its_row() -> None:
    row = {"cluster": "a", "model": "b", "deployment": None, "training_time_s": 2.0, "estimate_time_s": 1.0}
    out = io.StringIO()

    show([row | {"estimate_error": -0.5, "estimate": "hexiscale", "point": "seed=1, estimate.syncs=false"}], file=out)

    cells = _cells(out.getvalue().splitlines()[-1])
    assert cells == ["a", "b", "", "2.0000", "hexiscale, syncs=false", "1.0000", "-50.0%"]
