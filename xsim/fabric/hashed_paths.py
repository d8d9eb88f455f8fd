"""Where paths divide, a hash of the flow decides: equal-cost paths as the switches of the HPCC simulator take them.

A switch hashes (source address, target address, both ports) with MurmurHash3 and its own number as the seed, and takes
that of its next hops, in the order of ``Graph.next_hops``, which the hash comes to when it is divided by how many there
are. The source port counts the flows of a pair of hosts as they start. Acknowledgements have both pairs exchanged, and
so a path of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph

__all__ = ["FIRST_PORT", "Hops", "Paths", "Search", "murmur3_32", "paths_of"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint32]

FIRST_PORT = 10_000  # the source port of the first flow of a pair of vertices; the next ones count up
_HOST_SEED = 0x8BADF00D  # of ns-3's Hash32, with which a host of several ports chooses one
_PORTS = 2**16


class Paths(NamedTuple):
    """Directed links that N flows cross, in CSR form: those of flow i are ``links[ptr[i]:ptr[i + 1]]``, in order."""

    ptr: Ints
    links: Ints


def paths_of(graph: Graph, flows: FlowList, preferred: frozenset[int] = frozenset()) -> tuple[Paths, Paths]:
    """The paths of the flows' data, and of their acknowledgements.

    Args:
        preferred: Where a next hop leads to one of these switches, those that do not are left out: the NVSwitches of a
            server.

    Raises:
        SpecError: An end of a flow is no host, or no path leads from one to the other.

    Cost: one search of the graph per target, or per switch with targets that hang on it alone; no table of pairs.
    """
    _check_ends(graph, flows)
    port = (FIRST_PORT + _earlier(flows)) % _PORTS
    ends = (np.concatenate((flows.src, flows.dst)), np.concatenate((flows.dst, flows.src)))
    ports = np.concatenate((port | flows.port << 16, flows.port | port << 16))
    keys = np.stack([_address(ends[0]), _address(ends[1]), ports.astype(np.uint32)], axis=1)
    steps = _walk(graph, ends[0], ends[1], keys, preferred)
    for row in np.flatnonzero(steps[:, 0] < 0)[:1].tolist():
        ways = f"{ends[0][row]} -> {ends[1][row]}"
        name = f"flow {flows.number[row % len(flows)]}"
        raise SpecError(name, ways, "no path leads there", "join the two in the topology, or leave the flow out")
    return _in_csr(steps[: len(flows)]), _in_csr(steps[len(flows) :])


def _check_ends(graph: Graph, flows: FlowList) -> None:
    host = np.ones(graph.vertices, dtype=bool)
    host[[*graph.switches]] = False
    for ends in (flows.src, flows.dst):
        known = ends < graph.vertices
        for row in np.flatnonzero(~(known & host[np.where(known, ends, 0)]))[:1].tolist():
            problem = "it is a switch" if known[row] else f"there are {graph.vertices} vertices"
            fix = "name a host of the topology"
            raise SpecError(f"flow {flows.number[row]}", int(ends[row]), f"it is no host: {problem}", fix)


def _earlier(flows: FlowList) -> Ints:
    """How many flows of the same pair of vertices start before each, as far as the list tells: who waits for longer
    chains of others starts later, then who waits longer, then who is listed later."""
    order = np.lexsort((flows.start_ps, flows.depths(), flows.dst, flows.src))
    src, dst = flows.src[order], flows.dst[order]
    place = np.arange(len(flows))
    begins = np.concatenate(([True], (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])))[: len(flows)]
    found = np.empty(len(flows), dtype=np.int64)
    found[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return found


def _address(vertices: Ints) -> Words:
    """IP addresses: 11.0.0.1 for vertex 0, the last byte stays 1."""
    return (0x0B000001 + (vertices // 256 << 16) + (vertices % 256 << 8)).astype(np.uint32)


def murmur3_32(keys: Words, seeds: Words) -> Words:
    """MurmurHash3_x86_32 of N keys of W whole words, N x W, each with its own seed, N."""
    h = seeds.copy()
    for k in keys.T:
        k = k * np.uint32(0xCC9E2D51)  # noqa: PLW2901
        k = (k << np.uint32(15) | k >> np.uint32(17)) * np.uint32(0x1B873593)  # noqa: PLW2901
        h ^= k
        h = (h << np.uint32(13) | h >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4 * keys.shape[1])
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return h ^ h >> np.uint32(16)


class Hops(NamedTuple):
    """Links out of each vertex that begin shortest paths to a target: those of v are ``ptr[v]..ptr[v + 1]``."""

    ptr: Ints
    link: Ints
    end: Ints


class Search:
    """``Graph.next_hops`` of all vertices at once, in the same order; nothing is kept."""

    def __init__(self, graph: Graph, preferred: frozenset[int]) -> None:
        ends = np.array([(cable.a, cable.b) for cable in graph.cables], dtype=np.int64).reshape(-1, 2)
        start, end = ends.ravel(), ends[:, ::-1].ravel()
        order: Ints = np.lexsort((-end, start))  # stable: parallel cables stay in the order of their ports
        self._link, self._end = order, end[order]
        self._ptr = np.searchsorted(start[order], np.arange(graph.vertices + 1))
        self._forwards = np.zeros(graph.vertices, dtype=bool)
        self._forwards[[*graph.switches]] = True
        self._preferred = np.zeros(graph.vertices, dtype=bool)
        self._preferred[[*preferred]] = True

    def roots(self, targets: Ints) -> Ints:
        """Per target the switch that all of its cables lead to: ways to both are the same up to there; else itself."""
        first, last = self._ptr[targets], self._ptr[targets + 1] - 1
        if not len(self._end):
            return targets
        near = self._end[np.minimum(first, last)]
        alone = (last >= first) & (near == self._end[last]) & self._forwards[near]
        return np.where(alone, near, targets)

    def choices(self, keys: Words, at: Ints, width: Ints) -> Ints:
        """Which of ``width`` next hops each of the vertices ``at`` takes for its key."""
        seeds = np.where(self._forwards[at], at, _HOST_SEED).astype(np.uint32)
        found: Ints = murmur3_32(keys, seeds) % width
        return found

    def last_links(self, keys: Words, roots: Ints, targets: Ints) -> Ints:
        """From the root to the target."""
        first = self._ptr[targets]
        links: Ints = self._link[first + self.choices(keys, roots, self._ptr[targets + 1] - first)] ^ 1
        return links

    def toward(self, target: int) -> Hops:
        """Those of all vertices."""
        distance = np.full(len(self._forwards), -1)
        distance[target] = 0
        level, found = np.array([target]), []
        while len(level):
            near, link, far = self._around(level)
            fresh = far[distance[far] < 0]
            distance[fresh] = distance[level[0]] + 1
            closer = distance[far] == distance[level[0]] + 1
            found.append((near[closer], link[closer], far[closer]))
            level = fresh[np.sort(np.unique(fresh, return_index=True)[1])]
            level = level[self._forwards[level]]
        return self._hops(*map(np.concatenate, zip(*found, strict=True)))

    def _around(self, level: Ints) -> tuple[Ints, Ints, Ints]:
        """(vertex, link, other end) of all links out of ``level``, vertex by vertex."""
        counts = self._ptr[level + 1] - self._ptr[level]
        first = np.cumsum(counts) - counts
        at = np.arange(counts.sum()) + np.repeat(self._ptr[level] - first, counts)
        return np.repeat(level, counts), self._link[at], self._end[at]

    def _hops(self, near: Ints, link: Ints, far: Ints) -> Hops:
        """By vertex: links back from ``far`` to ``near``, only those to preferred switches where there are any."""
        better = self._preferred[near]
        has_better = np.zeros(len(self._forwards), dtype=bool)
        has_better[far[better]] = True
        kept = better | ~has_better[far]
        order = np.flatnonzero(kept)[np.argsort(far[kept], kind="stable")]
        ptr = np.searchsorted(far[order], np.arange(len(self._forwards) + 1))
        return Hops(ptr, link[order] ^ 1, near[order])


def _walk(graph: Graph, src: Ints, dst: Ints, keys: Words, preferred: frozenset[int]) -> Ints:
    """N x H links, -1 behind the last of each path; all -1 if there is no path."""
    search = Search(graph, preferred)
    steps = np.full((len(src), 1), -1)
    roots = search.roots(dst)
    for rows in _groups(roots):
        hops = search.toward(roots[rows[0]])
        at, step = src[rows], 0
        while True:
            width = hops.ptr[at + 1] - hops.ptr[at]
            rows, at, width = rows[width > 0], at[width > 0], width[width > 0]  # noqa: PLW2901
            if not len(rows):
                break
            if step == steps.shape[1]:
                steps = np.concatenate((steps, np.full_like(steps, -1)), axis=1)
            chosen = hops.ptr[at] + search.choices(keys[rows], at, width)
            steps[rows, step] = hops.link[chosen]
            at, step = hops.end[chosen], step + 1
    last = np.flatnonzero((roots != dst) & (steps[:, 0] >= 0))
    steps = np.concatenate((steps, np.full((len(src), 1), -1)), axis=1)
    steps[last, np.argmin(steps[last], axis=1)] = search.last_links(keys[last], roots[last], dst[last])
    return steps


def _groups(labels: Ints) -> list[Ints]:
    """Rows by equal label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(labels) else []


def _in_csr(steps: Ints) -> Paths:
    crossed = steps >= 0
    return Paths(np.concatenate(([0], np.cumsum(crossed.sum(axis=1)))), steps[crossed])
