"""What every collective algorithm must do, whoever wrote it."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import FABRIC, collectives
from xsim.families import members
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm
from xsim.plan.judge import verify_collective

EACH = pytest.mark.parametrize("algorithm", [pytest.param(cls(), id=name) for name, cls in members("collective")])


@EACH
@given(collective=collectives())
def test_every_rank_ends_with_what_the_kind_says(algorithm: CollectiveAlgorithm, collective: Collective) -> None:
    verify_collective(algorithm.expand(collective, FABRIC), collective)


@EACH
@pytest.mark.parametrize("kind", get_args(CollectiveKind))
@pytest.mark.parametrize("count", range(1, 10))
def test_any_number_of_ranks_and_any_size(algorithm: CollectiveAlgorithm, kind: CollectiveKind, count: int) -> None:
    for size in (1, count, 2 * count + 1, 17):
        collective = Collective(kind, tuple(range(count)), range(size))
        verify_collective(algorithm.expand(collective, FABRIC), collective)


@EACH
@given(collective=collectives(), element_bytes=st.integers(1, 4))
def test_right_within_a_plan_of_larger_elements(
    algorithm: CollectiveAlgorithm, collective: Collective, element_bytes: int
) -> None:
    plan = CommPlan((collective,))
    graph = lower_plan(plan, (collective.ranks,), lambda step: algorithm.expand(step, FABRIC), element_bytes)

    verify_collective(graph, collective, element_bytes)


@EACH
@given(collective=collectives())
def test_bytes_are_at_least_what_the_kind_needs(algorithm: CollectiveAlgorithm, collective: Collective) -> None:
    """Each element must leave or reach every rank but one; for a sum that all get, both."""
    needed = len(collective.span) * (len(collective.ranks) - 1) * (2 if collective.kind == "all_reduce" else 1)

    assert int(algorithm.expand(collective, FABRIC).sent_bytes().sum()) >= needed
