"""Planning, lowering and verifying one tensor between many ranks, and what four times as many ranks cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.plan.test_cost import EACH, graph_of, layouts
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_move, verify_reduce

FEW, MANY = (96, 64), (384, 256)
SLACK = 2.5  # time grows with transfers; the rest is for solvers and for what a busy machine adds


def move(strategy: Reshard, degrees: tuple[int, int]) -> int:
    """How many transfers there are."""
    (source, target), site = layouts(degrees)
    plan = strategy.move(source, target, site)
    verify_move(plan, source, target)
    graph = graph_of(plan, site)
    verify_move(graph, source, target)
    return int(graph.rounds.sum())


def reduce(strategy: Reshard, degrees: tuple[int, int]) -> int:
    """How many transfers there are: of one ring of all ranks, 16 times as many for four times as many ranks."""
    many, site = layouts(degrees)
    plan = strategy.reduce(many, site)
    verify_reduce(plan, many)
    graph = graph_of(plan, site)
    verify_reduce(graph, many)
    return int(graph.rounds.sum())


@EACH
@pytest.mark.parametrize("work", [move, reduce])
@pytest.mark.benchmark(group="reshard")
def test_four_times_as_many_ranks(benchmark: Any, strategy: Reshard, work: Any) -> None:
    times_s = []
    for _ in range(4):
        started = time.perf_counter()
        few = work(strategy, FEW)
        times_s.append(time.perf_counter() - started)

    many = benchmark.pedantic(work, args=(strategy, MANY), rounds=3)

    assert benchmark.stats.stats.min < SLACK * max(4, many / few) * min(times_s)
