"""What every collective algorithm must do, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SITE, collectives
from xsim.errors import PlanError
from xsim.families import members
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm
from xsim.plan.judge import verify_collective

EACH = pytest.mark.parametrize("algorithm", [pytest.param(cls(), id=name) for name, cls in members("collective")])


@EACH
@given(collective=collectives())
def test_every_rank_ends_with_what_the_kind_says(algorithm: CollectiveAlgorithm, collective: Collective) -> None:
    verify_collective(algorithm.expand(collective, SITE), collective)


@EACH
@pytest.mark.parametrize("kind", get_args(CollectiveKind))
@pytest.mark.parametrize("count", range(1, 18))
def test_any_number_of_ranks_and_any_size(algorithm: CollectiveAlgorithm, kind: CollectiveKind, count: int) -> None:
    for size in (1, count, 2 * count + 1, 17, 131):
        collective = Collective(kind, tuple(range(count)), range(7, 7 + size))
        verify_collective(algorithm.expand(collective, SITE), collective)


@EACH
@given(collective=collectives(), element_bytes=st.integers(1, 4))
def test_right_within_a_plan_of_larger_elements(
    algorithm: CollectiveAlgorithm, collective: Collective, element_bytes: int
) -> None:
    plan = CommPlan((collective,))
    graph = lower_plan(plan, (collective.ranks,), lambda step: algorithm.expand(step, SITE), element_bytes)

    verify_collective(graph, collective, element_bytes)


@EACH
@given(collective=collectives())
def test_bytes_are_at_least_what_the_kind_needs(algorithm: CollectiveAlgorithm, collective: Collective) -> None:
    """Each element must leave or reach every rank but one; for a sum that all get, both."""
    needed = len(collective.span) * (len(collective.ranks) - 1) * (2 if collective.kind == "all_reduce" else 1)

    assert int(algorithm.expand(collective, SITE).sent_bytes().sum()) >= needed


@EACH
@given(count=st.integers(2, 12), size=st.integers(144, 300), data=st.data())
def test_no_small_damage_to_a_sum_goes_unseen(
    algorithm: CollectiveAlgorithm, count: int, size: int, data: st.DataObject
) -> None:
    """A row that carries nothing, one that overwrites where it should add or the reverse, and no order at all.

    Large enough that no piece is empty: what is done to nothing does no harm.
    """
    collective = Collective("all_reduce", tuple(range(count)), range(size))
    graph = algorithm.expand(collective, SITE)
    row = data.draw(st.sampled_from(np.flatnonzero(graph.stop > graph.start).tolist()))
    stop, add, add_rounds = graph.stop.copy(), graph.add.copy(), graph.add_rounds.copy()
    stop[row] = graph.start[row]
    add[row] = 1 - add[row]
    add_rounds[row] += -1 if add_rounds[row] else 1
    no_order = replace(graph, pred=graph.pred[:0], pred_ptr=graph.pred_ptr * 0)
    damaged = [replace(graph, stop=stop), replace(graph, add=add, add_rounds=add_rounds)]

    for wrong in [*damaged, *([no_order] if len(graph.pred) else [])]:
        with pytest.raises(PlanError):
            verify_collective(wrong, collective)
