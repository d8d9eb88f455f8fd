"""Several networks side by side, each with its part of every host's NICs."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import LeafSpine, ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least
from xsim.spec.cluster import ClusterSpec

__all__ = ["MultiPlane"]


@dataclass(frozen=True, slots=True)
class MultiPlane:
    """NIC i of every host in plane i mod ``planes``, a network of ToRs and spines that no cable joins to the others.

    As DeepSeek's (Zhao et al., ISCA 2025, arXiv 2505.09343, section 5.1). Each plane has a ToR for each
    ``scale_out.hosts_per_tor`` hosts, and ``scale_out.spines`` spines. Traffic between planes goes over the scale-up
    fabric to a rank of the own host in the plane of the target, or, if the host has none, from a rank of the target's
    host in the own plane; over PCIe to that plane's NIC where no scale-up fabric leads there.

    Attributes:
        planes: If absent as many as the largest host has NICs.
    """

    planes: int | None = None

    def __post_init__(self) -> None:
        if self.planes is not None:
            at_least(self, "planes", 1)

    def build(self, cluster: ClusterSpec) -> Fabric:
        out, every = cluster.scale_out, ports(cluster)
        most = 1 + max(port.index for port in every)
        planes = most if self.planes is None else self.planes
        if planes > most:
            problem = f"no host has more than {most} NICs: a plane would be empty"
            raise SpecError("topology.planes", planes, problem, f"write {most} or less")
        tors = 1 + every[-1].host // out.hosts_per_tor
        check_trunks(planes * tors * out.spines, "planes", planes)
        plane_of_port = [port.index % planes for port in every]
        tor_of_port = [
            plane * tors + port.host // out.hosts_per_tor for plane, port in zip(plane_of_port, every, strict=True)
        ]
        names = [f"plane{plane}.tor{tor}" for plane in range(planes) for tor in range(tors)]
        names += [f"plane{plane}.spine{spine}" for plane in range(planes) for spine in range(out.spines)]
        trunks = [
            Trunk(tor, planes * tors + tor // tors * out.spines + spine, out.uplink)
            for tor in range(planes * tors)
            for spine in range(out.spines)
        ]
        return wire(cluster, ScaleOut(names, trunks, tor_of_port, LeafSpine(out.spines)), plane_of_port)
