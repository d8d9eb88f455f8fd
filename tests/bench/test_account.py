"""The account of GPT-3 175B on 1024 ranks: 128 groups of 8, 64 micro-batches, six layers a stage."""

from __future__ import annotations

from typing import Any

import pytest

from tests.metrics.toy import Pace, graph, pipeline, play, program, sync
from xsim.account import account
from xsim.plan.workload import Collect, Compute, Ready, Step, Workload
from xsim.sim.timeline import Timeline

STAGES, REPLICAS, TP, MICRO_BATCHES, LAYERS = 16, 8, 8, 64, 6


@pytest.fixture(scope="module", params=["folded", "walked"], name="case")
def _case(request: pytest.FixtureRequest) -> tuple[Workload, Timeline]:
    order = " ".join(f"{kind}{m}" for kind in "FB" for m in range(MICRO_BATCHES))
    programs = []
    for replica in range(REPLICAS):
        for stage in range(STAGES):
            first = (replica * STAGES + stage) * TP
            ranks = tuple(range(first, first + TP))
            layer: list[Step] = []
            for kind in ("layernorm", "attention", "layernorm", "mlp"):
                layer += [Compute(kind, tuple(range(100 + replica, 100 + replica + TP)))] * 2
                if kind != "layernorm":
                    layer.append(Collect(kind, graph(ranks)))
            body = tuple(layer * LAYERS)
            update = (Compute("optimizer", (1000,) * TP),)
            programs.append(program(replica, stage, ranks, order, body, (*body, Ready(stage)), update))
    syncs = tuple(sync(*range(stage, STAGES * REPLICAS, STAGES)) for stage in range(STAGES))
    workload = Workload(tuple(programs), pipeline(programs), syncs)
    collectives = (50,) * (2 * LAYERS)
    walked = {(p, n): collectives for p in range(len(programs)) for n in range(2 * MICRO_BATCHES)}
    pace = Pace(50, walked=walked if request.param == "walked" else {}, sync_ps=((900,) * REPLICAS,) * STAGES)
    return workload, play(workload, pace)


@pytest.mark.benchmark(group="account")
def test_account_of_1024_ranks(benchmark: Any, case: tuple[Workload, Timeline]) -> None:
    found = benchmark(account, *case)

    assert (found.causes_ps.sum(axis=1) == found.makespan_ps).all()
    assert len(found.ranks) == STAGES * REPLICAS * TP
