"""What went over the wires: what one run of a graph adds, and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.contracts import FlowTimes, NetworkStats
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.stored import on_wire, sending_ps

__all__ = ["Run", "Tally", "Totals", "tally_alone"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What one run of a graph adds to the statistics.

    Attributes:
        links: Distinct links.
        link_bytes, link_busy_ps: Per each of them.
        flows: Counts by flow completion time.
    """

    links: Ints
    link_bytes: Ints
    link_busy_ps: Ints
    flows: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of a graph, from its first release.

    Attributes:
        done_ps: Per party.
        tally: Absent if no flow slowed another: it is then the same for all such runs of the graph.
    """

    done_ps: tuple[int, ...]
    tally: Tally | None = None


class Totals:
    """Sums of tallies over all links of a fabric."""

    def __init__(self, links: int) -> None:
        self.link_bytes = np.zeros(links, dtype=np.int64)
        self.link_busy_ps = np.zeros(links, dtype=np.int64)
        self.flows: dict[int, int] = {}

    def add(self, tally: Tally, times: int) -> None:
        """``times`` runs."""
        self.link_bytes[tally.links] += times * tally.link_bytes
        self.link_busy_ps[tally.links] += times * tally.link_busy_ps
        for duration_ps, count in tally.flows.items():
            self.flows[duration_ps] = self.flows.get(duration_ps, 0) + times * count

    def stats(self) -> NetworkStats:
        """The totals as the contract wants them."""
        durations_ps = np.array(sorted(self.flows), dtype=np.int64)
        counts = np.array([self.flows[int(duration_ps)] for duration_ps in durations_ps], dtype=np.int64)
        return NetworkStats(self.link_bytes, self.link_busy_ps, FlowTimes(durations_ps, counts))


def tally_alone(compiled: Compiled) -> Tally:
    """The tally of a run in which no flow slows another. A link is busy for the sum of its flows' sending times."""
    flows: dict[int, int] = {}
    row_bytes, row_busy_ps = np.zeros((2, compiled.graph.rows), dtype=np.int64)
    for rows, payload, times in _carried(compiled):
        size = on_wire(np.full(len(rows), payload), compiled.wire_ppm[rows])
        busy_ps = sending_ps(size, compiled.bytes_per_ps[rows])
        row_bytes[rows] += times * size
        row_busy_ps[rows] += times * busy_ps
        durations_ps, where = np.unique(busy_ps + compiled.latency_ps[rows], return_inverse=True)
        counts = np.zeros(len(durations_ps), dtype=np.int64)
        np.add.at(counts, where, times)
        for duration_ps, count in zip(durations_ps.tolist(), counts.tolist(), strict=True):
            flows[duration_ps] = flows.get(duration_ps, 0) + count
    place = np.searchsorted(compiled.links, compiled.path)
    of_hop = np.repeat(np.arange(compiled.graph.rows), np.diff(compiled.path_ptr))
    link_bytes, link_busy_ps = np.zeros((2, len(compiled.links)), dtype=np.int64)
    np.add.at(link_bytes, place, row_bytes[of_hop])
    np.add.at(link_busy_ps, place, row_busy_ps[of_hop])
    return Tally(compiled.links, link_bytes, link_busy_ps, flows)


def _carried(compiled: Compiled) -> Iterator[tuple[Ints, int, Ints]]:
    """(rows, size, how often each of them carries that size); only rows that need a link, only sizes above 0."""
    sizes, rounds, lengths = compiled.size_bytes, compiled.graph.rounds, compiled.graph.cycle_len
    travels = np.isfinite(compiled.bytes_per_ps)
    plain = np.flatnonzero((lengths == 0) & travels & (sizes > 0))
    for size in np.unique(sizes[plain]).tolist():
        rows = plain[sizes[plain] == size]
        yield rows, size, rounds[rows]
    for base in np.unique(compiled.graph.cycle_base[lengths > 0]).tolist():
        count = int(lengths[base])
        full, rest = divmod(int(rounds[base]), count)
        rows = np.arange(base, base + count)
        for size in np.unique(sizes[rows]).tolist():
            if size == 0:
                continue
            has = sizes[rows] == size
            before = np.concatenate(([0], np.cumsum(np.tile(has, 2))))
            window = before[count + 1 :] - before[count + 1 - rest : 2 * count + 1 - rest]  # pieces p - rest + 1 .. p
            times = full * int(has.sum()) + window
            moving = travels[rows] & (times > 0)
            yield rows[moving], size, times[moving]
