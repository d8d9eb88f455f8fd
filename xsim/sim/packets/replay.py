"""Flows over a graph, packet by packet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.graph import Graph
from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import below_of, wires_of

__all__ = ["LinkCounts", "Outcome", "replay"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MARGIN = 16  # rows that an event may take, beside one per flow that it starts


@dataclass(frozen=True, slots=True, eq=False)
class LinkCounts:
    """What each of L directed links has seen; all int64.

    Attributes:
        sent_bytes, packets: Begun to be sent, headers, acknowledgements and pause frames included.
        marks: Packets marked as they left its queue.
        pauses: How often the switch at its end told its transmitter to pause.
        paused_ps: For how long its transmitter was paused.
        drops: Packets that found no room in the switch at its end.
        lost: Packets lost on the wire.
    """

    sent_bytes: Ints
    packets: Ints
    marks: Ints
    pauses: Ints
    paused_ps: Ints
    drops: Ints
    lost: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a replay went.

    Attributes:
        start_ps: When each flow began, N.
        sender_end_ps: Its last acknowledgement, N.
        receiver_end_ps: Its last byte, N.
        go_backs: How often its sender went back to what was missing, N.
        links: Counts per directed link.
        events: How many the simulation took.
    """

    start_ps: Ints
    sender_end_ps: Ints
    receiver_end_ps: Ints
    go_backs: Ints
    links: LinkCounts
    events: int


def replay(graph: Graph, flows: Flows, settings: Settings) -> Outcome:
    """All of ``flows`` over ``graph``, to the end."""
    from xsim.sim.kernels.laws import compiled
    from xsim.sim.kernels.packet import run

    control = settings.congestion
    law = compiled(control.law or _idle)
    wires = wires_of(graph, settings)
    table, route, members = _flow_tables(flows, wires.links, settings.tick_ps)
    count = len(table)
    starts = np.flatnonzero(flows.after < 0)
    sim = _sim(settings)
    sim[k.UNFINISHED] = count
    sim[k.WINDOW_FOLLOWS] = settings.window == "follows" or (settings.window == "auto" and control.windowed)
    memory = _memory(flows, table, wires.links, settings)
    knobs = np.array(control.knobs(10**12 // settings.tick_ps), dtype=np.float64)
    sim[k.WIDTH] = _width(wires.links)
    sim[k.MARGIN] = MARGIN + int((table[:, k.FOLLOWERS_END] - table[:, k.FOLLOWERS]).max(initial=0))
    rows, seen, bucket, heap = _events(max(1024, 2 * len(starts)) + int(sim[k.MARGIN]), recorded=control.records)
    wheel = np.zeros(k.WHEEL, dtype=np.int64)
    wheel[: k.BUCKETS] = -1
    state = _State(rows, seen, bucket, heap, sim)
    _post(state, wheel, starts, flows.start_ps[starts] // settings.tick_ps)
    before = (wires.links, wires.chances, wires.switches, table, memory, knobs)
    after = (route, members, wheel)
    while run(law, NEVER_PS, state.rows, *before, state.seen, *after, state.bucket, state.heap, sim) == k.GROW:
        state.grow()
    tick, links = settings.tick_ps, wires.links
    return Outcome(
        start_ps=table[:, k.BEGAN] * tick,
        sender_end_ps=table[:, k.SENDER_END] * tick,
        receiver_end_ps=table[:, k.RECEIVER_END] * tick,
        go_backs=table[:, k.GO_BACKS].copy(),
        links=LinkCounts(
            sent_bytes=links[:, k.BYTES].copy(),
            packets=links[:, k.PACKETS].copy(),
            marks=links[:, k.MARKS].copy(),
            pauses=links[:, k.PAUSES].copy(),
            paused_ps=links[:, k.PAUSED_FOR] * tick,
            drops=links[:, k.DROPS].copy(),
            lost=links[:, k.LOST].copy(),
        ),
        events=int(sim[k.EVENTS]),
    )


@dataclass(slots=True)
class _State:
    """The tables that grow with what is under way."""

    rows: Ints
    seen: Ints
    bucket: Ints
    heap: Ints
    sim: Ints

    def grow(self) -> None:
        """Twice the rows."""
        old = len(self.rows)
        rows, seen, bucket, heap = _events(2 * old, recorded=self.seen.shape[1] > 0)
        rows[:old], seen[:old], bucket[:, :old], heap[:, :old] = self.rows, self.seen, self.bucket, self.heap
        rows[old:, k.NEXT] = np.append(np.arange(old + 1, 2 * old), self.sim[k.ROWS_FREE])
        self.sim[k.ROWS_FREE], self.sim[k.ROWS_LEFT] = old, self.sim[k.ROWS_LEFT] + old
        self.rows, self.seen, self.bucket, self.heap = rows, seen, bucket, heap


def _events(count: int, *, recorded: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Empty tables for ``count`` events."""
    return (
        np.zeros((count, k.ROW_COLUMNS), dtype=np.int64),
        np.zeros((count, k.SEEN_COLUMNS if recorded else 0), dtype=np.int64),
        np.zeros((2, count), dtype=np.int64),
        np.zeros((3, count), dtype=np.int64),
    )


def _sim(settings: Settings) -> Ints:
    sim = np.zeros(k.SIM_COLUMNS, dtype=np.int64)
    sim[k.CURSOR] = sim[k.TURN] = -1
    sim[k.SCALE], sim[k.BELOW] = 10**12 // settings.tick_ps, below_of(settings.tick_ps)
    sim[k.PAYLOAD], sim[k.HEADER] = settings.payload_bytes, settings.overhead_bytes
    sim[k.ACK_SIZE], sim[k.PFC_SIZE] = settings.reply_bytes, settings.pfc_bytes
    sim[k.ACK_EVERY], sim[k.PFC] = settings.ack_every, settings.pfc
    sim[k.RESERVE], sim[k.RESUME_GAP] = settings.reserve_bytes, 3072
    sim[k.GAP_TIME] = settings.nack_interval_ps // settings.tick_ps
    control = settings.congestion
    sim[k.CONTROLLED], sim[k.RECORDED], sim[k.REPACED] = control.law is not None, control.records, control.repaces
    sim[k.AT_RECEIVER] = settings.completion == "receiver"
    return sim


def _width(links: Ints) -> int:
    """Bits of a bucket's width: the wheel spans the longest hop of a full packet."""
    longest = int((links[:, k.DATA_TIME] + links[:, k.DELAY]).max(initial=1))
    return max(0, (longest // (k.BUCKETS - 1)).bit_length())


def _idle(event: int, now: int, acked: int, sent: int, marked: bool, state: Floats, seen: Ints, knobs: Floats) -> None:
    """The law of flows that have none; it is never called."""


def _memory(flows: Flows, table: Ints, links: Ints, settings: Settings) -> Floats:
    """What the congestion control is told of each flow; the windows that do not come from it."""
    control = settings.congestion
    memory = np.zeros((len(table), k.OWN + control.remembers if control.law else 0))
    if not len(flows.path):
        return memory
    scale = 10**12 // settings.tick_ps
    rate, travels = links[flows.path, k.RATE], np.diff(flows.path_ptr) > 0
    hop = 2 * links[flows.path, k.DELAY] + settings.payload_bytes * 8 * scale / rate
    trip = int(np.add.reduceat(hop, flows.path_ptr[:-1][travels]).max())
    slowest = np.minimum.reduceat(rate, flows.path_ptr[:-1][travels])
    window = trip * slowest // (8 * scale)
    if settings.window in ("bdp", "follows") or (settings.window == "auto" and control.windowed):
        table[travels, k.WINDOW] = np.maximum(1, window)
    if control.law:
        memory[:, k.TRIP] = trip
        memory[travels, k.TRIP_BYTES] = window
        memory[travels, k.LINE_BITS] = rate[flows.path_ptr[:-1][travels]]
        memory[:, k.WINDOW_BYTES] = table[:, k.WINDOW]
    return memory


def _flow_tables(flows: Flows, links: Ints, tick_ps: int) -> tuple[Ints, Ints, Ints]:
    """Flows, ways, and the lists of flows that take turns at a port or follow another; fills the ports in ``links``."""
    count = len(flows.src)
    table = np.zeros((count, k.FLOW_COLUMNS), dtype=np.int64)
    table[:, k.BYTES_PER_ROUND] = flows.size_bytes
    table[:, k.AWAITED] = flows.after >= 0
    table[:, k.OFFSET] = np.where(flows.after >= 0, flows.start_ps // tick_ps, 0)
    table[:, [k.SENDER_END, k.RECEIVER_END, k.GAP, k.BEGAN]] = -1
    there, back = np.diff(flows.path_ptr), np.diff(flows.back_ptr)
    ends = np.cumsum(there + back + 2)
    table[:, k.WAY] = ends - (there + back + 2)
    table[:, k.WAY_BACK] = ends - back - 1
    route = np.full(int(ends[-1]) if count else 0, -1, dtype=np.int64)
    route[_places(table[:, k.WAY], there)] = flows.path
    route[_places(table[:, k.WAY_BACK], back)] = flows.back
    first = route[table[:, k.WAY]]
    used = np.bincount(first[first >= 0], minlength=len(links))
    links[:, k.FLOWS_AT] = np.cumsum(used) - used
    links[:, k.SERVED] = 0
    turns = int(used.sum())
    followers = np.flatnonzero(flows.after >= 0)
    followers = followers[np.argsort(flows.after[followers], kind="stable")]
    until = turns + np.cumsum(np.bincount(flows.after[followers], minlength=count))
    table[:, k.FOLLOWERS], table[:, k.FOLLOWERS_END] = np.concatenate(([turns], until[:-1])), until
    members = np.concatenate((np.zeros(turns, dtype=np.int64), followers))
    return table, route, members


def _places(first: Ints, counts: Ints) -> Ints:
    """``first[i] .. first[i] + counts[i]``, one after another."""
    before = np.cumsum(counts) - counts
    places: Ints = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return places


def _post(state: _State, wheel: Ints, starts: Ints, at: Ints) -> None:
    """Make the starts events, in order of time and then of number."""
    from xsim.sim.kernels.packet_clock import schedule

    state.rows[:, k.NEXT] = np.append(np.arange(1, len(state.rows)), -1)
    state.sim[k.ROWS_LEFT] = len(state.rows)
    for place in np.argsort(at, kind="stable").tolist():
        row = int(state.sim[k.ROWS_FREE])
        state.sim[k.ROWS_FREE] = state.rows[row, k.NEXT]
        state.sim[k.ROWS_LEFT] -= 1
        state.rows[row, k.KIND], state.rows[row, k.FLOW] = k.START, starts[place]
        schedule(row, int(at[place]), state.rows, wheel, state.heap, state.sim)
