from __future__ import annotations

import pytest

from runners.cli import read_command
from runners.points import plan_sweep
from runners.worker import simulate

POINTS = {
    "eth_fig9": 5 * 7 * 3,
    "eth_fig3": 3 * 7 * 2,
    "eth_scaling": 3 * (6 + 10 + 8),
    "eth_ablation": 12,
    "eth_variance": 100 * 5,
    "eth_memory": 2 * 5,
}


@pytest.mark.parametrize("grid", POINTS)
def test_grids_of_eth_expand(grid: str) -> None:
    points = plan_sweep(read_command([f"+grid={grid}"], "")).points

    assert len(points) == POINTS[grid]
    assert not [point.contradiction for point in points if point.contradiction]


@pytest.mark.parametrize(
    "words",
    [
        ["+grid=eth_fig9", "planner=eth", "model=gpt3_350m", "cluster=eth_rates_b2_b4"],
        ["+grid=eth_fig3", "planner=metis", "model=gpt3_350m"],
        ["+grid=eth_memory", "model=gpt3_350m"],
    ],
)
def test_points_of_them_run(words: list[str]) -> None:
    """Those of the larger models take longer than a test may."""
    point = plan_sweep(read_command(words, "")).points[-1]
    outcome = simulate(point.config)

    assert (outcome["status"], outcome["reason"]) == ("ok", "")
