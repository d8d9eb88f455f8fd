"""A small mixture of experts, and deployments that spread its experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.plan.toy import cluster, lowered, model, scenario
from xsim.experiment import Experiment, Result, run
from xsim.plan.load import loads, rank_memory
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.operators import shard_operators
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.shard import Routing, Shard
from xsim.plan.workload import Collect
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

__all__ = ["DENSE", "MIXED", "Parts", "asked", "exchanged", "needs", "parts", "plan", "sent", "simulated"]

DENSE = model(layers=4, hidden=512, heads=8, kv_heads=4, ffn=1024, seq_len=256, gated=True, tied=False)
MIXED = replace(DENSE, experts=8, experts_per_token=2)

Parts = tuple[ShardedOperator | Exchange, ...]


def parts(spec: ModelSpec, routing: Routing, tp: int = 1, index: int = 0, cp: int = 1) -> Parts:
    return shard_operators(Shard(spec, 2, tp, index, "bf16", tp > 1, cp=cp, routing=routing), 1)


def plan(ep: int, *, cp: int = 1, tp: int = 1, cells: int = 1, replicas: int = 1, stages: int = 1, **options: Any):  # type: ignore[no-untyped-def]
    layers, size = DENSE.layers // stages, cp * tp

    def stage(first: int, number: int) -> Stage:
        groups = tuple(
            DeviceGroup(ranks=tuple(range(first + g * size, first + (g + 1) * size)), samples=1, cp=cp)
            for g in range(ep * cells)
        )
        own = (range(1 + number * layers, 1 + (number + 1) * layers),)
        again = options.get("recompute", ())
        return Stage(groups=groups, layers=own, sequence_parallel=tp > 1, ep=ep, recompute=again)

    width = ep * cells * size
    return DeploymentPlan(
        replicas=tuple(
            Replica(
                stages=tuple(stage((r * stages + s) * width, s) for s in range(stages)),
                micro_batch=ep * cells,
                micro_batches=2,
            )
            for r in range(replicas)
        ),
        zero=options.get("zero", 0),
        tp_overlap=options.get("tp_overlap", False),
    )


def asked(deployment: DeploymentPlan, spec: ModelSpec = MIXED, **changes: Any) -> Scenario:
    ranks = sum(len(group.ranks) for _, group in deployment.groups())
    return replace(scenario(cluster(ranks), spec, deployment), **changes)


def simulated(question: Scenario, **options: Any) -> Result:
    return run(Experiment(scenario=question, memory="report", **options))


def exchanged(question: Scenario, kind: str = "F") -> list[Collect]:
    body = lowered(question).programs[0].bodies[kind, 0]
    return [step for step in body.steps if isinstance(step, Collect) and step.kind == "experts"]


def sent(steps: list[Collect]) -> np.ndarray[Any, Any]:
    """From rank to rank."""
    found = np.zeros((8, 8), dtype=np.int64)
    for step in steps:
        np.add.at(found, (step.graph.src, step.graph.dst), step.graph.stop - step.graph.start)
    return found


def needs(question: Scenario) -> list[Any]:
    assert question.deployment is not None
    complete = check_deployment(question.deployment, question)
    found = {
        rank: rank_memory(question, held.load, index)
        for held in loads(question, complete, GPipe().order)
        for index, rank in enumerate(held.ranks)
    }
    return [found[rank] for rank in sorted(found)]
