"""A cluster without the devices that have failed, and plans on it in the numbers of the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from xsim.errors import NoSeatError, SpecError, TooLongError
from xsim.plan.forms import renamed
from xsim.plan.kinds import Sketch
from xsim.plan.sketch import Together, place
from xsim.spec.cluster import ClusterSpec, HostSpec, rank_devices, rank_hosts, rank_kinds
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["check_lost", "levelled", "place_without", "seatings", "without"]


def check_lost(lost: Sequence[int], cluster: ClusterSpec) -> None:
    """Refuse ranks that the cluster does not have or that stand there twice, and the loss of all of them.

    Raises:
        SpecError: The field is ``lost``.
    """
    for rank in lost:
        if not 0 <= rank < cluster.ranks:
            raise SpecError("lost", rank, f"the cluster {cluster.name} has {cluster.ranks} ranks", "name one of them")
    if len(set(lost)) < len(lost):
        raise SpecError("lost", list(lost), "a rank is lost once", "name each once")
    if len(lost) == cluster.ranks:
        raise SpecError("lost", list(lost), "no device is left", "leave one")


def without(cluster: ClusterSpec, lost: Collection[int]) -> ClusterSpec:
    """The hosts with the devices that they have left, in the same order; NICs stay."""
    hosts: list[HostSpec] = []
    rank = 0
    for host in cluster.each_host():
        slots = []
        for slot in host.devices:
            left = sum(own not in lost for own in range(rank, rank + slot.count))
            rank += slot.count
            if left:
                slots.append(replace(slot, count=left))
        if not slots:
            continue
        size = sum(slot.count for slot in slots)
        names = {slot.domain for slot in slots}
        nic = host.nic if host.nic.per_host is None else replace(host.nic, per_host=min(host.nic.per_host, size))
        domains = tuple(domain for domain in host.domains if domain.name in names)
        tree = host.pcie_tree if size == host.size else ()
        hosts.append(replace(host, devices=tuple(slots), nic=nic, count=1, domains=domains, pcie_tree=tree))
    runs = [(own, len(list(alike))) for own, alike in groupby(hosts)]
    return replace(cluster, hosts=tuple(replace(own, count=count) for own, count in runs))


def levelled(cluster: ClusterSpec, groups: Iterable[Sequence[int]]) -> ClusterSpec:
    """The cluster as groups see it that wait for their slowest: of one name all devices of a group are the slowest."""
    devices = list(rank_devices(cluster))
    for ranks in groups:
        for name in {devices[rank].name for rank in ranks}:
            alike = [rank for rank in ranks if devices[rank].name == name]
            slowest = min((devices[rank] for rank in alike), key=lambda device: device.speed)
            for rank in alike:
                devices[rank] = slowest
    if tuple(devices) == rank_devices(cluster):
        return cluster
    own, hosts = iter(devices), []
    for host in cluster.each_host():
        slots = [slot for slot in host.devices for _ in range(slot.count)]
        each = tuple(replace(slot, device=next(own), count=1, rate_flops_per_s=None) for slot in slots)
        hosts.append(replace(host, devices=each, count=1))
    return replace(cluster, hosts=tuple(hosts))


def seatings(
    sketch: Sketch, scenario: Scenario, lost: Collection[int], given: Sequence[Sketch] = ()
) -> Iterator[DeploymentPlan]:
    """Ways to seat a plan that differ in hosts: by pipelines, by copies of a stage, and on the ranks of ``given``."""
    hosts, known = rank_hosts(scenario.cluster), set[tuple[tuple[int, ...], ...]]()
    ways: tuple[tuple[Sketch, Together], ...] = ((sketch, "pipelines"), (sketch, "copies"))
    for each, together in (*ways, *((own, "pipelines") for own in given)):
        try:
            plan = place_without(each, scenario, lost, together)
        except (NoSeatError, TooLongError):
            continue  # hosts have no seats for groups of these sizes together, or no simulation would end
        seats = tuple(tuple(hosts[rank] for rank in group.ranks) for _, group in plan.groups())
        if seats not in known:
            known.add(seats)
            yield plan


def place_without(
    sketch: Sketch, scenario: Scenario, lost: Collection[int], together: Together = "pipelines"
) -> DeploymentPlan:
    """As ``place``, on none of the ranks that are lost."""
    if not lost:
        return place(sketch, scenario, together)
    left = [rank for rank in range(scenario.cluster.ranks) if rank not in lost]
    smaller = replace(scenario, cluster=without(scenario.cluster, lost), deployment=None)
    kinds = rank_kinds(scenario.cluster)
    there = dict(zip((kinds[rank] for rank in left), rank_kinds(smaller.cluster), strict=True))
    found = place(renamed(sketch, there), smaller, together)
    replicas = tuple(
        replace(
            replica,
            stages=tuple(
                replace(
                    stage,
                    groups=tuple(replace(g, ranks=tuple(left[rank] for rank in g.ranks)) for g in stage.groups),
                )
                for stage in replica.stages
            ),
        )
        for replica in found.replicas
    )
    return replace(found, replicas=replicas)
