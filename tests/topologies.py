"""Each member of the family ``topology`` for any cluster: a file has to be written for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.scale_out import ports
from xsim.fabric.topology.file import File
from xsim.families import build, names
from xsim.spec.cluster import ClusterSpec
from xsim.units import format_time

__all__ = ["TOPOLOGIES", "fitting", "hpcc_text"]


def fitting(name: str, cluster: ClusterSpec) -> Topology:
    """The member of that name, as it is unless told otherwise."""
    return File(text=hpcc_text(cluster)) if name == "file" else cast(Topology, build("topology", {"name": name}))


@dataclass(frozen=True, slots=True)
class Fitting:
    """A topology of its own for each cluster."""

    name: str

    def build(self, cluster: ClusterSpec) -> Fabric:
        return fitting(self.name, cluster).build(cluster)


TOPOLOGIES = {name: Fitting(name) for name in names("topology")}


def hpcc_text(cluster: ClusterSpec, leaves: int = 2, spines: int = 2) -> str:
    """A file of HPCC's in which the NICs of the cluster hang on leaves in turn, every leaf on every spine."""
    nics, out = ports(cluster), cluster.scale_out.uplink
    switches = range(len(nics), len(nics) + leaves + spines)
    links = [(number, switches[number % leaves], port.nic.link) for number, port in enumerate(nics)]
    links += [(leaf, spine, out) for leaf in switches[:leaves] for spine in switches[leaves:]]
    lines = [
        f"{len(nics) + leaves + spines} {leaves + spines} {len(links)}",
        " ".join(map(str, switches)),
        *(
            f"{a} {b} {8 * link.bandwidth_bytes_per_s / 1e9}Gbps {format_time(link.latency_ps).replace(' ', '')} 0"
            for a, b, link in links
        ),
    ]
    return "\n".join(lines) + "\n"
