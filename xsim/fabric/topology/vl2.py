"""VL2: ToRs on two aggregation switches each, and intermediate switches over all of these."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.shortest import ShortestPaths, graph_of
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least, at_most
from xsim.spec.cluster import ClusterSpec

__all__ = ["Vl2"]


@dataclass(frozen=True, slots=True)
class Vl2:
    """The Clos of VL2 (Greenberg et al., SIGCOMM 2009): D_A D_I / 4 ToRs, D_I aggregation, D_A / 2 intermediate.

    Each ToR, over ``scale_out.hosts_per_tor`` hosts, hangs on two aggregation switches, and each of these on all
    intermediate switches. ECMP chooses at every switch among shortest paths: by way of any intermediate switch, or
    turning at an aggregation switch that both ToRs hang on. All links between switches are ``scale_out.uplink``. Of
    the ToRs only those stand there that have hosts.

    Attributes:
        aggregation_ports: D_A, of an aggregation switch, half of them up: even. If absent, as the other.
        intermediate_ports: D_I, of an intermediate switch: even. If both are absent, the fewest with room for all ToRs.
    """

    aggregation_ports: int | None = None
    intermediate_ports: int | None = None

    def __post_init__(self) -> None:
        for name in ("aggregation_ports", "intermediate_ports"):
            if getattr(self, name) is not None:
                at_least(self, name, 2)
                at_most(self, name, 4096)
                if getattr(self, name) % 2:
                    raise SpecError(name, getattr(self, name), "it must be even", f"write {getattr(self, name) + 1}")

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        tor_of_port = [port.host // out.hosts_per_tor for port in ports(cluster)]
        tors = 1 + tor_of_port[-1]
        fewest = next(size for size in count(2, 2) if size * size >= 4 * tors)
        up = self.aggregation_ports or self.intermediate_ports or fewest
        aggregations = self.intermediate_ports or up
        if up * aggregations < 4 * tors:
            problem = f"there is room for {up * aggregations // 4} ToRs, and the hosts need {tors}"
            raise SpecError("topology.aggregation_ports", up, problem, f"write {fewest} or more, or leave it out")
        check_trunks(2 * tors + aggregations * up // 2, "aggregation_ports", up)
        names = [
            *(f"tor{number}" for number in range(tors)),
            *(f"aggregation{number}" for number in range(aggregations)),
            *(f"intermediate{number}" for number in range(up // 2)),
        ]
        ends = [(tor, tors + 2 * (tor // (up // 2)) + side) for tor in range(tors) for side in range(2)]
        ends += [(tors + a, tors + aggregations + i) for a in range(aggregations) for i in range(up // 2)]
        trunks = [Trunk(low, high, out.uplink) for low, high in ends]
        return wire(cluster, ScaleOut(names, trunks, tor_of_port, ShortestPaths(graph_of(len(names), trunks))))
