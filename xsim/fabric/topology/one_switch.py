"""All NICs on one switch that blocks nobody."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import leaf_spine, ports
from xsim.fabric.wiring import wire
from xsim.spec.cluster import ClusterSpec

__all__ = ["OneSwitch"]


@dataclass(frozen=True, slots=True)
class OneSwitch:
    """All NICs on one non-blocking switch."""

    def build(self, cluster: ClusterSpec) -> Fabric:
        leaf_of_port = [0] * len(ports(cluster))
        return wire(cluster, leaf_spine(["switch"], leaf_of_port, [cluster.scale_out.uplink], spines=0))
