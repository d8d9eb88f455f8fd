"""The grids that compare planners have the points that they say, and each planner runs there."""

from __future__ import annotations

import pytest

from runners.cli import read_command
from runners.inputs import read
from runners.points import Point, plan_sweep
from runners.worker import simulate
from xsim.families import names

EVERY = set(names("planner")) - {"given", "repair"}  # these begin with a deployment


def points(grid: str) -> tuple[Point, ...]:
    return tuple(plan_sweep(read_command([f"+grid={grid}"], "")).points)


def test_every_planner_is_compared_at_every_scale() -> None:
    found = points("planners_nvidia")

    scales = {(point.labels["cluster"], point.labels["model"]) for point in found}
    assert len(scales) == 8
    assert len(found) == 8 * len(EVERY)
    assert {point.labels["planner"] for point in found} == EVERY
    smallest = next(point for point in found if point.labels["model"] == "gpt3_350m")
    assert read(smallest.config).experiment().scenario.cluster.ranks == 4


def test_memory_falls_as_the_mismatch_grows() -> None:
    own = [
        read(point.config).experiment().scenario for point in points("mismatch") if point.labels["planner"] == "metis"
    ]

    sizes = [scenario.cluster.hosts[0].devices[0].device.memory_bytes / 2**30 for scenario in own]
    assert sizes == pytest.approx([8 * 1.2 / mismatch for mismatch in (1.0, 1.2, 1.4, 1.6, 1.8, 1.9)], rel=2e-3)
    assert {(scenario.cluster.ranks, scenario.batch, scenario.model.layers) for scenario in own} == {(64, 40, 40)}


@pytest.mark.parametrize(
    ("grid", "planner", "model"),
    [
        ("planners_nvidia", "malleus", "gpt3_350m"),
        ("mismatch", "malleus", "gpt3_13b"),
        ("failures", "repair", "llama2_7b"),
    ],
)
def test_a_point_runs(grid: str, planner: str, model: str) -> None:
    point = next(p for p in points(grid) if p.labels["planner"] == planner and p.labels["model"] == model)

    outcome = simulate(point.config)

    assert (outcome["status"], outcome["reason"]) == ("ok", "")
    assert outcome["metrics"]["fits"]
    assert planner == "repair" or float(outcome["metrics"]["predicted_s"]) > 0


def test_a_mixture_of_the_grid_runs() -> None:
    """Each of 24 ways to spread experts over tensor and expert ranks, of which the first is simulated."""
    found = points("moe")

    outcome = simulate(found[0].config)

    assert len(found) == 24
    assert (outcome["status"], outcome["reason"]) == ("ok", "")
    assert float(outcome["metrics"]["experts_time_s"]) > 0
