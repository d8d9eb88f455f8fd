"""How steps become rows, and what each row waits for."""

from __future__ import annotations

import pytest

from tests.strategies import SITE, with_rings
from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective, CommPlan, Transfer, lower_plan, phases


def waits(graph: TransferGraph) -> list[list[int]]:
    return [graph.predecessors(row).tolist() for row in range(graph.rows)]


def pairs(graph: TransferGraph) -> list[tuple[int, int]]:
    return list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


def test_a_row_waits_for_the_rows_that_share_a_rank() -> None:
    plan = phases(
        [Transfer(0, 4, range(2)), Transfer(1, 5, range(2))], [Transfer(4, 6, range(2)), Transfer(5, 4, range(2))]
    )

    assert waits(with_rings(plan)) == [[], [], [0], [0, 1]]


def test_a_row_that_shares_no_rank_waits_for_all() -> None:
    plan = phases([Transfer(0, 1, range(2)), Transfer(2, 3, range(2))], [Transfer(8, 9, range(2))])

    assert waits(with_rings(plan)) == [[], [], [0, 1]]


def test_phases_wait_for_all_phases_before() -> None:
    plan = phases([Transfer(0, 1, range(2))], [Transfer(2, 3, range(2))], [], [Transfer(1, 2, range(2))])

    assert [step.after for step in plan.steps] == [(), (0,), (0, 1)]


def test_rows_of_a_ring_wait_each_for_its_own() -> None:
    plan = phases([Transfer(8, 0, range(6)), Transfer(9, 1, range(6))], [Collective("all_reduce", (0, 1, 2), range(6))])
    graph = with_rings(plan)

    assert pairs(graph) == [(8, 0), (9, 1), (0, 1), (1, 2), (2, 0)]
    assert waits(graph) == [[], [], [0, 1], [1], [0]]
    assert graph.cycle_base.tolist() == [0, 1, 2, 2, 2]
    assert graph.cycle_len.tolist() == [0, 0, 3, 3, 3]


def test_rows_keep_what_they_wait_for_within_their_step() -> None:
    plan = phases([Transfer(8, 0, range(2))], [Collective("broadcast", (0, 1, 2), range(2), root=0)])

    assert waits(with_rings(plan)) == [[], [0], [1], [0, 1], [0, 2, 3]]


@pytest.mark.parametrize(
    "idle", [Transfer(1, 2, range(4, 4), after=(0,)), Collective("all_reduce", (1,), range(4), after=(0,))]
)
def test_a_step_without_rows_hands_on_what_it_waits_for(idle: Transfer | Collective) -> None:
    plan = CommPlan((Transfer(0, 1, range(4)), idle, Transfer(2, 3, range(4), after=(1,))))

    assert waits(with_rings(plan)) == [[], [0]]


def test_spans_are_bytes_and_parties_are_kept() -> None:
    graph = lower_plan(
        CommPlan((Transfer(5, 2, range(3, 7)),)), ((5, 1), (2,)), lambda step: Ring().expand(step, SITE), 2
    )

    assert (graph.start.tolist(), graph.stop.tolist()) == ([6], [14])
    assert (graph.ranks.tolist(), graph.party.tolist(), graph.parties) == ([1, 2, 5], [0, 1, 0], 2)


def test_a_plan_of_nothing_has_no_rows() -> None:
    graph = with_rings(CommPlan(()))

    assert (graph.rows, graph.pred_ptr.tolist()) == (0, [0])


def test_a_rank_of_no_party_is_an_error() -> None:
    with pytest.raises(PlanError, match="rank 2 takes part in the plan and belongs to no party"):
        lower_plan(CommPlan((Transfer(0, 2, range(4)),)), ((0,), (1,)), lambda step: Ring().expand(step, SITE))


def test_two_phases_of_a_thousand_steps_take_no_time() -> None:
    """Every step of the second waits, by its two ranks, for two of the first."""
    count = 1000
    plan = phases(
        [Transfer(i, count + i, range(1)) for i in range(count)],
        [Transfer(count + i, (i + 1) % count, range(1)) for i in range(count)],
    )
    graph = lower_plan(plan, (range(2 * count),), lambda step: Ring().expand(step, SITE))

    assert len(graph.pred) == 2 * count
