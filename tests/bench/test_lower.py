"""Lowering GPT-3 175B for 1024 ranks: TP 8, PP 16, DP 8."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.plan.toy import cluster, model
from tests.strategies import StandInSite
from xsim.fabric.topology.rail import Rail
from xsim.plan.collective.ring import Ring
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import PlannerSite
from xsim.plan.lower import lower
from xsim.plan.memory import deployment_memory
from xsim.plan.planner.uniform import Uniform
from xsim.plan.reshard.lcm import Lcm
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.workload import Collect
from xsim.spec.scenario import Scenario, check_deployment

GPT3 = model(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200, seq_len=2048)
SCENARIO = Scenario(cluster=cluster(*(8,) * 128), model=GPT3, batch=512)
SITE = StandInSite(Rail().build(SCENARIO.cluster), SCENARIO.dtype_bytes)
PLAN = check_deployment(Uniform(pp=16).plan(SCENARIO, cast(PlannerSite, SITE)), SCENARIO)


@pytest.mark.benchmark(group="lower")
def test_lower_1024_ranks(benchmark: Any) -> None:
    found = benchmark(
        lower,
        SCENARIO,
        PLAN,
        schedule=OneFOneB(),
        reshard=Lcm(),
        collective=Ring(),
        compute=Roofline(),
        site=SITE,
    ).workload

    assert len(found.programs) == 128
    assert len(found.moves) == 8 * 15 * 2
    assert len([sync for sync in found.syncs if sync.kind == "dense"]) == 16
    middle = found.programs[1].bodies["F", 0].steps
    assert len([step for step in middle if isinstance(step, Collect)]) == 6 * 2
    assert benchmark.stats.stats.median < 0.5


@pytest.mark.benchmark(group="lower")
def test_memory_of_1024_ranks(benchmark: Any) -> None:
    found = benchmark(deployment_memory, SCENARIO, PLAN, OneFOneB().order)

    assert len(found.needs) == 1024
    assert benchmark.stats.stats.median < 0.1
