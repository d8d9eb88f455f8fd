"""Large graphs, which a kernel executes, get the verdict of the plain judge."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_judge_damage import a_transfer, judged, with_step, without
from tests.plan.test_judge_switch import fetch, put, spread, up
from tests.strategies import disjoint_layouts, with_rings
from xsim.errors import PlanError
from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line, ring
from xsim.families import members
from xsim.plan import judge
from xsim.plan.comm import Collective, CommPlan
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_collective
from xsim.plan.layout import Layout
from xsim.plan.replay import Event, adversarial_orders, events_of, row_event, waits_of
from xsim.plan.symbols import Notes
from xsim.plan.unrolled import unroll

STRATEGIES = st.sampled_from([cls() for _, cls in members("reshard")])


def plain_order(events: Sequence[Event], place: Sequence[int]) -> list[int]:
    """The order in which always the ready event of the smallest place comes next."""
    open_waits = [set(event.waits) for event in events]
    ready = [(place[number], number) for number, waits in enumerate(open_waits) if not waits]
    heapq.heapify(ready)
    order = []
    while ready:
        _, done = heapq.heappop(ready)
        order.append(done)
        for number, waits in enumerate(open_waits):
            if done in waits:
                waits.remove(done)
                if not waits:
                    heapq.heappush(ready, (place[number], number))
    return order


def plain_orders(events: Sequence[Event]) -> Iterator[list[int]]:
    count = len(events)
    yield list(range(count))
    yield plain_order(events, range(count, 0, -1))
    for seed in range(3):
        yield plain_order(events, np.random.RandomState(seed).permutation(count).tolist())


def plain_ends(graph: TransferGraph, fresh: Callable[[Iterable[int], Iterable[int]], Notes]) -> Iterator[Notes]:
    """As ``judge._ends_of_graph``, event by event."""
    events = events_of(graph)
    spans = [write.span for event in events for write in event.writes]
    for order in plain_orders(events):
        edges = [edge for span in spans for edge in (span.start, span.stop)]
        notes = fresh(edges, [*graph.src.tolist(), *graph.dst.tolist()])
        for number in order:
            notes.perform(events[number])
        yield notes


def verdict(verify: Callable[[], None]) -> str:
    try:
        verify()
    except PlanError as error:
        return str(error)
    return "right"


def expect_one_verdict(verify: Callable[[], None]) -> str:
    """What the kernel says, and the plain judge too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "EXACT", -1)
        compiled = verdict(verify)
        patch.setattr(judge, "_ends_of_graph", plain_ends)
        assert verdict(verify) == compiled
    return compiled


@st.composite
def graphs(draw: st.DrawFn) -> TransferGraph:
    """Lines and rings between ranks 0 to 3 and a switch 9, over elements 0 to 6, most of them wrong."""
    parts: list[tuple[Rows, list[tuple[int, ...]]]] = []
    count = 0
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            ranks = draw(st.permutations(range(4)))[: draw(st.integers(2, 4))]
            rounds = draw(st.integers(1, 2 * len(ranks)))
            spans = [range(*sorted(draw(st.tuples(*[st.integers(0, 6)] * 2)))) for _ in ranks]
            rows = ring(ranks, spans, rounds=rounds, add_rounds=draw(st.integers(0, rounds)))
        else:
            src, dst = draw(st.lists(st.sampled_from((0, 1, 2, 3, 9)), min_size=2, max_size=2, unique=True))
            span = range(*sorted(draw(st.tuples(*[st.integers(0, 6)] * 2))))
            rows = line(src, dst, span, add=dst == 9 or draw(st.booleans()))
        waits = st.lists(st.integers(0, count - 1), max_size=2) if count else st.just([])
        parts.append((rows, [tuple(draw(waits)) for _ in range(len(rows))]))
        count += len(rows)
    return concatenate(parts, [range(4)])


@given(graph=graphs())
def test_events_and_orders(graph: TransferGraph) -> None:
    events, columns = events_of(graph), unroll(graph)
    found = [
        row_event(graph, int(row), int(carried), int(turn), tuple(columns.waits[start:stop].tolist()))
        for row, turn, carried, start, stop in zip(
            columns.row, columns.turn, columns.carried, columns.ptr, columns.ptr[1:], strict=False
        )
    ]

    assert found == list(events)
    assert [order.tolist() for order in adversarial_orders(*waits_of(events))] == list(plain_orders(events))


@given(graph=graphs())
def test_any_graph(graph: TransferGraph) -> None:
    """Rank 3 begins with nothing."""
    expect_one_verdict(lambda: verify_collective(graph, Collective("all_reduce", (0, 1, 2), range(6))))
    expect_one_verdict(lambda: judge.verify_move(graph, Layout.even((0, 1, 2), 6), Layout.even((3,), 6)))


@given(strategy=STRATEGIES, many=disjoint_layouts(2, 3), data=st.data())
def test_plans_with_one_thing_wrong(strategy: Reshard, many: Sequence[Layout], data: st.DataObject) -> None:
    for plan, verify in judged(strategy, many):
        number, step = a_transfer(plan, data)
        wrong = [without(plan, data.draw(st.integers(0, len(plan.steps) - 1)))]
        if step is not None:
            wrong += [
                with_step(plan, number, replace(step, after=())),
                with_step(plan, number, replace(step, add=True)),
            ]
        for form in (plan, *wrong):
            says = expect_one_verdict(_judging(verify, form, many))
            assert form is not plan or says == "right"


def _judging(verify: Callable[..., None], plan: CommPlan, many: Sequence[Layout]) -> Callable[[], None]:
    graph = with_rings(plan)
    return lambda: verify(graph, many)


@pytest.mark.parametrize("fetched", [(0, 1, 2), (0, 1)])
@pytest.mark.parametrize("spread_after", [(6, 7, 8), (0, 1, 2)])
def test_sums_in_a_switch(fetched: Sequence[int], spread_after: Sequence[int]) -> None:
    parts = [*up(), *fetch(fetched), *put(), *spread(spread_after)]
    graph = concatenate(parts, [range(3)])
    says = expect_one_verdict(lambda: verify_collective(graph, Collective("all_reduce", (0, 1, 2), range(3))))

    assert (says == "right") == (fetched == (0, 1, 2) and spread_after == (6, 7, 8))


def test_a_row_that_waits_for_a_later_one() -> None:
    graph = concatenate([(line(0, 1, range(2)), [(1,)]), (line(1, 2, range(2)), [()])], [range(3)])

    assert expect_one_verdict(lambda: verify_collective(graph, Collective("broadcast", (0, 1, 2), range(2)))) == (
        "row 0 waits for row 1, which does not come before it"
    )
