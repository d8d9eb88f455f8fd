"""What a run would gain: the same experiment with one thing changed, simulated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from xsim.errors import XsimError
from xsim.experiment import Experiment, Result, run
from xsim.fabric.fabric import Fabric, Topology
from xsim.families import build, name_of, names
from xsim.plan.contracts import ComputeModel, Holding, ShardedOperator
from xsim.plan.operator import Pass, Place
from xsim.spec.cluster import ClusterSpec, DeviceSpec, rank_devices

__all__ = ["DEVICE_FACTOR", "LINK_FACTOR", "Gain", "Lever", "gains", "levers"]

LINK_FACTOR = 2.0
DEVICE_FACTOR = 1.1


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing to change.

    Attributes:
        name: ``nic links x2``, ``a100_40 x1.1``, ``reshard=hetauto``.
        pulled: The experiment with it.
    """

    name: str
    pulled: Callable[[Experiment], Experiment]


@dataclass(frozen=True, slots=True)
class Gain:
    """What a lever does.

    Attributes:
        makespan_ps: The iteration with it; absent if that cannot be.
        fits: Whether it then fits into the memory of the devices.
        problem: Why it cannot be; empty if it can.
    """

    lever: Lever
    makespan_ps: int | None
    fits: bool = True
    problem: str = ""


def levers(experiment: Experiment, result: Result) -> Iterator[Lever]:
    """Each kind of link that carried anything, each kind of device that works, other strategies, other schedules."""
    used = np.flatnonzero(result.network.link_bytes)
    for kind in dict.fromkeys(result.fabric.links[number].kind for number in used.tolist()):
        yield Lever(f"{kind} links x{LINK_FACTOR:g}", _wider(kind))
    devices = rank_devices(experiment.scenario.cluster)
    for device in dict.fromkeys(devices[rank].name for rank in result.account.ranks.tolist()):
        yield Lever(f"{device} x{DEVICE_FACTOR:g}", _faster(device))
    if result.workload.moves or result.workload.syncs:
        yield from _members("reshard", experiment.reshard)
    if any(len(replica.stages) > 1 for replica in result.deployment.replicas):
        yield from _members("schedule", experiment.schedule)


def gains(experiment: Experiment, tried: Iterator[Lever]) -> Iterator[Gain]:
    """The same iteration with each of them; memory is reported, and forbids nothing."""
    unasked = build("estimate", {"name": "none"})
    for lever in tried:
        try:
            found = run(replace(lever.pulled(experiment), memory="report", verify=False, estimate=unasked))
        except XsimError as error:
            yield Gain(lever, None, problem=" ".join(str(error).split()))
        else:
            yield Gain(lever, found.timeline.makespan_ps, fits=found.memory.fits)


def _wider(kind: str) -> Callable[[Experiment], Experiment]:
    return lambda experiment: replace(experiment, topology=_Wider(experiment.topology, kind))


def _faster(device: str) -> Callable[[Experiment], Experiment]:
    return lambda experiment: replace(experiment, compute=_Faster(experiment.compute, device))


def _members(family: str, own: object) -> Iterator[Lever]:
    for name in names(family):
        if name != name_of(family, own):
            yield Lever(f"{family}={name}", _chosen(family, name))


def _chosen(family: str, name: str) -> Callable[[Experiment], Experiment]:
    def pulled(experiment: Experiment) -> Experiment:
        made = build(family, {"name": name})
        return replace(experiment, reshard=made) if family == "reshard" else replace(experiment, schedule=made)

    return pulled


@dataclass(frozen=True, slots=True)
class _Wider:
    """The wires of ``topology``, those of one kind wider; latencies stay."""

    topology: Topology
    kind: str

    def build(self, cluster: ClusterSpec) -> Fabric:
        fabric = self.topology.build(cluster)
        factors = np.array([LINK_FACTOR if link.kind == self.kind else 1.0 for link in fabric.links])
        return replace(fabric, bandwidth_bytes_per_s=fabric.bandwidth_bytes_per_s * factors)


@dataclass(frozen=True, slots=True)
class _Faster:
    """Times of ``compute``, on devices of one name shorter."""

    compute: ComputeModel
    device: str

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        time_ps = self.compute.time_ps(device, operator, pass_)
        return round(time_ps / DEVICE_FACTOR) if device.name == self.device else time_ps

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        return isinstance(self.compute, Holding) and self.compute.holds(device, place)
