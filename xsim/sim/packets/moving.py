"""All that is under way, seen from an instant, and the same moved to a later one.

Every column of the kernel's tables is of one kind here. One that is not, and is in use, makes a simulation one whose
state nobody knows how to move: see ``known``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine

__all__ = ["Shift", "Streams", "View", "known", "look", "move", "streams_of", "walk"]

Ints = NDArray[np.int64]

# Of a flow: bytes of its stream, which grow as it goes on; instants; numbers of events; all else, which stays.
FLOW_STREAM = (k.NEXT_BYTE, k.ACKED, k.RECEIVED, k.MILESTONE)
FLOW_INSTANTS = (k.AVAILABLE, k.RETRY_AT)
FLOW_NUMBERS = (k.RETRY_NUMBER,)
FLOW_KEPT = (
    *(k.POSTED, k.WINDOW, k.WAY, k.WAY_BACK, k.STATE, k.BYTES_PER_ROUND, k.OFFSET, k.AWAITED, k.FOLLOWERS),
    *(k.FOLLOWERS_END, k.BEGAN, k.SENDER_END, k.RECEIVER_END, k.GAP, k.GAP_UNTIL, k.GO_BACKS, k.FLOW_RATE),
    *(k.LAST_SIZE, k.TRIES, k.RETRY_SET, k.CYCLE, k.CYCLE_LEN, k.ROUNDS, k.DONE, k.CARRIES, k.READY_AT),
    *(k.SRC_PARTY, k.DST_PARTY, k.EXTRA, k.IN_TURN),
)
# Of a link: what its flows add to; what pauses add to; instants; numbers of events; rows, seen with the events; what a
# steady link may go to and fro between; all else.
LINK_CARRIED = (k.BYTES, k.PACKETS, k.BUSY)
LINK_PAUSED = (k.PAUSES, k.PAUSED_FOR)
LINK_INSTANTS = (k.FREE_AT, k.PAUSED_SINCE)
LINK_NUMBERS = (k.FREE_SERIAL,)
LINK_ROWS = (k.HEAD, k.URGENT, k.TAIL, k.URGENT_TAIL, k.WAKE_ROW)
LINK_SWAYS = (k.FREE_SET, k.PAUSED, k.BACKLOG, k.TAKEN, k.OVER, k.PAUSING, k.SERVED)
LINK_KEPT = (
    *(k.DELAY, k.DATA_TIME, k.ACK_TIME, k.FLOWS_HERE, k.RATE, k.INTO, k.SHIFT, k.HEADROOM, k.BACK),
    *(k.KMIN, k.KMAX, k.DICE, k.MARKS, k.FLOWS_AT, k.CARRIED, k.DROPS, k.LOST),
)
FLOW_COLUMNS = (*FLOW_STREAM, *FLOW_INSTANTS, *FLOW_NUMBERS, *FLOW_KEPT)
LINK_COLUMNS = (*LINK_CARRIED, *LINK_PAUSED, *LINK_INSTANTS, *LINK_NUMBERS, *LINK_ROWS, *LINK_SWAYS, *LINK_KEPT)
SWITCH_COLUMNS = (k.SHARED, k.POOL)
ROW_COLUMNS = (k.TIME, k.SERIAL, k.NEXT, k.KIND, k.FLOW, k.NUMBER, k.SIZE, k.HOP)
SIM_COLUMNS = (
    *(k.NOW, k.TURN, k.ISSUED, k.CURSOR, k.LEFT, k.HEAPED, k.ROWS_FREE, k.ROWS_LEFT, k.EVENTS, k.UNFINISHED),
    *(k.MARGIN, k.WIDTH, k.SCALE, k.PAYLOAD, k.HEADER, k.ACK_SIZE, k.PFC_SIZE, k.ACK_EVERY, k.PFC, k.RESERVE),
    *(k.RESUME_GAP, k.GAP_TIME, k.AT_RECEIVER, k.CONTROLLED, k.RECORDED, k.WINDOW_FOLLOWS, k.REPACED, k.BELOW),
    *(k.RETRY_TIME, k.RETRIES, k.GAVE_UP, k.ENDED, k.LOGGED),
)
PACKETS = (k.DATA, k.ACK)
OF_PORTS = (k.FREE, k.WAKE, k.PAUSE, k.RESUME)
UNSET_FREE = k.KINDS + 1  # stands for the end of a transmission that is no event


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The flows that have bytes to send.

    Attributes:
        flows: Their numbers, N.
        period: Ticks in which each had one turn at the busiest port.
        trip: Ticks of the longest undisturbed round trip of a full packet.
        there, back: Flows (places in ``flows``) and links of each hop of data and acknowledgements.
    """

    flows: Ints
    period: int
    trip: int
    there: tuple[Ints, Ints]
    back: tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What the next events depend on, as it is at an instant after which all events to come lie.

    Attributes:
        now: The instant.
        events, waiting: Rows of the events that move with the streams, in their order; rows at ports.
        fixed: Rows of the events that do not.
        foreign: Whether something is under way that is no packet of the streams, nor known.
        relative: All of it relative to the instant and to the bytes sent so far, one array per table.
        kept, sways: Columns of links that stay, and that a steady link may go to and fro between.
        sent, received: Per stream.
        arriving: Per stream the first byte of its next packet to arrive, and when; -1 if none is on its last link.
        paused: Columns of links that pauses add to.
        issued, worked: Numbers of events given out; events processed.
    """

    now: int
    events: Ints
    waiting: Ints
    fixed: Ints
    foreign: bool
    relative: tuple[NDArray[np.int64] | NDArray[np.float64], ...]
    kept: tuple[Ints, Ints]
    sways: Ints
    sent: Ints
    received: Ints
    arriving: Ints
    paused: Ints
    issued: int
    worked: int


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """How far all moves: ticks, bytes of each stream, numbers of events, what pauses add to links."""

    ticks: int
    stream: Ints
    numbers: int
    paused: Ints


def known(engine: Engine) -> bool:
    """Whether all columns in use are among those above."""
    tables = ((engine.flows, FLOW_COLUMNS), (engine.links, LINK_COLUMNS), (engine.sim[None], SIM_COLUMNS))
    return not any(
        np.delete(table, columns, axis=1).any() for table, columns in (*tables, (engine.switches, SWITCH_COLUMNS))
    )


def walk(route: Ints, first: Ints) -> tuple[Ints, Ints]:
    """(which, link) of all hops of the ways that begin at these places."""
    return tuple(map(np.concatenate, zip(*_hops(route, first), strict=True)))  # type: ignore[return-value]


def _hops(route: Ints, first: Ints) -> Iterator[tuple[Ints, Ints]]:
    which, place = np.arange(len(first)), first
    yield which[:0], place[:0]
    while len(which):
        link = route[place]
        on = link >= 0
        which, place, link = which[on], place[on] + 1, link[on]
        yield which, link


def streams_of(engine: Engine, flows: Ints) -> Streams:
    """Those flows, and how long their packets take; cost: O(N hops)."""
    links, sim = engine.links, engine.sim
    there, back = (walk(engine.route, engine.flows[flows, column]) for column in (k.WAY, k.WAY_BACK))
    every = _packets_per_ack(sim)
    load, trip = np.zeros(len(links)), np.zeros(len(flows))
    for (which, link), column, share in ((there, k.DATA_TIME, 1), (back, k.ACK_TIME, every)):
        load += np.bincount(link, links[link, column] / share, len(links))
        trip += np.bincount(which, links[link, column] + links[link, k.DELAY], len(flows))
    return Streams(flows, max(1, int(load.max())), int(trip.max()), there, back)


def look(engine: Engine, streams: Streams, now: int) -> View:
    """The state after all events up to ``now``."""
    from xsim.sim.kernels.packet_skip import pending, queued

    rows, links, flows, sim = engine.rows, engine.links, engine.flows, engine.sim
    found, where = np.empty((2, len(rows)), dtype=np.int64)
    events = found[: pending(rows, engine.wheel, engine.bucket, engine.heap, sim, found)].copy()
    events = events[np.lexsort((rows[events, k.SERIAL], rows[events, k.TIME]))]
    count = queued(rows, links, found, where)
    waiting, where = found[:count].copy(), where[:count]
    ours = np.zeros(len(flows), dtype=np.bool_)
    ours[streams.flows] = True
    kind = rows[events, k.KIND] & k.KINDS
    packet, port = np.isin(kind, PACKETS), np.isin(kind, OF_PORTS)
    moves = packet | port | (kind == k.RETRY) & ours[np.where(port, 0, rows[events, k.FLOW])]
    events, fixed = events[moves], events[~moves]
    carried = np.concatenate((events, waiting))
    carried = carried[np.isin(rows[carried, k.KIND] & k.KINDS, OF_PORTS, invert=True)]
    odd = np.isin(rows[fixed, k.KIND] & k.KINDS, (k.START, k.RELEASE, k.RETRY), invert=True)
    return View(
        now=now,
        events=events,
        waiting=waiting,
        fixed=fixed,
        foreign=bool(odd.any() or not ours[rows[carried, k.FLOW]].all()),
        relative=_relative(engine, streams, now, events, waiting, where),
        kept=(links[:, LINK_KEPT], flows[:, FLOW_KEPT]),
        sways=links[:, LINK_SWAYS],
        sent=flows[streams.flows, k.NEXT_BYTE],
        received=flows[streams.flows, k.RECEIVED],
        arriving=_arriving(engine, streams, events),
        paused=links[:, LINK_PAUSED],
        issued=int(sim[k.ISSUED]),
        worked=int(sim[k.EVENTS]),
    )


def _relative(
    engine: Engine, streams: Streams, now: int, events: Ints, waiting: Ints, where: Ints
) -> tuple[NDArray[np.int64] | NDArray[np.float64], ...]:
    """Equal at two instants if what follows is the same, but for the instants and the bytes."""
    rows, links, flows = engine.rows, engine.links, engine.flows
    sent = flows[:, k.NEXT_BYTE]
    due = np.stack((*_relative_rows(engine, events, sent), rows[events, k.TIME] - now, rows[events, k.SERIAL]))
    hidden = np.flatnonzero((links[:, k.FREE_AT] > now) & (links[:, k.FREE_SET] == 0))
    ends = np.zeros((len(due), len(hidden)), dtype=np.int64)
    ends[0], ends[1], ends[-2] = UNSET_FREE, hidden, links[hidden, k.FREE_AT] - now
    ends[-1] = links[hidden, k.FREE_SERIAL]
    due = np.concatenate((due, ends), axis=1)
    due = due[:-1, np.lexsort((due[-1], due[-2]))]
    own = flows[streams.flows]
    stream = own[:, FLOW_STREAM] - own[:, [k.NEXT_BYTE]]
    instants = np.maximum(own[:, FLOW_INSTANTS] - now, 0)
    paused = links[:, k.PAUSED] * (now - links[:, k.PAUSED_SINCE])
    memory = engine.memory[streams.flows]
    if memory.shape[1]:
        for position in engine.control.positions or ():
            column = k.OWN + position
            memory[:, column] -= own[:, k.NEXT_BYTE] * (memory[:, column] > 0)
    waits = np.stack((*_relative_rows(engine, waiting, sent), where))
    return due, waits, links[:, LINK_SWAYS], paused, engine.switches.copy(), stream, instants, memory


def _relative_rows(engine: Engine, chosen: Ints, sent: Ints) -> Iterator[Ints]:
    rows = engine.rows
    kind, subject = rows[chosen, k.KIND], rows[chosen, k.FLOW]
    packet = np.isin(kind & k.KINDS, PACKETS)
    yield kind
    yield subject
    for column, base in ((k.NUMBER, sent[np.where(packet, subject, 0)] if len(sent) else 0), (k.SIZE, 0), (k.HOP, 0)):
        yield np.where(packet, rows[chosen, column] - base, 0)
    yield (kind == k.WAKE) & (engine.links[np.where(kind == k.WAKE, subject, 0), k.WAKE_ROW] == chosen)
    if engine.sim[k.RECORDED]:
        yield np.where(packet, engine.seen[chosen, k.SENT_AT] - rows[chosen, k.TIME], 0)


def _arriving(engine: Engine, streams: Streams, events: Ints) -> Ints:
    """2 x N: the first byte of the next packet to arrive of each stream, and when."""
    rows = engine.rows
    data = events[rows[events, k.KIND] & k.KINDS == k.DATA]
    data = data[engine.route[rows[data, k.HOP] + 1] < 0][::-1]  # of several of a flow, the earliest is entered last
    found = np.full((2, len(engine.flows)), -1, dtype=np.int64)
    found[0, rows[data, k.FLOW]], found[1, rows[data, k.FLOW]] = rows[data, k.NUMBER], rows[data, k.TIME]
    return found[:, streams.flows]


def move(engine: Engine, streams: Streams, view: View, shift: Shift) -> None:
    """Make it so late, as if the streams had gone on as they went; ``view`` is of this instant."""
    from xsim.sim.kernels.packet_skip import enter

    rows, links, flows, sim = engine.rows, engine.links, engine.flows, engine.sim
    bytes_on = np.zeros(len(flows), dtype=np.int64)
    bytes_on[streams.flows] = shift.stream
    for chosen in (view.events, view.waiting):
        packets = chosen[np.isin(rows[chosen, k.KIND] & k.KINDS, PACKETS)]
        rows[packets, k.NUMBER] += bytes_on[rows[packets, k.FLOW]]
        if sim[k.RECORDED]:
            engine.seen[packets, k.SENT_AT] += shift.ticks
    rows[view.events, k.TIME] += shift.ticks
    rows[view.events, k.SERIAL] += shift.numbers
    _move_links(links, view.now, shift)
    _count(engine, streams, shift)
    own = flows[streams.flows]
    own[:, FLOW_STREAM] += shift.stream[:, None]
    own[:, k.AVAILABLE] += shift.ticks * (own[:, k.AVAILABLE] > view.now)
    waits = own[:, k.RETRY_AT] > 0
    own[:, k.RETRY_AT] += shift.ticks * waits
    own[:, k.RETRY_NUMBER] += shift.numbers * waits
    flows[streams.flows] = own
    for position in engine.control.positions or ():
        column = k.OWN + position
        engine.memory[streams.flows, column] += shift.stream * (engine.memory[streams.flows, column] > 0)
    sim[k.ISSUED] += shift.numbers
    events = np.concatenate((view.events, view.fixed))
    events = events[np.lexsort((rows[events, k.SERIAL], rows[events, k.TIME]))]
    engine.widen_heap(len(events))
    enter(events, view.now + shift.ticks, rows, engine.wheel, engine.heap, sim)


def _move_links(links: Ints, now: int, shift: Shift) -> None:
    busy, paused = links[:, k.FREE_AT] > now, links[:, k.PAUSED] > 0
    links[busy, k.FREE_AT] += shift.ticks
    links[busy, k.FREE_SERIAL] += shift.numbers
    links[paused, k.PAUSED_SINCE] += shift.ticks


def _count(engine: Engine, streams: Streams, shift: Shift) -> None:
    """What the links carry meanwhile: data, acknowledgements, pause frames and the leave to go on."""
    links, sim = engine.links, engine.sim
    packets = shift.stream // sim[k.PAYLOAD]
    acks = packets // _packets_per_ack(sim)
    data_size = sim[k.PAYLOAD] + sim[k.HEADER]
    for (which, link), count, column, size in (
        (streams.there, packets, k.DATA_TIME, data_size),
        (streams.back, acks, k.ACK_TIME, sim[k.ACK_SIZE]),
    ):
        passed = np.zeros(len(links), dtype=np.int64)
        np.add.at(passed, link, count[which])
        links[:, k.PACKETS] += passed
        links[:, k.BYTES] += passed * size
        links[:, k.BUSY] += passed * links[:, column]
    links[:, LINK_PAUSED] += shift.paused
    told = np.flatnonzero(shift.paused[:, 0])
    frames, back = 2 * shift.paused[told, 0], links[told, k.BACK]
    lasts = (sim[k.PFC_SIZE] * 8 * sim[k.SCALE] - sim[k.BELOW]) // links[back, k.RATE]
    for column, each in ((k.PACKETS, 1), (k.BYTES, sim[k.PFC_SIZE]), (k.BUSY, lasts)):
        np.add.at(links[:, column], back, frames * each)


def _packets_per_ack(sim: Ints) -> int:
    return max(1, int(-(-sim[k.ACK_EVERY] // sim[k.PAYLOAD])))
