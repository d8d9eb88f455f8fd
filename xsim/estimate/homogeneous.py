"""What a simulator of homogeneous clusters says of an unlike one (section 5, evaluation (1) of the Xsim paper).

SimAI (https://github.com/aliyun/SimAI) has one device type and one workload for all ranks, and no barrier between the
stages of a pipeline: a stage's time is what it does itself. So here: every device is of one kind, and the iteration is
that of the busiest group, its operators and collectives one after another, its gradient syncs after them, each with the
wires to itself. Nobody waits for anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.plan.contracts import Elsewhere, EstimateSite
from xsim.plan.workload import UPDATE, Body, Collect, Compute, Fetch, Program
from xsim.spec.cluster import ClusterSpec, DeviceSlot, rank_slots
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Homogeneous"]


@dataclass(frozen=True, slots=True)
class Homogeneous:
    """One device type, and no barriers between stages, as in SimAI.

    Attributes:
        device: Which of the devices in use all are: the ``fastest`` or the ``slowest`` by peak rate, or one's name.
    """

    device: str = "fastest"

    def time_ps(self, scenario: Scenario, deployment: DeploymentPlan, site: EstimateSite) -> int | None:
        chosen = self._chosen(scenario, deployment)
        lowered = site.lowered(deployment, _all_of(scenario.cluster, chosen))
        syncs_ps = [0] * len(lowered.workload.programs)
        for sync in lowered.workload.syncs:
            if sync.does not in ("ahead", "fetch"):  # those are steps of actions
                for program in sync.programs:
                    syncs_ps[program] += lowered.alone_ps(sync.graph)
        programs = zip(lowered.workload.programs, syncs_ps, strict=True)
        return max(_busy_ps(program, lowered) + sync_ps for program, sync_ps in programs)

    def _chosen(self, scenario: Scenario, deployment: DeploymentPlan) -> DeviceSlot:
        slots = rank_slots(scenario.cluster)
        used = {slots[rank].device.name: slots[rank] for _, group in deployment.groups() for rank in group.ranks}
        if self.device in used:
            return used[self.device]
        if self.device not in ("fastest", "slowest"):
            fix = f"choose one of fastest, slowest, {', '.join(sorted(used))}"
            raise SpecError("estimate.device", self.device, "no rank of the deployment has it", fix)
        by_rate = sorted(used.values(), key=lambda slot: (_rate(slot, scenario.precision), slot.device.name))
        return by_rate[-1 if self.device == "fastest" else 0]


def _rate(slot: DeviceSlot, precision: str) -> float:
    return slot.rate_flops_per_s or slot.device.peak(precision)


def _all_of(cluster: ClusterSpec, chosen: DeviceSlot) -> ClusterSpec:
    """``cluster`` with the device of ``chosen`` in the place of all its devices; hosts and NICs stay."""
    hosts = []
    for host in cluster.hosts:
        devices = tuple(replace(chosen, count=slot.count, domain=slot.domain) for slot in host.devices)
        hosts.append(replace(host, devices=devices))
    return replace(cluster, hosts=tuple(hosts))


def _busy_ps(program: Program, lowered: Elsewhere) -> int:
    """All that the group does in its actions, each step after the other."""
    turns = program.turns()
    actions = zip((*program.actions, UPDATE), (*turns, 0), strict=True)
    return sum(_body_ps(program.body(action), turn, lowered) for action, turn in actions)


def _body_ps(body: Body, turn: int, lowered: Elsewhere) -> int:
    total_ps = 0
    for step in body.steps:
        if isinstance(step, Compute):
            total_ps += max(step.durations_ps)
        elif isinstance(step, Collect):
            total_ps += max(lowered.alone_ps(step.graph), step.beside_ps)
        elif isinstance(step, Fetch):
            total_ps += lowered.alone_ps(lowered.workload.syncs[step.sync + step.every * turn].graph)
    return total_ps
