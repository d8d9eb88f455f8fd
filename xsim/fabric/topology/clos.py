"""Two stages of switches: a ToR over each few hosts, spines over all ToRs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import leaf_spine, ports
from xsim.fabric.wiring import wire
from xsim.spec.checks import plausible
from xsim.spec.cluster import ClusterSpec

__all__ = ["Clos"]


@dataclass(frozen=True, slots=True)
class Clos:
    """ToR switches under spines, with ECMP over the spines by source and target rank.

    Attributes:
        oversubscription: NIC bandwidth under a ToR over its uplink bandwidth. If set, the uplinks are made that
            wide, instead of what ``scale_out.uplink`` says; 1 is a full bisection.
    """

    oversubscription: float | None = None

    def __post_init__(self) -> None:
        if self.oversubscription is not None:
            plausible(self, "oversubscription", 1e-3, 1e6, "0.001 to 1e6")

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        tor_of_port = [port.host // out.hosts_per_tor for port in ports(cluster)]
        tors = tor_of_port[-1] + 1
        uplinks = [out.uplink] * tors
        if self.oversubscription is not None:
            below = [0.0] * tors
            for tor, port in zip(tor_of_port, ports(cluster), strict=True):
                below[tor] += port.nic.bandwidth_bytes_per_s
            width = self.oversubscription * out.spines
            uplinks = [replace(out.uplink, bandwidth_bytes_per_s=nics / width) for nics in below]
        return wire(cluster, leaf_spine([f"tor{tor}" for tor in range(tors)], tor_of_port, uplinks, out.spines))
