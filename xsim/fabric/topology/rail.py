"""Rail-optimised: NIC i of every host of a segment on the same switch."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.fabric.wiring import Leaves, ports, wire
from xsim.spec.cluster import ClusterSpec

__all__ = ["Rail"]


@dataclass(frozen=True, slots=True)
class Rail:
    """NIC i of every host of a segment on rail switch i; other rails and segments through the spines.

    A segment has ``scale_out.hosts_per_tor`` hosts. It has as many rails as its largest host has NICs; a host with
    fewer is on the first of them. Traffic between rails crosses a spine: it is not relayed inside the host.
    """

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        every = ports(cluster)
        rails = 1 + max(port.index for port in every)
        segments = 1 + every[-1].host // out.hosts_per_tor
        rail_of_port = [port.host // out.hosts_per_tor * rails + port.index for port in every]
        names = [f"segment{segment}.rail{rail}" for segment in range(segments) for rail in range(rails)]
        return wire(cluster, Leaves(names, rail_of_port, [out.uplink] * len(names), out.spines))
