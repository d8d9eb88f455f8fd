"""A switch for each rail and nothing between rails: hosts pass on what is for another."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import leaf_spine, ports
from xsim.fabric.wiring import wire
from xsim.spec.cluster import ClusterSpec

__all__ = ["RailOnly"]


@dataclass(frozen=True, slots=True)
class RailOnly:
    """NIC i of every host on rail switch i, and no spines (Wang et al., arXiv 2307.12169).

    Traffic between rails goes over the scale-up fabric to a rank of the own host on the rail of the target, or, if the
    host has none, from a rank of the target's host on the own rail; over PCIe to that rail's NIC where no scale-up
    fabric leads there. Rail switches block nobody, however many hosts there are; ``scale_out`` is not used.
    """

    def build(self, cluster: ClusterSpec) -> Fabric:
        rails = [port.index for port in ports(cluster)]
        names = [f"rail{rail}" for rail in range(1 + max(rails))]
        return wire(cluster, leaf_spine(names, rails, [cluster.scale_out.uplink] * len(names), spines=0), rails)
