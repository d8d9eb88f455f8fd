"""The state of the event kernel: graphs go in and come out, completions are read off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import events as k
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.tally import Run, Tally, Totals

__all__ = ["Events", "simulate"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_LOG = 4096  # flow completion times between two emptyings of the log, beside one per slot


class Events:
    """Graphs that share links, from event to event.

    A graph takes a block of slots, one per row and one per party, and leaves it for the next graph of that size.
    """

    def __init__(self, bandwidth_bytes_per_s: Floats) -> None:
        count = len(bandwidth_bytes_per_s)
        self._links = np.zeros((count, k.LINK_COLUMNS), dtype=np.int64)
        self._links[:, k.HEAD] = -1
        self._widths = np.zeros((count, 2))
        self._widths[:, k.CAPACITY] = bandwidth_bytes_per_s * 1e-12
        self._link_lists = np.zeros((3, count), dtype=np.int64)
        self._keys = np.zeros(count)
        self._sim = np.zeros(8, dtype=np.int64)
        self._pool = np.zeros(0, dtype=np.int64)
        self._templates: dict[Compiled, _Template] = {}
        self._used, self._free = 0, dict[int, list[int]]()
        self._parties: dict[int, tuple[int, int]] = {}
        self._flows_seen: Counter[int] = Counter()
        self._allocate(slots=64, hops=6)
        self.next_ps = NEVER_PS

    def open(self, handle: int, compiled: Compiled, released_ps: Iterable[int]) -> int:
        """Add a graph with the releases known so far, be they past; the first slot of its block."""
        template = self._templates.get(compiled)
        if template is None:
            template = self._templates[compiled] = _template(compiled, len(self._pool))
            self._pool = np.concatenate((self._pool, template.members))
        base = self._block(len(template.slots), template.hops.shape[1])
        rows = len(compiled.rows)
        block = self._slots[base : base + len(template.slots)]
        block[:] = template.slots
        block[:, [k.CYCLE, k.SRC, k.DST, k.ORIGIN]] += base
        self._hops[base : base + rows, : template.hops.shape[1], k.LINK] = template.hops
        for party, at_ps in enumerate(released_ps):
            self._parties[base + rows + party] = (handle, party)
            if at_ps < NEVER_PS and not compiled.idle >> party & 1:
                self.release(base, compiled, party, at_ps)
        return base

    def release(self, base: int, compiled: Compiled, party: int, at_ps: int) -> None:
        """Let ``party`` of the graph at ``base`` begin at ``at_ps``."""
        self.next_ps = k.post(base + len(compiled.rows) + party, at_ps, self._slots, self._sim, self._slot_lists)

    def close(self, base: int, compiled: Compiled) -> None:
        """Forget a graph whose rows have all ended."""
        rows = len(compiled.rows)
        for party in range(compiled.parties):
            del self._parties[base + rows + party]
        self._free.setdefault(rows + compiled.parties, []).append(base)

    def run(self, until_ps: int) -> list[tuple[int, int, int]]:
        """Go on to the first instant at which parties are done, no further than ``until_ps``: (handle, party, at_ps)."""
        sim = self._sim
        while self.next_ps <= until_ps and not sim[k.ENDED]:
            self.next_ps = k.run(
                until_ps,
                self._slots,
                self._flows,
                self._hops,
                self._links,
                self._widths,
                self._pool,
                sim,
                self._slot_lists,
                self._link_lists,
                self._keys,
                self._log,
            )
            if sim[k.LOG] + self._slots.shape[0] > len(self._log):
                self._empty_log()
        done = self._slot_lists[k.PARTIES, : sim[k.ENDED]].tolist()
        sim[k.ENDED] = 0
        return [(*self._parties[slot], int(sim[k.NOW])) for slot in done]

    def totals(self, now_ps: int) -> Totals:
        """Everything up to ``now_ps``, unfinished flows' links included as busy."""
        self._empty_log()
        totals = Totals(len(self._links))
        totals.link_bytes += self._links[:, k.BYTES]
        ongoing_ps = np.where(self._links[:, k.FLOWS] > 0, now_ps - self._links[:, k.SINCE], 0)
        totals.link_busy_ps += self._links[:, k.BUSY] + ongoing_ps
        totals.flows.update(self._flows_seen)
        return totals

    def _empty_log(self) -> None:
        durations_ps, counts = np.unique(self._log[: self._sim[k.LOG]], return_counts=True)
        for duration_ps, count in zip(durations_ps.tolist(), counts.tolist(), strict=True):
            self._flows_seen[duration_ps] += count
        self._sim[k.LOG] = 0

    def _block(self, slots: int, hops: int) -> int:
        """First slot of an unused block of that size."""
        free = self._free.get(slots)
        wide_enough = hops <= self._hops.shape[1]
        if free and wide_enough:
            return free.pop()
        if self._used + slots > len(self._slots) or not wide_enough:
            self._allocate(max(2 * len(self._slots), self._used + slots), max(hops, self._hops.shape[1]))
        base = self._used
        self._used += slots
        return base

    def _allocate(self, slots: int, hops: int) -> None:
        """Room for ``slots``; what is there stays."""
        used = self._used
        old = (self._slots, self._flows, self._hops, self._slot_lists) if used else None
        self._slots = np.zeros((slots, k.SLOT_COLUMNS), dtype=np.int64)
        self._flows = np.zeros((slots, k.FLOW_COLUMNS))
        self._hops = np.zeros((slots, hops, 3), dtype=np.int64)
        self._slot_lists = np.zeros((4, slots), dtype=np.int64)
        log = np.zeros(2 * slots + _LOG, dtype=np.int64)
        if old is not None:
            self._slots[:used], self._flows[:used] = old[0][:used], old[1][:used]
            self._hops[:used, : old[2].shape[1]] = old[2][:used]
            self._slot_lists[:, :used] = old[3][:, :used]
            log[: self._sim[k.LOG]] = self._log[: self._sim[k.LOG]]
        self._log = log


def simulate(compiled: Compiled, bandwidth_bytes_per_s: Floats, offsets_ps: tuple[int, ...]) -> Run:
    """A run of a graph that has its links to itself, though its rows share some."""
    local = replace(compiled, path=np.searchsorted(compiled.links, compiled.path))
    events = Events(bandwidth_bytes_per_s[compiled.links])
    events.open(0, local, offsets_ps)
    done_ps = list(offsets_ps)
    while events.next_ps < NEVER_PS:
        for _, party, at_ps in events.run(NEVER_PS - 1):
            done_ps[party] = at_ps
    totals = events.totals(0)
    return Run(tuple(done_ps), Tally(compiled.links, totals.link_bytes, totals.link_busy_ps, totals.flows))


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """A graph's slots, as they are copied when it is opened: its rows, then its parties.

    Attributes:
        slots: (N + P) x columns; slot numbers count from the block's first.
        hops: N x H, links; the rest of a shorter path is not read.
        members: Successors of each row, then rows of each party, for the pool.
    """

    slots: Ints
    hops: Ints
    members: Ints


def _template(compiled: Compiled, pool: int) -> _Template:
    graph, rows, parties = compiled.graph, len(compiled.rows), compiled.parties
    slots = np.zeros((rows + parties, k.SLOT_COLUMNS), dtype=np.int64)
    slots[:, k.PLACE] = -1
    row, party = slots[:rows], slots[rows:]
    src, dst = compiled.rows[:, 0], compiled.rows[:, 1]
    before = np.diff(graph.pred_ptr)
    row[:, k.AWAITED] = before + 1 + (src != dst)
    row[:, k.ROUNDS] = graph.rounds
    row[:, k.CYCLE] = np.where(graph.cycle_len > 0, graph.cycle_base, np.arange(rows))
    row[:, k.COUNT] = np.maximum(1, graph.cycle_len)
    row[:, k.SIZE], row[:, k.LATENCY] = compiled.rows[:, 2], compiled.rows[:, 3]
    row[:, k.HOPS] = np.diff(compiled.path_ptr)
    row[:, k.SRC], row[:, k.DST] = rows + src, rows + dst
    party[:, k.STATE] = k.PARTY
    other = np.flatnonzero(src != dst)
    heads = np.concatenate((graph.pred, rows + src, rows + dst[other]))
    tails = np.concatenate((np.repeat(np.arange(rows), before), np.arange(rows), other))
    ends = np.cumsum(np.bincount(heads, minlength=rows + parties))
    slots[:, k.MEMBERS], slots[:, k.MEMBERS_END] = pool + np.concatenate(([0], ends[:-1])), pool + ends
    party[:, k.AWAITED] = party[:, k.MEMBERS_END] - party[:, k.MEMBERS]
    hops = np.zeros((rows, max(row[:, k.HOPS], default=0)), dtype=np.int64)
    hops[np.arange(hops.shape[1]) < row[:, [k.HOPS]]] = compiled.path
    return _Template(slots, hops, tails[np.argsort(heads, kind="stable")])
