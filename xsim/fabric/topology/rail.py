"""Rail-optimised: NIC i of every host of a segment on the same switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xsim.fabric.fabric import Fabric, Gate
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
        if not self.pxn:
            return fabric
        relayed = _relayed(fabric, cluster)
        return replace(fabric, router=relayed, gates=relayed.gate)


@dataclass(frozen=True, slots=True, eq=False)
class _Relayed:
    """The router that goes by way of a rank of the own host to another rail.

    Attributes:
        straight, gates: The router without a relay, and the gates of its routes.
        hosts, rails: Of each rank.
        count: How many rails there are.
        on_rail: Ranks of each (host, rail).
        scale_up: Of each link whether it is of the scale-up fabric.
    """

    straight: Callable[[int, int], tuple[int, ...]]
    gates: Callable[[int], Gate]
    hosts: Sequence[int]
    rails: Sequence[int]
    count: int
    on_rail: Mapping[tuple[int, int], Sequence[int]]
    scale_up: Sequence[bool]

    def __call__(self, src: int, dst: int) -> tuple[int, ...]:
        if max(src, dst) >= len(self.hosts) or self.hosts[src] == self.hosts[dst] or self.rails[src] == self.rails[dst]:
            return self.straight(src, dst)
        relays = self.on_rail.get((self.hosts[src], self.rails[dst]), ())
        for number in range(len(relays)):
            relay = relays[(dst + number) % len(relays)]  # several ranks of a NIC take turns by target
            if self._reaches(src, relay):
                return self.straight(src, relay) + self.straight(relay, dst)
        return self.straight(src, dst)

    def gate(self, rank: int) -> Gate:
        """A relay is on the host of the sender: routes end as straight ones do, but begin with the way to any relay.

        Which leaf they pass depends on the target.
        """
        host, rail = self.hosts[rank], self.rails[rank]
        others = (
            relay for other in range(self.count) if other != rail for relay in self.on_rail.get((host, other), ())
        )
        straight = self.gates(rank)
        return Gate(() if any(self._reaches(rank, relay) for relay in others) else straight.out, straight.into)

    def _reaches(self, src: int, relay: int) -> bool:
        return all(self.scale_up[link] for link in self.straight(src, relay))


def _relayed(fabric: Fabric, cluster: ClusterSpec) -> _Relayed:
    rails = [nic for host in cluster.each_host() for nic in nics_of(host)]
    on_rail: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, at in enumerate(zip(fabric.hosts, rails, strict=True)):
        on_rail[at].append(rank)
    scale_up = [link.kind == "scale_up" for link in fabric.links]
    return _Relayed(fabric.router, fabric.gates, fabric.hosts, rails, 1 + max(rails), dict(on_rail), scale_up)
