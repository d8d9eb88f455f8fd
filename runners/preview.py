"""What can be said about a point without simulating it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import cast

from runners.inputs import read
from runners.points import Point
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Topology
from xsim.plan.memory import deployment_memory
from xsim.spec.cluster import ClusterSpec
from xsim.spec.scenario import check_deployment

__all__ = ["preview"]


def preview(point: Point) -> tuple[str, bool]:
    """Title, what is known to go wrong, and the beginning of the key under which the result will lie; whether it runs.

    Wires and background traffic are built as the run would build them; what a planner makes of a point, and what
    strategies say to it, only the run shows.
    """
    fate, runs = _fate(point)
    return f"{point.title}{f'  {fate}' if fate else ''}  [{point.key[:8]}]", runs


def _fate(point: Point) -> tuple[str, bool]:
    if point.contradiction:
        return f"invalid: {point.contradiction}", False
    experiment = read(point.config).experiment()
    scenario = experiment.scenario
    try:
        wires = _wires(cast(Hashable, experiment.topology), scenario.cluster)
        experiment.background.traffic(wires, experiment.seed)
        if experiment.faults:
            experiment.network.open(wires, experiment.seed, experiment.faults)
        if point.labels["planner"] != "given" or scenario.deployment is None:
            return "(memory is known when it is planned)", True
        deployment = check_deployment(scenario.deployment, scenario)
        memory = deployment_memory(scenario, deployment, experiment.schedule.order)
    except SpecError as refusal:
        return f"invalid: {refusal}", False
    if memory.fits:
        return "", True
    enforced = experiment.memory == "enforce"
    return f"{'does_not_fit' if enforced else 'simulated, but does not fit'}: {memory.text}", not enforced


@lru_cache(maxsize=4)
def _wires(topology: Hashable, cluster: ClusterSpec) -> Fabric:
    """Points of a sweep share them."""
    return cast(Topology, topology).build(cluster)
