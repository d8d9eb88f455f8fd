"""What every collective algorithm must do, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SITE, collectives, rank_tuples
from xsim.errors import PlanError
from xsim.fabric.transfers import COLUMNS, TransferGraph, graph_of
from xsim.families import members
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, lower_plan, phases
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
    for size in (0, 1, count, 2 * count + 1, 17, 131):
        root = size % count if kind in {"broadcast", "reduce"} else None
        collective = Collective(kind, tuple(range(count)), range(7, 7 + size), root=root)
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
@given(ranks=rank_tuples(17), size=st.integers(0, 60))
def test_a_reduce_scatter_and_an_all_gather_are_an_all_reduce(
    algorithm: CollectiveAlgorithm, ranks: tuple[int, ...], size: int
) -> None:
    whole = Collective("all_reduce", ranks, range(size))
    plan = phases([replace(whole, kind="reduce_scatter")], [replace(whole, kind="all_gather")])

    verify_collective(lower_plan(plan, (ranks,), lambda step: algorithm.expand(step, SITE)), whole)


@EACH
@given(collective=collectives())
def test_bytes_are_at_least_what_the_kind_needs(algorithm: CollectiveAlgorithm, collective: Collective) -> None:
    """Each element must leave or reach every rank but one; for a sum that all get, both."""
    size, others = len(collective.span), len(collective.ranks) - 1
    match collective.kind:
        case "all_reduce":
            needed = 2 * size * others
        case "all_to_all":
            needed = size - sum(len(row[place]) for place, row in enumerate(collective.blocks()))
        case "send_recv":
            needed = size if others else 0
        case _:
            needed = size * others

    assert int(algorithm.expand(collective, SITE).sent_bytes().sum()) >= needed


@EACH
@pytest.mark.parametrize("kind", sorted({*get_args(CollectiveKind)} - {"broadcast"}))
@given(count=st.integers(2, 12), size=st.integers(144, 300), data=st.data())
def test_no_small_damage_goes_unseen(
    algorithm: CollectiveAlgorithm, kind: CollectiveKind, count: int, size: int, data: st.DataObject
) -> None:
    """A row dropped, shifted, sent again as an add; one that overwrites where it should add or the reverse.

    Large enough that no piece is empty: what is done to nothing does no harm. A broadcast is another matter: some
    algorithms also send to ranks what these have.
    """
    collective = Collective(kind, tuple(range(count)), range(size))
    graph = algorithm.expand(collective, SITE)
    row = data.draw(st.sampled_from(np.flatnonzero(graph.stop > graph.start).tolist()))

    for wrong in _damaged(graph, row):
        with pytest.raises(PlanError):
            verify_collective(wrong, collective)


@EACH
@given(count=st.integers(2, 12), size=st.integers(144, 300), data=st.data())
def test_a_broadcast_that_leaves_a_rank_out_is_refused(
    algorithm: CollectiveAlgorithm, count: int, size: int, data: st.DataObject
) -> None:
    collective = Collective("broadcast", tuple(range(count)), range(size))
    graph = algorithm.expand(collective, SITE)
    without = np.where(graph.dst == data.draw(st.integers(1, count - 1)), graph.start, graph.stop)
    with pytest.raises(PlanError):
        verify_collective(replace(graph, stop=without), collective)


@EACH
@given(count=st.integers(2, 12), size=st.integers(144, 300))
def test_an_all_reduce_without_its_order_is_refused(algorithm: CollectiveAlgorithm, count: int, size: int) -> None:
    collective = Collective("all_reduce", tuple(range(count)), range(size))
    graph = algorithm.expand(collective, SITE)
    if (graph.stop > graph.start)[graph.pred].any():  # rows that carry nothing, as launches, order nothing
        with pytest.raises(PlanError):
            verify_collective(replace(graph, pred=graph.pred[:0], pred_ptr=graph.pred_ptr * 0), collective)


def _damaged(graph: TransferGraph, row: int) -> Iterator[TransferGraph]:
    start, stop, add, add_rounds = (getattr(graph, name).copy() for name in ("start", "stop", "add", "add_rounds"))
    stop[row] = graph.start[row]
    yield replace(graph, stop=stop)
    start[row], stop[row] = graph.start[row] + 1, graph.stop[row] + 1
    yield replace(graph, start=start, stop=stop)
    if graph.cycle_len[row]:
        add_rounds[row] += -1 if add_rounds[row] else 1
        yield replace(graph, add_rounds=add_rounds)
    else:
        add[row] = 1 - add[row]
        yield replace(graph, add=add)
        yield _sent_again(graph, row)


def _sent_again(graph: TransferGraph, row: int) -> TransferGraph:
    """``row`` is followed by its like that adds; who waits for one waits for both."""
    columns = {name: np.insert(getattr(graph, name), row + 1, getattr(graph, name)[row]) for name in COLUMNS}
    columns["add"][row + 1] = 1
    columns["cycle_base"] += columns["cycle_base"] > row
    waits = [[number + (number > row) for number in graph.predecessors(each).tolist()] for each in range(graph.rows)]
    waits = [wait + [row + 1] * (row in wait) for wait in waits]
    waits.insert(row + 1, [row])
    rows = list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))
    return graph_of(rows, waits, (graph.ranks.tolist(),))
