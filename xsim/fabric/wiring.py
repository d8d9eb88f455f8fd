"""From racks to wires: what every topology has in common.

A path is one of

    rank to itself          nothing
    same scale-up domain    scale-up out of the source, into the target (``full_mesh``: one direct link)
    same host otherwise     PCIe out of the source, [up to the smallest block with both, down,] PCIe into the target
    other host              PCIe out, [up,] NIC out, [from switch to switch,] NIC in, [down,] PCIe in; between planes
                            with a way to or from another NIC inside one host: see ``SamePlane``
    to and from a switch    scale-up out of the rank, scale-up into it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xsim.fabric.columns import Columns
from xsim.fabric.doors import Doors, OwnNic, SamePlane
from xsim.fabric.fabric import Fabric, Gate, Route
from xsim.fabric.inside import Inside, wire_hosts
from xsim.fabric.scale_out import Paths, ScaleOut
from xsim.spec.cluster import ClusterSpec

__all__ = ["wire"]


def wire(cluster: ClusterSpec, scale_out: ScaleOut, plane_of_port: Sequence[int] | None = None) -> Fabric:
    """The fabric of ``cluster`` with its NICs on the switches of ``scale_out``.

    Cost: a few microseconds per device and trunk.

    Args:
        plane_of_port: The plane of each NIC, where no path joins the switches of two planes: see ``SamePlane``.
    """
    columns = Columns(cluster.ranks)
    switches = [columns.vertex("switch", name) for name in scale_out.names]
    up: list[list[int]] = [[] for _ in switches]
    down: list[list[int]] = [[] for _ in switches]
    for trunk in scale_out.trunks:
        link = columns.pair("spine", switches[trunk.a], switches[trunk.b], trunk.link)
        for switch, way in ((trunk.a, 0), (trunk.b, 1)):
            up[switch].append(link + way)
            down[switch].append(link + 1 - way)
    inside = wire_hosts(columns, cluster, [switches[switch] for switch in scale_out.of_port])
    leaf = [scale_out.of_port[port] for port in inside.port]
    doors: Doors = OwnNic(inside, leaf)
    if plane_of_port is not None:
        doors = SamePlane.of(inside, scale_out.of_port, plane_of_port)
    leaves = frozenset(leaf)
    tiered = plane_of_port is None and not any(trunk.a in leaves and trunk.b in leaves for trunk in scale_out.trunks)
    ways = _Ways(inside, doors, scale_out.paths, leaf, up, down, tiered)
    switched = zip(inside.domain, inside.scale_up, strict=True)
    return Fabric(
        bandwidth_bytes_per_s=np.array(columns.bandwidths, dtype=np.float64),
        latency_ps=np.array(columns.latencies, dtype=np.int64),
        links=tuple(columns.links),
        hosts=tuple(inside.host),
        router=ways,
        alternatives=ways,
        gates=ways.gate,
        switches=tuple(number if link >= 0 else -1 for number, link in switched),
        start=columns.starts,
        end=columns.ends,
        vertices=tuple(columns.kinds),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """The router.

    Attributes:
        leaf: Per rank the switch of its NIC.
        up, down: Per switch the links to and from other switches.
        tiered: Whether a path between switches with NICs has a switch without in between, and so two links or more.
    """

    inside: Inside
    doors: Doors
    paths: Paths
    leaf: Sequence[int]
    up: Sequence[Sequence[int]]
    down: Sequence[Sequence[int]]
    tiered: bool

    def __call__(self, src: int, dst: int) -> Route:
        if self._near(src, dst):
            return () if src == dst else self.inside.way(src, dst)
        out, start, end, into = self.doors.ends(src, dst)
        return out + into if start == end else (*out, *self.paths.hashed(start, end, src, dst), *into)

    def choices(self, src: int, dst: int) -> int:
        if self._near(src, dst):
            return 1
        _, start, end, _ = self.doors.ends(src, dst)
        return 1 if start == end else self.paths.choices(start, end)

    def chosen(self, src: int, dst: int, choice: int) -> Route:
        if self._near(src, dst):
            return self(src, dst)
        out, start, end, into = self.doors.ends(src, dst)
        return out + into if start == end else (*out, *self.paths.chosen(start, end, choice), *into)

    def gate(self, rank: int) -> Gate:
        """What all routes of ``rank`` to other hosts have in common.

        Of switches that are joined to each other, without tiers, nothing is promised: a path of one link would be both
        up and down.
        """
        out, into = self.doors.common(rank)
        if not self.tiered:
            return Gate(out, into)
        leaf = self.leaf[rank]
        return Gate(out, into, leaf, self.up[leaf], self.down[leaf])

    def _near(self, src: int, dst: int) -> bool:
        """Whether both are on one host, or one is a multicast group of it."""
        hosts = self.inside.host
        return max(src, dst) >= len(hosts) or hosts[src] == hosts[dst]
