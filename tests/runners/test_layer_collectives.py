"""Section 5.3 (4) and (5) of the Xsim paper, and the page docs/paper_collectives.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.cli import read_command
from runners.layer_collectives import main, measured, syncs, within_hosts
from runners.points import plan_sweep
from runners.store import Store, row_of
from runners.worker import simulate

PAGE = Path(__file__).parents[2] / "docs" / "paper_collectives.md"
Row = dict[str, Any]


@pytest.fixture(scope="module", name="rows")
def _rows() -> list[Row]:
    """The half without packets of what the command of the page writes."""
    plan = plan_sweep(read_command(["+grid=paper_collectives", "network=flow"], ""))
    return [dict(row_of(point, simulate(point.config), worker=0, attempt=1)) for point in plan.points]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip("|").split("|"))


def test_the_page_shows_what_its_commands_print(rows: list[Row]) -> None:
    shown = {_cells(line) for line in PAGE.read_text().splitlines() if line.startswith("|")}

    for columns, lines in (within_hosts(rows), syncs(rows)):
        assert columns in shown
        assert lines
        assert [line for line in lines if tuple(line) not in shown] == []


def test_rings_in_turn_cost_where_each_device_has_a_nic_of_its_own(rows: list[Row]) -> None:
    times = {(r["cluster"], r["model"], r["point"][-1]): r["grad_gather_time_s"] for r in rows if r["deployment"]}

    for (cluster, model, rings), time_s in times.items():
        once = 2 if cluster == "h100x4_a100x4" and rings != "4" else 1
        assert time_s == pytest.approx(once * times[cluster, model, "4"], rel=0.01)


def test_all_reduces_on_h200_are_within_5_5_per_cent_of_measured_ones(reference_data: Path) -> None:
    """On average, with flows and with packets."""
    ((columns, lines),) = measured(str(reference_data))

    assert columns[3] == "measured [us]"
    assert len(lines) > 10
    assert all(float(cell.rstrip("%")) < 5.5 for cell in lines[-1] if cell.endswith("%"))
    shown = {_cells(line) for line in PAGE.read_text().splitlines() if line.startswith("|")}
    assert [line for line in lines if tuple(line) not in shown] == []


def test_the_tables_go_into_a_page(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XSIM_REFERENCE_DATA", raising=False)
    store = Store(tmp_path / "some")
    for row in rows:
        store.write(row)
    page = tmp_path / "page.md"
    page.write_text("| model |\n\nbetween\n\n| cluster |\nafter\n")

    assert main([str(tmp_path / "some"), "--page", str(page)]) == 0

    assert "llama3_405b" in capsys.readouterr().out
    assert len(page.read_text().splitlines()) == (2 + 10) + 3 + (2 + 30) + 1
    assert main([str(tmp_path / "nowhere")]) == 2
    assert list(measured(None)) == []
