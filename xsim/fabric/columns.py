"""The columns of a fabric while they grow: its links, and the vertices at which they start and end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Link, VertexKind
from xsim.spec.cluster import LinkSpec

__all__ = ["Columns"]


class Columns:
    """Links and vertices so far; the vertices of so many ranks, and of their multicast groups, are there at once."""

    def __init__(self, ranks: int) -> None:
        self.bandwidths: list[float] = []
        self.latencies: list[int] = []
        self.links: list[Link] = []
        self.kinds: list[VertexKind] = ["device"] * ranks
        self.kinds += ["multicast"] * ranks
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._names = [f"rank{rank}" for rank in range(ranks)] + [""] * ranks

    @property
    def starts(self) -> NDArray[np.int64]:
        """Vertex at which each link starts."""
        return np.array(self._starts, dtype=np.int64)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Vertex at which each link ends."""
        return np.array(self._ends, dtype=np.int64)

    def vertex(self, kind: VertexKind, name: str) -> int:
        """The number of a new one."""
        self.kinds.append(kind)
        self._names.append(name)
        return len(self._names) - 1

    def add(self, kind: str, start: int, end: int, bandwidth_bytes_per_s: float, latency_ps: int) -> int:
        """The number of a new link."""
        self.bandwidths.append(bandwidth_bytes_per_s)
        self.latencies.append(latency_ps)
        self.links.append(Link(f"{self._names[start]} -> {self._names[end]}", kind))
        self._starts.append(start)
        self._ends.append(end)
        return len(self.links) - 1

    def pair(self, kind: str, low: int, high: int, link: LinkSpec) -> int:
        """A link up and, next to it, one down; the number of the first."""
        up = self.add(kind, low, high, link.bandwidth_bytes_per_s, link.latency_ps)
        self.add(kind, high, low, link.bandwidth_bytes_per_s, link.latency_ps)
        return up
