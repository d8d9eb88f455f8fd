"""The state of the event kernel: graphs go in and come out, completions are read off."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import event_columns as k
from xsim.sim.kernels import events as kernel
from xsim.sim.kernels.event_links import count_time
from xsim.sim.kernels.never import NEVER_PS, PPM
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.tally import Run, Tally, Totals

__all__ = ["Events", "simulate"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)

_TIMES = 1 << 12  # room for distinct flow completion times, at first


class Events:
    """Graphs that share links, from event to event.

    An instance of a graph takes a block of slots, one per row and one per party, and leaves it to the graph's next
    instance: what is always the same in it stays.

    Args:
        reuse: Whether rings that are alone on their links take no events; the numbers are the same.

    Attributes:
        next_ps: The next instant in which something happens; ``NEVER_PS`` if there is none.
    """

    def __init__(self, bandwidth_bytes_per_s: Floats, *, reuse: bool = True) -> None:
        links = len(bandwidth_bytes_per_s)
        self.next_ps = NEVER_PS
        self._reuse = reuse
        self._links: Ints = np.zeros((links, k.LINK_COLUMNS), dtype=np.int64)
        self._links[:, (k.HEAD, k.OWNER, k.HOLDER)] = -1
        self._widths: Floats = np.zeros((links, k.WIDTH_COLUMNS))
        self._widths[:, k.CAPACITY] = bandwidth_bytes_per_s * 1e-12
        self._pool = np.zeros(0, dtype=np.int64)
        self._sim = np.zeros(k.SIM_COLUMNS, dtype=np.int64)
        self._slots: Ints = np.zeros((0, k.SLOT_COLUMNS), dtype=np.int64)
        self._flows: Floats = np.zeros((0, k.FLOW_COLUMNS))
        self._hops: Ints = np.zeros((0, 6, 3), dtype=np.int64)
        self._lists: Ints = np.zeros((k.LISTS, links), dtype=np.int64)
        self._times: Ints = np.zeros((_TIMES, 2), dtype=np.int64)
        self._gather_state()
        self._used = 0
        self._free: dict[Compiled, list[int]] = {}
        self._templates: dict[Hashable, _Template] = {}
        self._parties: dict[int, tuple[int, int]] = {}  # per slot of a party, its block and number
        self._handles: dict[int, int] = {}  # per block in use
        self._released: dict[int, Ints] = {}  # by length, to be filled anew for each graph

    def hold(self, links: Ints, handle: int) -> bool:
        """Note that ``handle`` uses ``links`` without events, if nobody else uses one."""
        own = self._links[links]
        if own[:, k.USERS].any() or (own[:, k.HOLDER] >= 0).any():
            return False
        self._links[links, k.HOLDER] = handle
        return True

    def let_go(self, links: Ints) -> None:
        """Nobody uses ``links`` without events any more."""
        self._links[links, k.HOLDER] = -1

    def open(self, handle: int, compiled: Compiled, released_ps: Sequence[int]) -> tuple[int, list[int]]:
        """Add a graph with the releases known so far, be they past: its block, and who holds links that it uses."""
        free = self._free.get(compiled)
        base = free.pop() if free else self._new_block(compiled)
        self._handles[base] = handle
        released, sim, lists = self._released.get(len(released_ps)), self._sim, self._lists
        if released is None:
            released = self._released[len(released_ps)] = np.zeros(len(released_ps), dtype=np.int64)
        for party, at_ps in enumerate(released_ps):
            released[party] = at_ps
        self.next_ps = kernel.open_block(
            base, compiled.rows, released, self._slots, self._hops, self._links, sim, lists
        )
        if not sim[k.HOLDERS]:
            return base, []
        held = lists[k.HELD, : sim[k.HOLDERS]].tolist()
        sim[k.HOLDERS] = 0
        return base, sorted(set(held))

    def release(self, base: int, compiled: Compiled, party: int, at_ps: int) -> None:
        """Let ``party`` of the graph at ``base`` begin at ``at_ps``."""
        self.next_ps = kernel.post(base + compiled.rows + party, at_ps, self._slots, self._sim, self._lists)

    def close(self, base: int, compiled: Compiled) -> None:
        """Forget a graph whose rows have all ended."""
        del self._handles[base]
        self._free.setdefault(compiled, []).append(base)

    def run(self, until_ps: int) -> list[tuple[int, int, int]]:
        """(handle, party, at_ps) of the first instant up to ``until_ps`` in which parties are done."""
        ended = 0
        while not ended and self.next_ps <= until_ps:
            self.next_ps = kernel.run(until_ps, *self._state)
            now_ps, _, _, ended, _, known, new, *_ = self._sim.tolist()
            if 2 * (known + new) > len(self._times):
                self._make_room_for_times()
        if not ended:
            return []
        self._sim[k.ENDED] = 0
        done = self._lists[k.PARTIES, :ended].tolist()
        return [(self._handles[base], party, now_ps) for base, party in map(self._parties.__getitem__, done)]

    def expose(self, now_ps: int) -> None:
        """Before the totals: nothing that has happened up to ``now_ps`` is left to be worked out later."""
        self.next_ps = kernel.expose(now_ps, *self._state)

    def totals(self, now_ps: int) -> Totals:
        """Everything up to ``now_ps``: bytes of flows that have left, links that are in use as busy until now."""
        totals = Totals(len(self._links))
        totals.link_bytes += self._links[:, k.BYTES]
        in_use = self._links[:, k.FLOWS] > 0
        totals.link_busy_ps += self._links[:, k.BUSY] + np.where(in_use, now_ps - self._links[:, k.SINCE], 0)
        totals.flows.update(self._times[self._times[:, 0] > 0].tolist())
        return totals

    def _new_block(self, compiled: Compiled) -> int:
        """The first slot of a new block for instances of a graph."""
        sole = _sole_rings(compiled) if self._reuse else ()
        form = _form(compiled, sole)
        template = self._templates.get(form)
        if template is None:
            template = self._templates[form] = _template(compiled, sole, len(self._pool))
            self._pool = np.concatenate((self._pool, template.members))
        base, rows, hops = self._used, compiled.graph.rows, template.travels.shape[1]
        self._used += len(template.slots)
        if self._used > len(self._slots) or hops > self._hops.shape[1]:
            self._make_room(max(2 * len(self._slots), self._used, 64), max(hops, self._hops.shape[1]))
        own = self._slots[base : self._used]
        own[:] = template.slots
        own[:, (k.CYCLE, k.SRC, k.DST, k.ORIGIN)] += base
        self._flows[base : base + rows, k.LONE_RATE] = compiled.bytes_per_ps
        self._hops[base : base + rows, :hops, k.LINK][template.travels] = compiled.path
        self._parties.update({base + rows + party: (base, party) for party in range(compiled.parties)})
        self._sim[k.NEW_TIMES] += rows * (1 + len(set(compiled.size_bytes.tolist())))
        self._make_room_for_times()
        self._gather_state()
        return base

    def _make_room(self, size: int, hops: int) -> None:
        """Arrays for ``size`` slots and paths of ``hops``; what is there stays."""
        self._slots = _grown(self._slots, size, k.SLOT_COLUMNS)
        self._flows = _grown(self._flows, size, k.FLOW_COLUMNS)
        self._hops = _grown(self._hops, size, hops, 3)
        self._lists = _grown(self._lists, k.LISTS, max(size, len(self._links)))

    def _make_room_for_times(self) -> None:
        """A larger table, if the next instant might fill this one by more than a half."""
        sim, old = self._sim, self._times
        if 2 * (sim[k.TIMES] + sim[k.NEW_TIMES]) > len(old):
            self._times = np.zeros((4 * int(sim[k.TIMES] + sim[k.NEW_TIMES]) + 1, 2), dtype=np.int64)
            sim[k.TIMES] = 0
            for duration_ps, count in old[old[:, 0] > 0].tolist():
                count_time(duration_ps, count, sim, self._times)
            self._gather_state()

    def _gather_state(self) -> None:
        """The arguments that the kernels have in common."""
        columns = self._slots, self._flows, self._hops, self._links, self._widths
        self._state = *columns, self._pool, self._sim, self._lists, self._times


def simulate(
    compiled: Compiled, bandwidth_bytes_per_s: Floats, offsets_ps: tuple[int, ...], *, reuse: bool = True
) -> Run:
    """A run of a graph that has its links to itself, though its rows may share some; every party is released."""
    local = replace(compiled, path=np.searchsorted(compiled.links, compiled.path))
    events = Events(bandwidth_bytes_per_s[compiled.links], reuse=reuse)
    events.open(0, local, offsets_ps)
    done_ps = list(offsets_ps)
    while events.next_ps < NEVER_PS:
        for _, party, at_ps in events.run(NEVER_PS - 1):
            done_ps[party] = at_ps
    totals = events.totals(0)
    return Run(tuple(done_ps), Tally(compiled.links, totals.link_bytes, totals.link_busy_ps, totals.flows))


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """What the blocks of graphs have in common that differ in their links alone: slots for rows, then for parties.

    Attributes:
        slots: (N + P) x columns; slot numbers count from the block's first.
        travels: Of each row which hops it has, N x H.
        members: Successors of each row, then rows of each party, for the pool.
    """

    slots: Ints
    travels: NDArray[np.bool_]
    members: Ints


def _form(compiled: Compiled, sole: tuple[int, ...]) -> Hashable:
    """Equal for graphs of one template."""
    graph = compiled.graph
    columns = (
        *(compiled.src_party, compiled.dst_party, compiled.size_bytes, compiled.latency_ps, compiled.path_ptr),
        *(compiled.wire_ppm, graph.rounds, graph.cycle_base, graph.cycle_len, graph.pred_ptr, graph.pred),
    )
    return compiled.parties, sole, *(column.tobytes() for column in columns)


def _template(compiled: Compiled, sole: tuple[int, ...], pool: int) -> _Template:
    graph, rows, parties = compiled.graph, compiled.graph.rows, compiled.parties
    slots = np.zeros((rows + parties, k.SLOT_COLUMNS), dtype=np.int64)
    slots[:, k.PLACE] = -1
    row, party = slots[:rows], slots[rows:]
    src, dst = rows + compiled.src_party, rows + compiled.dst_party
    before, other = np.diff(graph.pred_ptr), np.flatnonzero(src != dst)
    row[:, k.AWAITS] = before + 1 + (src != dst)
    row[:, k.ROUNDS], row[:, k.COUNT] = graph.rounds, np.maximum(1, graph.cycle_len)
    row[:, k.CYCLE] = np.where(graph.cycle_len > 0, graph.cycle_base, np.arange(rows))
    row[:, k.SIZE], row[:, k.LATENCY] = compiled.size_bytes, compiled.latency_ps
    row[:, k.HOPS], row[:, k.SRC], row[:, k.DST] = np.diff(compiled.path_ptr), src, dst
    row[:, k.EXTRA] = compiled.wire_ppm - PPM
    row[list(sole), k.SOLE] = 1
    party[:, k.STATE] = k.PARTY
    heads = np.concatenate((graph.pred, src, dst[other]))
    tails = np.concatenate((np.repeat(np.arange(rows), before), np.arange(rows), other))
    ends = pool + np.cumsum(np.bincount(heads, minlength=rows + parties))
    slots[:, k.MEMBERS], slots[:, k.MEMBERS_END] = np.concatenate(([pool], ends[:-1])), ends
    party[:, k.AWAITS] = party[:, k.MEMBERS_END] - party[:, k.MEMBERS]
    travels = np.arange(max(row[:, k.HOPS], default=0)) < row[:, [k.HOPS]]
    return _Template(slots, travels, tails[np.argsort(heads, kind="stable")])


def _sole_rings(compiled: Compiled) -> tuple[int, ...]:
    """First rows of the rings that need no events alone: all rows have links, none has another's, nor ends long before
    all are ready."""
    lengths, rounds = compiled.graph.cycle_len.tolist(), compiled.graph.rounds.tolist()
    path_ptr, path = compiled.path_ptr.tolist(), compiled.path.tolist()
    found = []
    for base in sorted(
        {base for base, count in zip(compiled.graph.cycle_base.tolist(), lengths, strict=True) if count}
    ):
        rows = range(base, base + lengths[base])
        links = path[path_ptr[rows.start] : path_ptr[rows.stop]]
        travel = all(path_ptr[row] < path_ptr[row + 1] for row in rows)
        if travel and len(set(links)) == len(links) and rounds[base] >= max(1, len(rows) - 1):
            found.append(base)
    return tuple(found)


def _grown(array: NDArray[Number], *shape: int) -> NDArray[Number]:
    """A larger array with ``array`` in its first corner."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger
