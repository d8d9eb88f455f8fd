"""A transfer graph as a network runs it: rows with their paths, rates and latencies, worked out once per graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.traffic.stored import PacketSizes, Stored

__all__ = ["Compiled", "Compiler"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(eq=False)
class Compiled:
    """One graph on one fabric.

    Attributes:
        src_party, dst_party: Parties of each row's ranks, N; for a switch that of the other end.
        size_bytes: Of each row's own span, N.
        latency_ps: Of each row's path and protocol, and what it takes longer because packets are stored on their way,
            N.
        wire_ppm: Bytes on the wire per million of each row, N: those of the graph, and the headers of packets.
        bytes_per_ps: Rate of each row alone on its path, N; infinite without a link.
        path_ptr, path: Links of each row in CSR form.
        links: Sorted, distinct links of all rows.
        flows: How many, all rounds together.
        exclusive: No two rows have a link in common.
        idle: Bit mask of the parties that no row touches.
    """

    graph: TransferGraph
    src_party: Ints
    dst_party: Ints
    size_bytes: Ints
    latency_ps: Ints
    wire_ppm: Ints
    bytes_per_ps: Floats
    path_ptr: Ints
    path: Ints
    links: Ints
    flows: int
    exclusive: bool
    idle: int

    @cached_property
    def parties(self) -> int:
        """How many parties."""
        return self.graph.parties

    @cached_property
    def rows(self) -> int:
        """How many rows."""
        return self.graph.rows

    @cached_property
    def busy(self) -> int:
        """Bit mask of the parties that some row touches."""
        return ((1 << self.parties) - 1) & ~self.idle

    @cached_property
    def together(self) -> tuple[int, ...]:
        """Offsets of the releases if all parties are released in one instant."""
        return (0,) * self.parties

    @cached_property
    def partners(self) -> tuple[int, ...]:
        """Per party, the bit mask of parties with which it has a row in common; itself if a row is all its own."""
        masks = [0] * self.parties
        for src, dst in set(self._party_pairs):
            masks[src] |= 1 << dst
            masks[dst] |= 1 << src
        return tuple(masks)

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """Per party, the bit mask of parties without whose release it cannot be done."""
        masks = [1 << party for party in range(self.parties)]
        for (src, dst), needed in zip(self._party_pairs, self._row_needs(), strict=True):
            masks[src] |= needed
            masks[dst] |= needed
        return tuple(masks)

    @cached_property
    def _party_pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.src_party.tolist(), self.dst_party.tolist(), strict=True))

    def _row_needs(self) -> list[int]:
        needs: list[int] = []
        graph, pairs = self.graph, self._party_pairs
        while len(needs) < len(pairs):
            first = len(needs)
            count = max(1, int(graph.cycle_len[first]))
            own = []
            for row in range(first, first + count):
                mask = 1 << pairs[row][0] | 1 << pairs[row][1]
                for before in graph.predecessors(row).tolist():
                    mask |= needs[before]
                own.append(mask)
            width, rounds = 1, min(count, int(graph.rounds[first]))
            while width < rounds:  # a row's last round rests on the ``rounds`` rows up to it: double the window
                step = min(width, rounds - width)
                own = [mask | own[p - step] for p, mask in enumerate(own)]
                width += step
            needs += own
        return needs


class Compiler:
    """Compiles each graph object once; holds it, so that its identity stays its own.

    Args:
        sizes: Of the packets in which rows go, and which are stored on their way; None: rows go as a whole.
    """

    def __init__(self, fabric: Fabric, sizes: PacketSizes | None = None) -> None:
        self._fabric, self._stored = fabric, Stored(fabric, sizes) if sizes else None
        self._known: dict[TransferGraph, Compiled] = {}

    def __call__(self, graph: TransferGraph) -> Compiled:
        found = self._known.get(graph)
        if found is None:
            found = self._known[graph] = _compile(graph, self._fabric, self._stored)
        return found


def _compile(graph: TransferGraph, fabric: Fabric, stored: Stored | None) -> Compiled:
    routes = [fabric.route(src, dst) for src, dst in zip(graph.src.tolist(), graph.dst.tolist(), strict=True)]
    path_ptr = np.zeros(graph.rows + 1, dtype=np.int64)
    path_ptr[1:] = np.cumsum([len(route) for route in routes])
    path = np.fromiter(chain.from_iterable(routes), dtype=np.int64, count=int(path_ptr[-1]))
    travels = path_ptr[1:] > path_ptr[:-1]
    bytes_per_ps = np.full(graph.rows, np.inf)
    if len(path):
        slowest = np.minimum.reduceat(fabric.bandwidth_bytes_per_s[path], path_ptr[:-1][travels])
        bytes_per_ps[travels] = slowest * 1e-12
    wire_ppm, delay_ps = graph.wire_ppm, graph.delay_ps
    if stored is not None:
        wire_ppm, stored_ps = stored(graph, path_ptr, path, bytes_per_ps)
        delay_ps = delay_ps + stored_ps
    latency_before_ps = np.concatenate(([0], np.cumsum(fabric.latency_ps[path])))
    src_party, dst_party = _parties(graph)
    touched = {*src_party.tolist(), *dst_party.tolist()}
    links = np.unique(path)
    return Compiled(
        graph=graph,
        src_party=src_party,
        dst_party=dst_party,
        size_bytes=graph.stop - graph.start,
        latency_ps=latency_before_ps[path_ptr[1:]] - latency_before_ps[path_ptr[:-1]] + delay_ps,
        wire_ppm=wire_ppm,
        bytes_per_ps=bytes_per_ps,
        path_ptr=path_ptr,
        path=path,
        links=links,
        flows=int(graph.rounds.sum()),
        exclusive=len(links) == len(path),
        idle=sum(1 << party for party in range(graph.parties) if party not in touched),
    )


def _parties(graph: TransferGraph) -> tuple[Ints, Ints]:
    """Of each row the parties of its source and its target, of which one may be a switch."""
    src_at, dst_at = np.searchsorted(graph.ranks, graph.src), np.searchsorted(graph.ranks, graph.dst)
    of_rank = np.append(graph.party, -1)  # the vertices of switches are beyond all ranks
    src, dst = of_rank[src_at], of_rank[dst_at]
    return np.where(src < 0, dst, src), np.where(dst < 0, src, dst)
