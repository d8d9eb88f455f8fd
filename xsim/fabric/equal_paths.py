"""All shortest paths of flows over the cables of a graph, beside the one that a hash takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Route
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import Paths, Search

__all__ = ["PathSets", "path_sets"]

Ints = NDArray[np.int64]


class PathSets(NamedTuple):
    """Paths of N flows: flow i may take each of ``sets[of_flow[i]]``, sorted."""

    sets: list[tuple[Route, ...]]
    of_flow: Ints


def path_sets(
    graph: Graph, hashed: Paths, dst: Ints, preferred: frozenset[int], sample: Callable[[int], list[int]]
) -> PathSets:
    """Of each flow the shortest paths that leave and enter its hosts by the cables that the hash has chosen.

    A target with cables to several switches is entered by any of them.

    Args:
        hashed: A path of each flow.
        dst: Where it ends.
        sample: Which of so many paths to take.
    """
    search = Search(graph, preferred)
    ends = np.array([(cable.b, cable.a) for cable in graph.cables], dtype=np.int64).ravel()
    first, last = hashed.links[hashed.ptr[:-1]], hashed.links[hashed.ptr[1:] - 1]
    roots, starts = search.roots(dst), ends[first]
    keys = np.stack((roots, starts, first, np.where(roots == dst, -1, last)), axis=1)
    distinct, of_flow = np.unique(keys, axis=0, return_inverse=True)
    sets: list[tuple[Route, ...]] = []
    inner: dict[int, tuple[Route, ...]] = {}
    before = -1
    for root, start, out, into in distinct.tolist():
        if root != before:
            toward, inner, before = _Toward(search, root), {}, root
        if start not in inner:
            inner[start] = tuple(toward.path(start, choice) for choice in sample(toward.count(start)))
        tail = (into,) if into >= 0 else ()
        sets.append(tuple(sorted((out, *path, *tail) for path in inner[start])))
    return PathSets(sets, of_flow.reshape(-1))


class _Toward:
    """The shortest paths to one vertex."""

    def __init__(self, search: Search, target: int) -> None:
        hops = search.toward(target)
        self._ptr, self._link, self._end = hops.ptr.tolist(), hops.link.tolist(), hops.end.tolist()
        self._target = target
        self._counts: dict[int, int] = {target: 1}

    def count(self, vertex: int) -> int:
        """How many lead from there."""
        if vertex not in self._counts:
            hops = range(self._ptr[vertex], self._ptr[vertex + 1])
            self._counts[vertex] = sum(self.count(self._end[hop]) for hop in hops)
        return self._counts[vertex]

    def path(self, vertex: int, choice: int) -> Route:
        """One of them."""
        links: list[int] = []
        while vertex != self._target:
            for hop in range(self._ptr[vertex], self._ptr[vertex + 1]):
                if choice < self.count(self._end[hop]):
                    links.append(self._link[hop])
                    vertex = self._end[hop]
                    break
                choice -= self.count(self._end[hop])
        return tuple(links)
