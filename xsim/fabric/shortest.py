"""Shortest paths over switches whose graph has no structure to compute them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Route
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.scale_out import Trunk

__all__ = ["ShortestPaths", "graph_of"]


def graph_of(switches: int, trunks: Sequence[Trunk]) -> Graph:
    """The switches and what lies between them; cable i is trunk i."""
    cables = [Cable(a, b, round(8 * link.bandwidth_bytes_per_s), link.latency_ps) for a, b, link in trunks]
    return Graph(switches, frozenset(range(switches)), tuple(cables))


@dataclass(frozen=True, slots=True, eq=False)
class ShortestPaths:
    """Every shortest path is a choice; a hash chooses anew at every switch, among the next hops of ``Graph``.

    Next hops and numbers of paths are found once per switch at which traffic ends, as soon as there is some.
    """

    graph: Graph
    _counts: dict[int, dict[int, int]] = field(default_factory=dict)

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        route: list[int] = []
        while start != end:
            hops = self.graph.next_hops(start, end)
            link, start = hops[ecmp(src, dst, len(hops), len(route))]
            route.append(link)
        return tuple(route)

    def choices(self, start: int, end: int) -> int:
        return self._count(start, end, self._counts.setdefault(end, {end: 1}))

    def chosen(self, start: int, end: int, choice: int) -> Route:
        route: list[int] = []
        while start != end:
            for link, far in self.graph.next_hops(start, end):
                if choice < self.choices(far, end):
                    route.append(link)
                    start = far
                    break
                choice -= self.choices(far, end)
        return tuple(route)

    def _count(self, start: int, end: int, known: dict[int, int]) -> int:
        """Shortest paths from ``start`` to ``end``; ``known`` of other switches to the same end."""
        if start not in known:
            known[start] = sum(self._count(hop.end, end, known) for hop in self.graph.next_hops(start, end))
        return known[start]
