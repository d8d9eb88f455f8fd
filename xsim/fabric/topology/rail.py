"""Rail-optimised: NIC i of every host of a segment on the same switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xsim.fabric.fabric import Fabric
from xsim.fabric.wiring import Leaves, nics_of, ports, wire
from xsim.spec.cluster import ClusterSpec

__all__ = ["Rail"]


@dataclass(frozen=True, slots=True)
class Rail:
    """NIC i of every host of a segment on rail switch i; other rails and segments through the spines.

    A segment has ``scale_out.hosts_per_tor`` hosts. It has as many rails as its largest host has NICs; a host with
    fewer is on the first of them. Traffic between rails crosses a spine: unless ``pxn``, it is not relayed inside the
    host.

    Attributes:
        pxn: What a rank sends to another host and another rail goes over the scale-up fabric to a rank of its own host
            on that rail, and from there as if that one had sent it: within a segment no spine is crossed. As NCCL does
            (developer.nvidia.com/blog/doubling-all2all-performance-with-nvidia-collective-communication-library-2-12).
            Straight on where no such rank is in the scale-up domain of the sender.
    """

    pxn: bool = False

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        every = ports(cluster)
        rails = 1 + max(port.index for port in every)
        segments = 1 + every[-1].host // out.hosts_per_tor
        rail_of_port = [port.host // out.hosts_per_tor * rails + port.index for port in every]
        names = [f"segment{segment}.rail{rail}" for segment in range(segments) for rail in range(rails)]
        fabric = wire(cluster, Leaves(names, rail_of_port, [out.uplink] * len(names), out.spines))
        return replace(fabric, router=_relayed(fabric, cluster)) if self.pxn else fabric


@dataclass(frozen=True, slots=True, eq=False)
class _Relayed:
    """The router that goes by way of a rank of the own host to another rail.

    Attributes:
        straight: The router without a relay.
        hosts, rails: Of each rank.
        on_rail: Ranks of each (host, rail).
        scale_up: Of each link whether it is of the scale-up fabric.
    """

    straight: Callable[[int, int], tuple[int, ...]]
    hosts: Sequence[int]
    rails: Sequence[int]
    on_rail: Mapping[tuple[int, int], Sequence[int]]
    scale_up: Sequence[bool]

    def __call__(self, src: int, dst: int) -> tuple[int, ...]:
        if max(src, dst) >= len(self.hosts) or self.hosts[src] == self.hosts[dst] or self.rails[src] == self.rails[dst]:
            return self.straight(src, dst)
        relays = self.on_rail.get((self.hosts[src], self.rails[dst]), ())
        for number in range(len(relays)):
            relay = relays[(dst + number) % len(relays)]  # several ranks of a NIC take turns by target
            leg = self.straight(src, relay)
            if all(self.scale_up[link] for link in leg):
                return leg + self.straight(relay, dst)
        return self.straight(src, dst)


def _relayed(fabric: Fabric, cluster: ClusterSpec) -> _Relayed:
    rails = [nic for host in cluster.each_host() for nic in nics_of(host)]
    on_rail: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, at in enumerate(zip(fabric.hosts, rails, strict=True)):
        on_rail[at].append(rank)
    scale_up = [link.kind == "scale_up" for link in fabric.links]
    return _Relayed(fabric.router, fabric.hosts, rails, dict(on_rail), scale_up)
