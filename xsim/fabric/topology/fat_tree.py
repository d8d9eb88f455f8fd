"""Three tiers of switches in pods: edge, aggregation, core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Route
from xsim.fabric.scale_out import Port, ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least, at_most, plausible
from xsim.spec.cluster import ClusterSpec, LinkSpec

__all__ = ["FatTree"]


@dataclass(frozen=True, slots=True)
class FatTree:
    """The k-ary fat tree (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008), or one with counts of its own.

    NICs fill one edge switch after another. A pod has edge switches, each with a link to each of its aggregation
    switches; the n-th aggregation switch of every pod has a link to each core switch of group n. There are as many
    pods as the NICs need. ECMP chooses the aggregation switch, and then the core switch.

    Attributes:
        k: Ports of a switch, half of them up, and the most pods. If absent the fewest that have room for all NICs.
        edge_nics: NICs under an edge switch. If absent k / 2, as all of the following.
        pod_edges: Edge switches of a pod.
        pod_aggregations: Aggregation switches of a pod.
        aggregation_cores: Core switches above an aggregation switch.
        oversubscription: NIC bandwidth under an edge switch over that of its uplinks. If set, these are made that wide,
            instead of what ``scale_out.uplink`` says, and those of aggregation switches carry all that comes from
            below; 1 is a full bisection.
    """

    k: int | None = None
    edge_nics: int | None = None
    pod_edges: int | None = None
    pod_aggregations: int | None = None
    aggregation_cores: int | None = None
    oversubscription: float | None = None

    def __post_init__(self) -> None:
        for name in ("k", "edge_nics", "pod_edges", "pod_aggregations", "aggregation_cores"):
            if getattr(self, name) is not None:
                at_least(self, name, 2 if name == "k" else 1)
                at_most(self, name, 1024)
        if self.k is not None and self.k % 2:
            raise SpecError("k", self.k, "half of a switch's ports go up and half down", f"write {self.k + 1}")
        if self.oversubscription is not None:
            plausible(self, "oversubscription", 1e-3, 1e6, "0.001 to 1e6")

    def build(self, cluster: ClusterSpec) -> Fabric:
        nics = ports(cluster)
        k = self.k or next(k for k in count(2, 2) if self._room(k) >= len(nics))
        if self._room(k) < len(nics):
            problem = f"there is room for {self._room(k)} NICs, and the cluster has {len(nics)}"
            raise SpecError("topology.k", k, problem, "write a larger one, or leave it out")
        below = self.edge_nics or k // 2
        edges = self.pod_edges or k // 2
        tree = _Tree(
            pods=-(-len(nics) // (below * edges)),
            edges=edges,
            aggregations=self.pod_aggregations or k // 2,
            cores=self.aggregation_cores or k // 2,
        )
        check_trunks(tree.pods * tree.aggregations * (tree.edges + tree.cores), "k", k)
        edge_of_port = [number // below for number in range(len(nics))]
        uplinks = self._uplinks(cluster.scale_out.uplink, nics, edge_of_port, tree)
        return wire(cluster, ScaleOut(tree.names(), tree.trunks(*uplinks), edge_of_port, tree))

    def _room(self, k: int) -> int:
        return k * (self.pod_edges or k // 2) * (self.edge_nics or k // 2)

    def _uplinks(
        self, link: LinkSpec, nics: Sequence[Port], edge_of_port: Sequence[int], tree: _Tree
    ) -> tuple[list[LinkSpec], list[LinkSpec]]:
        """One uplink of each edge switch, and one of each pod's aggregation switches."""
        if self.oversubscription is None:
            return [link] * (tree.pods * tree.edges), [link] * tree.pods
        widths = [0.0] * (tree.pods * tree.edges)
        for edge, port in zip(edge_of_port, nics, strict=True):
            widths[edge] += port.nic.bandwidth_bytes_per_s / (self.oversubscription * tree.aggregations)
        full = max(widths)
        widths = [width or full for width in widths]  # of an edge switch without NICs
        pods = [sum(widths[pod * tree.edges : (pod + 1) * tree.edges]) / tree.cores for pod in range(tree.pods)]
        return [replace(link, bandwidth_bytes_per_s=width) for width in widths], [
            replace(link, bandwidth_bytes_per_s=width) for width in pods
        ]


@dataclass(frozen=True, slots=True)
class _Tree:
    """Counts of the tree, and the paths in it: all edge switches first, then the aggregation and the core switches.

    Attributes:
        edges, aggregations: Of each pod.
        cores: Above each aggregation switch.
    """

    pods: int
    edges: int
    aggregations: int
    cores: int

    def names(self) -> list[str]:
        return [
            *(f"pod{pod}.edge{edge}" for pod in range(self.pods) for edge in range(self.edges)),
            *(f"pod{pod}.aggregation{number}" for pod in range(self.pods) for number in range(self.aggregations)),
            *(f"core{number}" for number in range(self.aggregations * self.cores)),
        ]

    def trunks(self, of_edges: Sequence[LinkSpec], of_pods: Sequence[LinkSpec]) -> list[Trunk]:
        """Those of edge switches, then those of aggregation switches, each in the order of the switch above."""
        first = self.pods * self.edges
        core = first + self.pods * self.aggregations
        return [
            Trunk(edge, first + edge // self.edges * self.aggregations + number, link)
            for edge, link in enumerate(of_edges)
            for number in range(self.aggregations)
        ] + [
            Trunk(first + pod * self.aggregations + number, core + number * self.cores + above, link)
            for pod, link in enumerate(of_pods)
            for number in range(self.aggregations)
            for above in range(self.cores)
        ]

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self._path(start, end, ecmp(src, dst, self.aggregations), ecmp(src, dst, self.cores, hop=1))

    def choices(self, start: int, end: int) -> int:
        return self.aggregations * (1 if start // self.edges == end // self.edges else self.cores)

    def chosen(self, start: int, end: int, choice: int) -> Route:
        return self._path(start, end, choice % self.aggregations, choice // self.aggregations)

    def _path(self, start: int, end: int, aggregation: int, core: int) -> Route:
        up, down = 2 * (start * self.aggregations + aggregation), 2 * (end * self.aggregations + aggregation) + 1
        if start // self.edges == end // self.edges:
            return up, down
        here, there = (
            2 * self.aggregations * self.pods * self.edges
            + 2 * ((edge // self.edges * self.aggregations + aggregation) * self.cores + core)
            for edge in (start, end)
        )
        return up, here, there + 1, down
