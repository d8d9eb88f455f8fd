"""The wires as columns, and the way from rank to rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.transfers import TransferGraph
from xsim.spec.cluster import ClusterSpec

__all__ = ["Fabric", "Gate", "Link", "Topology"]


@dataclass(frozen=True, slots=True)
class Link:
    """One directed link, for people: its name and what kind of wire it is.

    Attributes:
        kind: ``scale_up``, ``pcie``, ``nic``, ``spine``.
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
            other crosses one of ``up`` of the source and one of ``down`` of the target.
        up, down: Links from and to the leaf, the same for all ranks under it. Where none are named, nothing is promised
            of what lies in between; no rank of the fabric names any then, and all have one number of leaf.
    """

    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()
    leaf: int = 0
    up: Sequence[int] = ()
    down: Sequence[int] = ()


def _unknown(_: int) -> Gate:
    return Gate()


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Directed links in columns of length L, and routes over them.

    A topology builds it. Routes are computed on demand (about 1 us each) and not kept: there is no N x N table, and
    who needs a route often compiles it into his own columns.

    Besides the N ranks, which are 0..N, there are vertices N..2 N: vertex N + r is a multicast group of the scale-up
    switch that rank r hangs on. It sums what several ranks send for one of them, or multicasts what one sends to
    several. See ``switch_for``.

    Attributes:
        bandwidth_bytes_per_s: float64, L.
        latency_ps: int64, L.
        links: L names and kinds.
        hosts: Host of each rank.
        router: Link indices from one rank to another, in order; empty for a rank to itself. Also from a rank to a
            vertex of its switch, and back. Deterministic.
        switches: Of each rank the number of the scale-up switch that it hangs on, -1 without; empty if there is none.
        gates: The gate of each rank; where it names no links it promises nothing.
    """

    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    links: tuple[Link, ...]
    hosts: tuple[int, ...]
    router: Callable[[int, int], tuple[int, ...]]
    gates: Callable[[int], Gate] = _unknown
    switches: tuple[int, ...] = ()

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices of the path from rank ``src`` to rank ``dst``; one of them may be a vertex of a switch."""
        return self.router(src, dst)

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
