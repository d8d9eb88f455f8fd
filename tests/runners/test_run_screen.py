from __future__ import annotations

import re

import pytest

from runners.run_screen import explain, figure, unused
from tests.plan.toy import cluster, device
from tests.planning import random_scenario
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.metrics import COLUMNS

COLUMN = {column.name: column for column in COLUMNS}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("scale_up_bytes", 717_437_501_440, "717.4 GB"),
        ("scale_up_bytes", 0, "0 B"),
        ("peak_memory_bytes", 999, "999 B"),
        ("flow_time_p50_s", 2.53551e-05, "25.36 us"),
        ("mlp_time_s", 1234.4, "1234 s"),
        ("mlp_time_s", 3e-12, "0.003 ns"),
        ("mfu", 0.21574, "21.57%"),
        ("flows", 27852, "27852"),
        ("fits", True, "True"),
        ("tokens_per_s", 32740.02, "32740 1/s"),
    ],
)
def test_a_figure_has_a_unit_that_suits_it(name: str, value: float, text: str) -> None:
    assert figure(COLUMN[name], value) == text


def test_what_a_planner_says_of_its_plan_stands_beside_what_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = Experiment(scenario=random_scenario(1), planner=build("planner", {"name": "xsim"}), memory="report")
    result = run(experiment)

    explain(experiment, result)

    shown = capsys.readouterr().out
    assert f"\nPlan: {result.deployment.name}\nPredicted by its maker: " in shown
    assert re.search(r"\nPlan: xsim, .*(bound|proven)", shown)
    assert re.search(r"s; simulated: [0-9.]+ s; the first over the second, less 1: [+-][0-9.]+%\n", shown)
    assert "| predicted_s" not in shown


def test_devices_that_no_stage_uses_are_named() -> None:
    hosts = cluster(4, 2, devices=(device("fast"), device("slow")))

    assert unused(hosts, range(6)) == ""
    assert unused(hosts, (0, 1, 3)) == " (fast 2, slow 4-5)"
