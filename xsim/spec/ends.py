"""Embedding and head of a deployment: written down or not, they are on the first and last stage."""

from __future__ import annotations

from dataclasses import replace

from xsim.errors import SpecError
from xsim.spec.deployment import DeploymentPlan, Replica

__all__ = ["with_ends"]


def with_ends(plan: DeploymentPlan, layers: int) -> DeploymentPlan:
    """The plan with embedding (layer 0) and head (``layers + 1``) on the first and last stage of each replica.

    Raises:
        SpecError: A replica does not cover layers 1..``layers`` exactly.
    """
    return replace(plan, replicas=tuple(_complete(r, layers, f"replicas[{i}]") for i, r in enumerate(plan.replicas)))


def _complete(replica: Replica, layers: int, path: str) -> Replica:
    first, last = replica.layers.start, replica.layers.stop
    if first not in (0, 1):
        problem = f"its first stage starts at layer {first}"
        raise SpecError(f"{path}.stages[0].layers", replica.stages[0].layers[0], problem, "start it at layer 1")
    if last not in (layers + 1, layers + 2):
        problem = f"its last stage ends at layer {last - 1}, the model has {layers}"
        end = len(replica.stages) - 1
        raise SpecError(f"{path}.stages[{end}].layers", replica.stages[-1].layers[-1], problem, f"end it at {layers}")
    stages = list(replica.stages)
    parts = list(stages[0].layers)
    stages[0] = replace(stages[0], layers=(range(0, parts[0].stop), *parts[1:]))
    parts = list(stages[-1].layers)
    stages[-1] = replace(stages[-1], layers=(*parts[:-1], range(parts[-1].start, layers + 2)))
    return replace(replica, stages=tuple(stages))
