"""Expanding and verifying stay linear in transfers, by the count of interpreter instructions, which no load changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from types import FrameType

import pytest

from tests.paper.test_optimality import one_switch
from tests.strategies import WiredSite
from xsim.fabric.transfers import TransferGraph
from xsim.families import members
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import CommPlan, lower_plan
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_move, verify_reduce
from xsim.plan.layout import Layout

EACH = pytest.mark.parametrize("strategy", [pytest.param(cls(), id=name) for name, cls in members("reshard")])
UNIT = 840  # elements
SLACK = 1.3  # how much more a transfer may cost where there are four times as many: logarithms of sorting


def instructions(work: Callable[[], int]) -> tuple[int, int]:
    """What ``work`` returns, and how many bytecode instructions it takes."""
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> object:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        return work(), count
    finally:
        sys.settrace(before)


def layouts(degrees: Sequence[int]) -> tuple[list[Layout], WiredSite]:
    """A tensor on groups of such degrees, each rank behind a port of its own, whose latency makes small pieces dear."""
    ends = accumulate(degrees, initial=0)
    size = UNIT * max(degrees)
    many = [Layout.even(tuple(range(start, stop)), size) for start, stop in pairwise(ends)]
    return many, WiredSite(one_switch(sum(degrees), latency_ps=10**6))


def graph_of(plan: CommPlan, site: WiredSite) -> TransferGraph:
    return lower_plan(plan, (plan.participants(),), lambda step: Ring().expand(step, site))


def moved(strategy: Reshard, degrees: tuple[int, int]) -> tuple[int, int]:
    """Transfers of a hand-over, and the instructions to plan, lower and verify it."""
    (source, target), site = layouts(degrees)

    def work() -> int:
        plan = strategy.move(source, target, site)
        graph = graph_of(plan, site)
        verify_move(plan, source, target)
        verify_move(graph, source, target)
        return int(graph.rounds.sum())

    work()  # what is loaded or compiled once does not count
    return instructions(work)


def reduced(strategy: Reshard, degrees: Sequence[int]) -> tuple[int, int]:
    """Transfers of a sum, and the instructions to plan, lower and verify it."""
    many, site = layouts(degrees)

    def work() -> int:
        plan = strategy.reduce(many, site)
        graph = graph_of(plan, site)
        verify_reduce(plan, many)
        verify_reduce(graph, many)
        return int(graph.rounds.sum())

    work()
    return instructions(work)


@EACH
def test_a_hand_over_of_four_times_as_many_transfers(strategy: Reshard) -> None:
    few, many = moved(strategy, (6, 4)), moved(strategy, (24, 16))

    assert many[0] >= 3 * few[0]
    assert many[1] / many[0] <= SLACK * few[1] / few[0]


@EACH
def test_a_sum_of_four_times_as_many_transfers(strategy: Reshard) -> None:
    few, many = reduced(strategy, (6, 4)), reduced(strategy, (24, 16))

    assert many[0] >= 3 * few[0]
    assert many[1] / many[0] <= SLACK * few[1] / few[0]
