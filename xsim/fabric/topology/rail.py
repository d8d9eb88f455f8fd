"""Rail-optimised: NIC i of every host of a segment on the same switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xsim.fabric.fabric import Fabric, Gate, Route
from xsim.fabric.scale_out import leaf_spine, nics_of, ports
from xsim.fabric.wiring import wire
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
        fabric = wire(cluster, leaf_spine(names, rail_of_port, [out.uplink] * len(names), out.spines))
        if not self.pxn:
            return fabric
        relayed = _relayed(fabric, cluster)
        return replace(fabric, router=relayed, alternatives=relayed, gates=relayed.gate)


@dataclass(frozen=True, slots=True, eq=False)
class _Relayed:
    """The router that goes by way of a rank of the own host to another rail.

    Attributes:
        straight: The fabric without a relay.
        rails: Of each rank.
        count: How many rails there are.
        on_rail: Ranks of each (host, rail).
    """

    straight: Fabric
    rails: Sequence[int]
    count: int
    on_rail: Mapping[tuple[int, int], Sequence[int]]

    def __call__(self, src: int, dst: int) -> Route:
        relay = self._relay(src, dst)
        return self.straight.route(src, relay) + self.straight.route(relay, dst)

    def choices(self, src: int, dst: int) -> int:
        return self.straight.choices(self._relay(src, dst), dst)

    def chosen(self, src: int, dst: int, choice: int) -> Route:
        relay = self._relay(src, dst)
        return self.straight.route(src, relay) + self.straight.route(relay, dst, choice)

    def gate(self, rank: int) -> Gate:
        """A relay is on the host of the sender: routes end as straight ones do, but begin with the way to any relay.

        Which leaf they pass depends on the target.
        """
        host, rail = self.straight.hosts[rank], self.rails[rank]
        others = (
            relay for other in range(self.count) if other != rail for relay in self.on_rail.get((host, other), ())
        )
        straight = self.straight.gate(rank)
        return Gate(() if any(self._reaches(rank, relay) for relay in others) else straight.out, straight.into)

    def _relay(self, src: int, dst: int) -> int:
        """The rank from which ``src`` sends to ``dst``: itself, unless it is one of its host on the rail of ``dst``."""
        hosts = self.straight.hosts
        if max(src, dst) >= len(hosts) or hosts[src] == hosts[dst] or self.rails[src] == self.rails[dst]:
            return src
        relays = self.on_rail.get((hosts[src], self.rails[dst]), ())
        turns = (relays[(dst + number) % len(relays)] for number in range(len(relays)))  # of a NIC, by target
        return next((relay for relay in turns if self._reaches(src, relay)), src)

    def _reaches(self, src: int, relay: int) -> bool:
        """Whether a scale-up fabric joins the two."""
        return all(self.straight.links[link].kind == "scale_up" for link in self.straight.route(src, relay))


def _relayed(fabric: Fabric, cluster: ClusterSpec) -> _Relayed:
    rails = [nic for host in cluster.each_host() for nic in nics_of(host)]
    on_rail: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, at in enumerate(zip(fabric.hosts, rails, strict=True)):
        on_rail[at].append(rank)
    return _Relayed(fabric, rails, 1 + max(rails), dict(on_rail))
