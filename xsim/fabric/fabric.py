"""The wires as columns, and the way from rank to rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.transfers import TransferGraph
from xsim.spec.cluster import ClusterSpec

__all__ = ["Alternatives", "Fabric", "Gate", "Link", "Route", "Topology", "VertexKind"]

Route = tuple[int, ...]  # of links
VertexKind = Literal["device", "multicast", "pcie", "nic", "scale_up", "switch"]


@dataclass(frozen=True, slots=True)
class Link:
    """One directed link, for people: its name and what kind of wire it is.

    Attributes:
        kind: ``scale_up``, ``pcie``, ``nic``; ``spine`` between two switches of the network.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Gate:
    """How a rank is tied to other hosts: what its routes to all of them have in common.

    Attributes:
        out: Links with which every route to another host begins, in order.
        into: Links with which every route from another host ends, in order.
        leaf: Number of the switch in between. A route to another host under the same leaf has no further links; any
            other goes on with one of ``up`` of the source and comes in by one of ``down`` of the target, another link.
        up, down: Links from and to the leaf, the same for all ranks under it. Where none are named, nothing is promised
            of what lies in between; no rank of the fabric names any then, and all have one number of leaf.
    """

    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()
    leaf: int = 0
    up: Sequence[int] = ()
    down: Sequence[int] = ()


class Alternatives(Protocol):
    """The paths that the switches may choose from for each packet."""

    def choices(self, src: int, dst: int) -> int:
        """How many there are from rank ``src`` to rank ``dst``, at least 1; the route that a hash takes is one."""

    def chosen(self, src: int, dst: int, choice: int) -> Route:
        """Each of them, for 0..``choices``."""


def _unknown(_: int) -> Gate:
    return Gate()


def _unnumbered() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Directed links in columns of length L, and routes over them.

    A topology builds it. Routes are computed on demand (about 1 us each) and not kept: there is no N x N table, and
    who needs a route often compiles it into his own columns.

    Vertices are numbered. 0..N are the N ranks. N..2 N are multicast groups: vertex N + r is one of the scale-up
    switch that rank r hangs on. It sums what several ranks send for one of them, or multicasts what one sends to
    several; see ``switch_for``. From 2 N on come the others at which links start and end: the PCIe switches and roots,
    NICs and scale-up switches of the hosts, and the switches between hosts. A link to or from a multicast group has
    the switch itself at its end. A NIC is in the PCIe switch that it hangs on: no link lies between the two.

    Attributes:
        bandwidth_bytes_per_s: float64, L.
        latency_ps: int64, L.
        links: L names and kinds.
        hosts: Host of each rank.
        router: Link indices from one rank to another, in order; empty for a rank to itself. Also from a rank to a
            vertex of its switch, and back. Deterministic: where there are several paths a hash of the two has chosen.
        alternatives: All of them; absent where each route is the only one.
        switches: Of each rank the number of the scale-up switch that it hangs on, -1 without; empty if there is none.
        gates: The gate of each rank; where it names no links it promises nothing.
        start, end: Vertex at which each link starts and ends, int64, L; of length 0 where the links of a fabric are
            known, but not what they join.
        vertices: Kind of each vertex. Links that start at one ``switch`` or ``scale_up`` are the output ports of that
            switch.
    """

    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    links: tuple[Link, ...]
    hosts: tuple[int, ...]
    router: Callable[[int, int], Route]
    gates: Callable[[int], Gate] = _unknown
    switches: tuple[int, ...] = ()
    start: NDArray[np.int64] = field(default_factory=_unnumbered)
    end: NDArray[np.int64] = field(default_factory=_unnumbered)
    vertices: tuple[VertexKind, ...] = ()
    alternatives: Alternatives | None = None

    def route(self, src: int, dst: int, choice: int | None = None) -> Route:
        """Link indices of the path from rank ``src`` to rank ``dst``; one of them may be a vertex of a switch.

        Args:
            choice: Which of the ``choices`` of the pair, from 0; absent: the one that a hash of the two takes.
        """
        if choice is None or self.alternatives is None:
            return self.router(src, dst)
        return self.alternatives.chosen(src, dst, choice)

    def choices(self, src: int, dst: int) -> int:
        """How many paths of equal standing lead from ``src`` to ``dst``: what spraying spreads packets over."""
        return 1 if self.alternatives is None else self.alternatives.choices(src, dst)

    def gate(self, rank: int) -> Gate:
        """How ``rank`` is tied to other hosts."""
        return self.gates(rank)

    def switch_for(self, ranks: Sequence[int]) -> int | None:
        """The vertex that sums and multicasts for ``ranks``, None if no one switch joins them.

        Groups that have no rank in common have different vertices.
        """
        joined = {self.switches[rank] for rank in ranks} if self.switches else {-1}
        return None if len(joined) > 1 or -1 in joined else len(self.hosts) + min(ranks)

    def path_latency_ps(self, src: int, dst: int) -> int:
        """Sum of the latencies on the path."""
        return sum(int(self.latency_ps[link]) for link in self.route(src, dst))

    def path_bandwidth_bytes_per_s(self, src: int, dst: int) -> float:
        """The smallest bandwidth on the path; infinite from a rank to itself."""
        return min((float(self.bandwidth_bytes_per_s[link]) for link in self.route(src, dst)), default=float("inf"))

    def links_of(self, graph: TransferGraph) -> frozenset[int]:
        """All links that some row of ``graph`` uses."""
        pairs = set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
        return frozenset(link for src, dst in pairs for link in self.route(src, dst))


class Topology(Protocol):
    """How the hosts of a cluster are joined."""

    def build(self, cluster: ClusterSpec) -> Fabric:
        """All wires of ``cluster``, with a route between any two ranks. Raises SpecError if it cannot be built."""
