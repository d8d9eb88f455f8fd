"""What every pipeline schedule must do, whoever wrote it."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning import random_scenario
from xsim.errors import SpecError
from xsim.experiment import Experiment, site_of
from xsim.families import members
from xsim.plan.contracts import Schedule
from xsim.plan.route import directions, routes
from xsim.plan.search.tables import tables
from xsim.plan.walk import walk
from xsim.plan.workload import Action

ASKED = random_scenario(0)
EACH = pytest.mark.parametrize("schedule", [pytest.param(cls(), id=name) for name, cls in members("schedule")])


def orders_or_refusal(
    schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1
) -> list[tuple[Action, ...]] | SpecError:
    """The orders of all stages; a refusal if each of them refuses the shape in the same words."""
    found, refusals = [], []
    for stage in range(stages):
        try:
            found.append(schedule.order(stage, stages, micro_batches, chunks))
        except SpecError as refusal:
            refusals.append(refusal)
    if not refusals:
        return found
    assert len(refusals) == stages, "some stages refuse, others do not"
    assert len(set(map(str, refusals))) == 1
    shape = {"stages": stages, "micro_batches": micro_batches, "chunks": chunks}
    assert refusals[0].value == shape[refusals[0].field]
    return refusals[0]


@EACH
@given(st.integers(1, 8), st.integers(1, 150), st.data())
def test_few_micro_batches_tell_how_many_of_many_are_kept(
    schedule: Schedule, stages: int, micro_batches: int, data: st.DataObject
) -> None:
    """Searches do not go through the order of millions."""
    stage = data.draw(st.integers(0, stages - 1))
    priced = tables(ASKED, site_of(Experiment(scenario=ASKED, schedule=schedule)))
    try:
        found = priced.in_flight(stage, stages, micro_batches)
    except SpecError:  # it serves no such pipeline, or none that a search knows
        return
    kept = list(accumulate((a.kind == "F") - a.completes for a in schedule.order(stage, stages, micro_batches)))

    assert found == max(kept)


@EACH
@pytest.mark.parametrize("stages", range(1, 9))
def test_complete_and_without_deadlock_or_refused(schedule: Schedule, stages: int) -> None:
    """Nobody refuses an even number of stages with an even number of micro-batches, twice as many as stages or more."""
    for micro_batches in range(1, 25):
        orders = orders_or_refusal(schedule, stages, micro_batches)
        if isinstance(orders, SpecError):
            assert stages % 2 or micro_batches % 2 or micro_batches < 2 * stages, orders
            continue
        kept = walk(orders, micro_batches)

        assert all(1 <= count <= micro_batches for count in kept)


@EACH
@pytest.mark.parametrize("stages", range(1, 9))
def test_who_goes_one_way_refuses_no_shape(schedule: Schedule, stages: int) -> None:
    """With one chunk; a bidirectional schedule may, and does for an odd number of stages."""
    both_ways = directions(schedule.order(0, 2, 8), 1) > 1

    refused = [m for m in range(1, 25) if isinstance(orders_or_refusal(schedule, stages, m), SpecError)]

    if not both_ways:
        assert not refused
    elif stages % 2:
        assert refused == list(range(1, 25))


@EACH
@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("stages", range(1, 9))
def test_several_chunks_work_or_are_refused(schedule: Schedule, stages: int, chunks: int) -> None:
    """A schedule may take one chunk only; 8 micro-batches fit whoever takes several, other numbers may be refused."""
    for micro_batches in (8, *range(1, 20)):
        orders = orders_or_refusal(schedule, stages, micro_batches, chunks)
        if isinstance(orders, SpecError):
            if micro_batches == 8:
                pytest.skip(str(orders))
            continue
        kept = walk(orders, micro_batches, chunks)

        assert all(1 <= count <= micro_batches * chunks for count in kept)


@EACH
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("stages", [1, 2, 4, 6])
def test_a_stage_with_both_ends_completes_the_embedding_last(schedule: Schedule, stages: int, chunks: int) -> None:
    """There the two copies of a tied token table are one, whose gradients are complete when the embedding's are."""
    for micro_batches in (8, 12, 16):
        orders = orders_or_refusal(schedule, stages, micro_batches, chunks)
        if isinstance(orders, SpecError):
            continue
        ways = routes(stages, chunks, directions(orders[0], chunks))
        firsts, lasts = [route[0] for route in ways], [route[-1] for route in ways]
        for stage, order in enumerate(orders):
            complete = {action.chunk: number for number, action in enumerate(order) if action.completes}
            embeddings = [complete[chunk] for s, chunk in firsts if s == stage]
            heads = [complete[chunk] for s, chunk in lasts if s == stage]
            assert max(heads, default=-1) <= max(embeddings, default=len(order))
