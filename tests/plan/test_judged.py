"""Whose plans are fast where it counts, in the simulation: all planners over random unlike clusters."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import settings

from tests.judging import judged, searching, slowdowns
from tests.planning import random_scenario

SOAK = settings().max_examples > 100
SEEDS = range(200) if SOAK else (4, 104)  # small ones


@pytest.fixture(scope="module", name="rows")
def _rows() -> list[dict[str, int]]:
    return [judged(random_scenario(seed), searching()) for seed in SEEDS]


def test_the_own_search_is_fastest_in_the_mean(rows: list[dict[str, int]]) -> None:
    """Than each other planner, over what both find a plan for."""
    for name in searching():
        common = [row for row in rows if name in row and "xsim" in row]
        if name == "xsim" or not common:
            continue
        other, own = (fmean(math.log(row[each]) for row in common) for each in (name, "xsim"))
        assert own < other, name


def test_the_own_search_finds_a_plan_wherever_another_does(rows: list[dict[str, int]]) -> None:
    assert [row for row in rows if row and "xsim" not in row] == []
    assert max(slowdowns(rows, "xsim")) < 1.2
