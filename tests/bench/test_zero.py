"""Sharded gradients (ZeRO stage 2) sync after every micro-batch: the time grows with their number, not its square."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.plan.test_zero import SPEC
from tests.plan.toy import cluster, plan, scenario, stage
from xsim.experiment import Experiment, run

MICRO_BATCHES, LIMIT_S = 64, 8


def test_sharded_gradients_of_many_micro_batches(benchmark: Any) -> None:
    """Four replicas of two ranks on one host, whose collectives and syncs share links."""
    replicas = [(stage((first, first + 1), layers=range(1, 9)),) for first in (0, 2, 4, 6)]
    deployment = replace(plan(*replicas, micro_batches=MICRO_BATCHES), zero=2)
    asked = Experiment(scenario=scenario(cluster(8), SPEC, deployment), memory="report")

    result = benchmark.pedantic(run, args=(asked,), rounds=1, warmup_rounds=1)

    assert sum(sync.does == "scatter" for sync in result.workload.syncs) == 3 * MICRO_BATCHES
    assert benchmark.stats.stats.max < LIMIT_S
