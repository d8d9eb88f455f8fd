"""The wires as columns, and the way from rank to rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.transfers import TransferGraph

__all__ = ["Fabric", "Link"]


@dataclass(frozen=True, slots=True)
class Link:
    """One directed link, for people: its name and what kind of wire it is.

    Attributes:
        kind: ``scale_up``, ``pcie``, ``nic``, ``spine``.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Directed links in columns of length L, and routes over them.

    A topology builds it. Routes are computed on demand: there is no N x N table.

    Attributes:
        bandwidth_bytes_per_s: float64, L.
        latency_ps: int64, L.
        links: L names and kinds.
        hosts: Host of each rank.
        router: Link indices from one rank to another, in order; empty for a rank to itself. Deterministic.
    """

    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    links: tuple[Link, ...]
    hosts: tuple[int, ...]
    router: Callable[[int, int], tuple[int, ...]]
    _routes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices of the path from rank ``src`` to rank ``dst``."""
        key = (src, dst)
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = self.router(src, dst)
        return found

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
