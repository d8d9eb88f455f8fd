"""Figure 8, section 5.2 (3): backends on one bare all-reduce; the small end of the grid packet_vs_flow."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.scaling import draw, lines_of, show
from runners.cli import read_command
from runners.points import plan_sweep
from runners.store import row_of
from runners.worker import simulate

PACKET_US = 9048 / 12_500
PAGE = (Path(__file__).parents[2] / "docs" / "packet_vs_flow.md").read_text()


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Those of up to 16 nodes."""
    points = [
        point for point in plan_sweep(read_command(["+grid=packet_vs_flow"], "")).points if point.batch in (8, 16)
    ]
    return tuple(row_of(point, simulate(point.config), worker=0, attempt=1) for point in points)


def test_the_grid_goes_from_8_to_1024_nodes_on_each_backend() -> None:
    points = plan_sweep(read_command(["+grid=packet_vs_flow"], "")).points

    found = {(point.labels["network"], point.batch, "layers=4" in point.choice) for point in points}
    assert found == {
        (network, 8 << step, large)
        for network in ("analytic", "flow", "packet")
        for step in range(8)
        for large in (False, True)
    }


@pytest.mark.parametrize("megabytes", [1, 4])
@pytest.mark.parametrize("nodes", [8, 16])
def test_an_iteration_is_one_all_reduce(nodes: int, megabytes: int) -> None:
    """Of 2 (n - 1) rounds, each as long as its slowest hop: an n-th of all at 100 Gb/s and the delays of up to 8 links.

    What else the iteration does takes a picosecond each time.
    """
    (row,) = [
        row
        for row in rows()
        if row["network"] == "analytic" and row["batch"] == nodes and f"layers={megabytes}" in str(row["point"])
    ]

    sending_s = 2 * (nodes - 1) * megabytes * 1e6 / nodes / 12.5e9
    assert sending_s + 2 * (nodes - 1) * 4e-6 <= row["training_time_s"] <= sending_s + 2 * (nodes - 1) * 8e-6 + 1e-9
    assert row["dp_comm_time_max_s"] == pytest.approx(row["training_time_s"], rel=1e-6)
    assert row["tp_comm_time_s"] == row["bubble_time_s"] == 0


def test_no_backend_is_faster_than_one_with_fewer_reasons_to_wait() -> None:
    """Packets are stored on their way: the longest has six links of 100 Gb/s and two of PCIe, the last behind five."""
    lines = lines_of(rows())

    for layers in (1, 4):
        for nodes in (8, 16):
            analytic, flow, packet = (
                lines[f"{network}, model.layers={layers}"][nodes]["training_time_s"]
                for network in ("analytic", "flow", "packet")
            )
            assert analytic + 2 * (nodes - 1) * 5 * PACKET_US <= flow <= packet
            assert packet <= analytic + 2 * (nodes - 1) * 7 * PACKET_US
            assert flow == pytest.approx(packet, rel=0.01)


def test_growth_is_shown_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(rows())
    show(lines)
    path = draw(lines, tmp_path / "figures" / "scaling.png")

    shown = capsys.readouterr().out
    times = [line for line in shown.partition("wall time")[0].splitlines() if line.startswith("|")]
    assert [line for line in times if line not in PAGE.splitlines()] == []
    assert "python -m analysis.scaling outputs/packet_vs_flow\n" in PAGE
    assert shown.count("| packet, model.layers=4 |") == 2
    assert shown.index("training time [us]") < shown.index("wall time [s]")
    assert path.stat().st_size > 10_000
