"""Planning, lowering and verifying one tensor between many ranks, and what four times as many ranks cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.plan.test_cost import EACH, graph_of, layouts
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_move, verify_reduce

FEW, MANY = (96, 64), (384, 256)
FACTOR = 4 * 2.5  # time grows with transfers; the rest is for solvers and for what a busy machine adds


def move(strategy: Reshard, degrees: tuple[int, int]) -> None:
    (source, target), site = layouts(degrees)
    plan = strategy.move(source, target, site)
    verify_move(plan, source, target)
    verify_move(graph_of(plan, site), source, target)


def reduce(strategy: Reshard, degrees: tuple[int, int]) -> None:
    many, site = layouts(degrees)
    plan = strategy.reduce(many, site)
    verify_reduce(plan, many)
    verify_reduce(graph_of(plan, site), many)


@EACH
@pytest.mark.parametrize("work", [move, reduce])
@pytest.mark.benchmark(group="reshard")
def test_four_times_as_many_ranks(benchmark: Any, strategy: Reshard, work: Any) -> None:
    times_s = []
    for _ in range(4):
        started = time.perf_counter()
        work(strategy, FEW)
        times_s.append(time.perf_counter() - started)

    benchmark.pedantic(work, args=(strategy, MANY), rounds=3)

    assert benchmark.stats.stats.min < FACTOR * min(times_s)
