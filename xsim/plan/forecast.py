"""How long a transfer graph takes, roughly: the latencies and the bytes of its longest way, without simulating it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import PAYLOAD_PPM, TransferGraph

__all__ = ["Forecast"]

TOGETHER = 0.01  # of the whole time: rows that start no further apart start together

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """What the forecasts of one graph have in common, whatever its protocol.

    Rows that are as many predecessors from the beginning run side by side: each link needs the time of all their
    bytes, and a row, in each round, its delay, the latency of its way, and the time of the busiest link on it. The
    rows of a cycle go at the pace of the slowest of them. The forecast is the longest chain of rows.

    Where all rows of such a level start and end together this is what a network of fair links takes; else it is near.
    All links of a kind that the graph uses are taken to have the least rate among them, ``alike`` if that is true: so
    does NCCL's tuner, which knows one rate inside of hosts and one between them, the least that any rank has found
    (``initTransportsRank`` in https://github.com/NVIDIA/nccl/blob/master/src/init.cc).

    Attributes:
        level: Of each row, N.
        cycle: The first row of each row's cycle, itself for a plain row, N.
        sizes: Mean bytes of a round of each row, N.
        latency_ps: Of each row's path, N.
        row: Of each hop, in order of rows, M.
        wire: Of each hop, which link at which level, M.
        byte_ps: Of each hop's link, M.
        alike: Whether links of a kind have one rate.
    """

    graph: TransferGraph
    level: Ints
    cycle: Ints
    sizes: Floats
    latency_ps: Ints
    row: Ints
    wire: Ints
    byte_ps: Floats
    alike: bool

    @classmethod
    def of(cls, graph: TransferGraph, fabric: Fabric, element_bytes: int = 1) -> Forecast:
        """Of a graph whose spans are in elements of so many bytes.

        Cost: 1 to 5 us per row, most of it for routes and levels.
        """
        level = np.array(_levels(graph), dtype=np.int64)
        cycle = np.where(graph.cycle_len > 0, graph.cycle_base, np.arange(graph.rows))
        members = np.bincount(cycle, minlength=graph.rows)
        sizes = np.bincount(
            cycle, weights=(graph.stop - graph.start) * element_bytes, minlength=graph.rows
        ) / np.maximum(members, 1)
        pairs = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
        paths = {pair: fabric.route(*pair) for pair in set(pairs)}
        routes = [paths[pair] for pair in pairs]
        row = np.repeat(np.arange(graph.rows), [len(route) for route in routes])
        path = np.fromiter(chain.from_iterable(routes), dtype=np.int64, count=len(row))
        links = len(fabric.bandwidth_bytes_per_s)
        rates = _least_rates(fabric, path)
        return cls(
            graph=graph,
            level=level,
            cycle=cycle,
            sizes=sizes[cycle],
            latency_ps=np.bincount(row, weights=fabric.latency_ps[path], minlength=graph.rows).astype(np.int64),
            row=row,
            wire=np.unique(level[row] * links + path, return_inverse=True)[1],
            byte_ps=1e12 / rates,
            alike=bool((rates == fabric.bandwidth_bytes_per_s[path]).all()),
        )

    def time_ps(self, delay_ps: Ints, wire_ppm: Ints) -> int:
        """Picoseconds of the graph alone, all ranks starting together, if its rows have these delays and wires."""
        _, ends_ps = self._walk(self._paces_ps(delay_ps, self._busy_ps(wire_ppm), shared=True))
        return int(ends_ps.max(initial=0.0))

    def bounds_ps(self, delay_ps: Ints, wire_ppm: Ints) -> tuple[int, int]:
        """(least, most) picoseconds; both are ``time_ps`` where rows of a level that share a link start together.

        Elsewhere, as where several chains cross between hosts at unlike places, such rows meet more seldom than their
        levels say: the least is what the longest chain of rows takes if none ever shares a link.
        """
        busy_ps = self._busy_ps(wire_ppm)
        starts_ps, ends_ps = self._walk(self._paces_ps(delay_ps, busy_ps, shared=True))
        most_ps = ends_ps.max(initial=0.0)
        used = busy_ps > 0
        wires, begins_ps = self.wire[used], starts_ps[self.cycle[self.row[used]]]
        first_ps, last_ps = np.full(len(self.wire), most_ps), np.zeros(len(self.wire))
        np.minimum.at(first_ps, wires, begins_ps)
        np.maximum.at(last_ps, wires, begins_ps)
        if (last_ps - first_ps).max(initial=0.0) <= TOGETHER * most_ps:
            return int(most_ps), int(most_ps)
        _, ends_ps = self._walk(self._paces_ps(delay_ps, busy_ps, shared=False))
        return int(ends_ps.max(initial=0.0)), int(most_ps)

    def _walk(self, pace_ps: Floats) -> tuple[Floats, Floats]:
        """When each row starts and ends, level by level, if a round of it takes so long; of a cycle, its first row."""
        graph, start_ps, ends_ps = self.graph, np.zeros(self.graph.rows), np.zeros(self.graph.rows)
        waits = np.repeat(np.arange(graph.rows), np.diff(graph.pred_ptr))
        order, waiting = np.argsort(self.level, kind="stable"), np.argsort(self.level[waits], kind="stable")
        levels = np.arange(self.level.max(initial=-1) + 2)
        rows_at = np.searchsorted(self.level[order], levels)
        waits_at = np.searchsorted(self.level[waits][waiting], levels)
        for level in levels[:-1]:
            rows = order[rows_at[level] : rows_at[level + 1]]
            own = waiting[waits_at[level] : waits_at[level + 1]]
            np.maximum.at(start_ps, self.cycle[waits[own]], ends_ps[graph.pred[own]])
            ends_ps[rows] = start_ps[self.cycle[rows]] + pace_ps[rows] * graph.rounds[rows]
        return start_ps, ends_ps

    def _busy_ps(self, wire_ppm: Ints) -> Floats:
        """How long a round of each hop's row keeps its link, M."""
        return (self.sizes * (wire_ppm / PAYLOAD_PPM))[self.row] * self.byte_ps

    def _paces_ps(self, delay_ps: Ints, busy_ps: Floats, *, shared: bool) -> Floats:
        """One round of each row; with ``shared`` its links carry all rows of its level."""
        taken_ps = np.bincount(self.wire, weights=busy_ps)[self.wire] if shared else busy_ps
        pace_ps = np.zeros(self.graph.rows)
        np.maximum.at(pace_ps, self.row, taken_ps)
        travels = np.bincount(self.row, minlength=self.graph.rows) > 0
        pace_ps = np.where((self.sizes > 0) | ~travels, pace_ps + self.latency_ps + delay_ps, 0.0)
        slowest_ps = np.zeros(self.graph.rows)
        np.maximum.at(slowest_ps, self.cycle, pace_ps)
        return slowest_ps[self.cycle]


def _least_rates(fabric: Fabric, path: Ints) -> Floats:
    """Of each hop, the least bandwidth of all hops over links of its kind."""
    used, place = np.unique(path, return_inverse=True)
    kinds = np.unique([fabric.links[link].kind for link in used.tolist()], return_inverse=True)[1][place]
    least = np.full(kinds.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, kinds, fabric.bandwidth_bytes_per_s[path])
    rates: Floats = least[kinds]
    return rates


def _levels(graph: TransferGraph) -> list[int]:
    """How many rows are before each row, one after the other; of a cycle, before any of its rows."""
    found: list[int] = []
    pointers, before, lengths = graph.pred_ptr.tolist(), graph.pred.tolist(), graph.cycle_len.tolist()
    while len(found) < graph.rows:
        row = len(found)
        count = max(1, lengths[row])
        found += [
            1 + max((found[other] for other in before[pointers[row] : pointers[row + count]]), default=-1)
        ] * count
    return found
