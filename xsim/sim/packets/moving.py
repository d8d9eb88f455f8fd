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

__all__ = [
    "Glance",
    "Shift",
    "Streams",
    "View",
    "known",
    "lasts",
    "look",
    "move",
    "packets_per_ack",
    "sizes_of",
    "streams_of",
]

Ints = NDArray[np.int64]
Table = NDArray[np.int64] | NDArray[np.float64]

# Of a flow: bytes of its stream, which grow as it goes on (ACKED only where there are acknowledgements); instants;
# numbers of events; all else, which stays.
FLOW_STREAM = (k.NEXT_BYTE, k.ACKED, k.RECEIVED, k.MILESTONE)
FLOW_INSTANTS = (k.AVAILABLE, k.RETRY_AT)
FLOW_NUMBERS = (k.RETRY_NUMBER,)
FLOW_KEPT = (
    *(k.POSTED, k.WINDOW, k.WAY, k.WAY_BACK, k.STATE, k.BYTES_PER_ROUND, k.OFFSET, k.AWAITED, k.FOLLOWERS),
    *(k.FOLLOWERS_END, k.BEGAN, k.SENDER_END, k.RECEIVER_END, k.GAP, k.GAP_UNTIL, k.GO_BACKS, k.FLOW_RATE),
    *(k.LAST_SIZE, k.TRIES, k.RETRY_SET, k.CYCLE, k.CYCLE_LEN, k.ROUNDS, k.DONE, k.CARRIES, k.READY_AT),
    *(k.SRC_PARTY, k.DST_PARTY, k.EXTRA, k.IN_TURN, k.FULL_PAYLOAD, k.OVERHEAD, k.INSIDE),
    *(k.BASE, k.ARRIVED, k.WORDS, k.MISSING, k.COMING, k.TO_ASK, k.NEXT_ASKED, k.ALLOWED),
    *(k.RESEND, k.RESEND_LAST, k.FIRST_PACKETS, k.WAYS, k.STRIDE, k.SPRAYED, k.STRAY),
    k.LANE,
)
# Of a link: what its flows add to; what pauses add to; instants; numbers of events; rows, seen with the events; what a
# steady link may go to and fro between; all else.
LINK_CARRIED = (k.BYTES, k.PACKETS, k.BUSY)
LINK_PAUSED = (k.PAUSES, k.PAUSED_FOR)
LINK_INSTANTS = (k.FREE_AT, k.PAUSED_SINCE)
LINK_NUMBERS = (k.FREE_SERIAL,)
LINK_ROWS = (k.HEAD, k.URGENT, k.TAIL, k.URGENT_TAIL, k.WAKE_ROW, k.OWED, k.OWED_LAST)
LINK_SWAYS = (k.FREE_SET, k.PAUSED, k.BACKLOG, k.TAKEN, k.OVER, k.PAUSING, k.SERVED, k.CREDITS, k.CREDIT_CALL)
LINK_KEPT = (
    *(k.DELAY, k.DATA_TIME, k.ACK_TIME, k.FLOWS_HERE, k.RATE, k.INTO, k.SHIFT, k.HEADROOM, k.BACK),
    *(k.KMIN, k.KMAX, k.DICE, k.MARKS, k.FLOWS_AT, k.CARRIED, k.DROPS, k.LOST),
    *(k.DATA_SIZE, k.BUFFER, k.SIGNALS, k.ASKING, k.ASKING_LAST, k.ASK_AT, k.CUTS, k.SEVERED),
    k.SERVED_LANE,
)
FLOW_COLUMNS = (*FLOW_STREAM, *FLOW_INSTANTS, *FLOW_NUMBERS, *FLOW_KEPT)
LINK_COLUMNS = (*LINK_CARRIED, *LINK_PAUSED, *LINK_INSTANTS, *LINK_NUMBERS, *LINK_ROWS, *LINK_SWAYS, *LINK_KEPT)
SWITCH_COLUMNS = (k.SHARED, k.POOL)
ROW_COLUMNS = (k.TIME, k.SERIAL, k.NEXT, k.KIND, k.FLOW, k.NUMBER, k.SIZE, k.HOP)
SIM_COLUMNS = (
    *(k.NOW, k.TURN, k.ISSUED, k.CURSOR, k.LEFT, k.HEAPED, k.ROWS_FREE, k.ROWS_LEFT, k.EVENTS, k.UNFINISHED),
    *(k.MARGIN, k.WIDTH, k.SCALE, k.ACK_SIZE, k.PFC_SIZE, k.ACK_EVERY, k.RESERVE, k.RESUME_GAP, k.GAP_TIME),
    *(k.AT_RECEIVER, k.CONTROLLED, k.RECORDED, k.WINDOW_FOLLOWS, k.REPACED, k.BELOW, k.RETRY_TIME, k.RETRIES),
    *(k.GAVE_UP, k.ENDED, k.LOGGED, k.ALARMS, k.ALARMED_AT, k.LINKS, k.KEPT),
)
# Of ``sim``, what nobody knows how to move: packets that overtake one another leave marks in a table of their own,
# receivers that ask for packets keep lists, switches that choose know what they chose, and links have as many queues as
# there are classes.
NOT_MOVED = (k.SELECTIVE, k.QUEUE, k.ADAPTIVE, k.CLASSES, k.STRICT, k.EXEMPT)
PACKETS = (k.DATA, k.ACK)
OF_PORTS = (k.FREE, k.WAKE, k.PAUSE, k.RESUME, k.CREDIT)
UNSET_FREE, OWED_CREDIT = k.KINDS + 1, k.KINDS + 2  # stand for what comes and is no event


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
class Glance:
    """What can be told of an instant without looking at what is under way; after it all events to come lie.

    Attributes:
        now: The instant.
        relative: Streams relative to the instant and to the bytes sent so far.
        kept: What stays, of links and flows.
        paused: Columns of links that pauses add to.
        queued: Bytes that wait at each link.
        sent, received: Per stream.
        issued, worked: Numbers of events given out; events processed.
    """

    now: int
    relative: tuple[Table, ...]
    kept: tuple[Ints, Ints]
    paused: Ints
    queued: Ints
    sent: Ints
    received: Ints
    issued: int
    worked: int


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What is under way at an instant.

    Attributes:
        events, waiting: Rows of the events that move with the streams, in their order; rows at ports.
        owed: Rows of credit that is to come, but calls nobody.
        fixed: Rows of the events that do not move.
        foreign: Whether something is under way that is no packet of the streams, nor known.
        relative: All of it, relative to the instant and to the bytes sent so far.
        arriving: Per stream the first byte of its next packet to arrive, and when; -1 if none is on its last link.
    """

    now: int
    events: Ints
    waiting: Ints
    owed: Ints
    fixed: Ints
    foreign: bool
    relative: tuple[Table, ...]
    arriving: Ints


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


def _walk(route: Ints, first: Ints) -> tuple[Ints, Ints]:
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
    links, own = engine.links, engine.flows[flows]
    there, back = (_walk(engine.route, own[:, column]) for column in (k.WAY, k.WAY_BACK))
    answered = own[back[0], k.INSIDE] == 0
    back = back[0][answered], back[1][answered]
    load, trip, each = np.zeros(len(links)), np.zeros(len(flows)), packets_per_ack(engine, flows)
    replies = np.full(len(flows), engine.sim[k.ACK_SIZE])
    for (which, link), size, share in ((there, sizes_of(engine, flows), np.ones(len(flows))), (back, replies, each)):
        took = lasts(engine, size[which], link)
        load += np.bincount(link, took / share[which], len(links))
        trip += np.bincount(which, took + links[link, k.DELAY], len(flows))
    return Streams(flows, max(1, int(load.max())), int(trip.max()), there, back)


def sizes_of(engine: Engine, flows: Ints) -> Ints:
    """Of full packets of these flows, all told."""
    sizes: Ints = engine.flows[flows, k.FULL_PAYLOAD] + engine.flows[flows, k.OVERHEAD]
    return sizes


def packets_per_ack(engine: Engine, flows: Ints) -> Ints:
    """How many packets these flows have acknowledged at once."""
    each: Ints = np.maximum(1, -(-engine.sim[k.ACK_EVERY] // engine.flows[flows, k.FULL_PAYLOAD]))
    return each


def lasts(engine: Engine, size: Ints, link: Ints) -> Ints:
    """Ticks in which packets of these sizes are sent."""
    lasts: Ints = (size * 8 * engine.sim[k.SCALE] - engine.sim[k.BELOW]) // engine.links[link, k.RATE]
    return lasts


def glance(engine: Engine, streams: Streams, now: int) -> Glance:
    """The state after all events up to ``now``; cost: O(links + flows)."""
    links, flows, sim = engine.links, engine.flows, engine.sim
    return Glance(
        now=now,
        relative=_relative_flows(engine, streams, now),
        kept=(links[:, LINK_KEPT], flows[:, FLOW_KEPT]),
        paused=links[:, LINK_PAUSED],
        queued=links[:, k.BACKLOG].copy(),
        sent=flows[streams.flows, k.NEXT_BYTE],
        received=flows[streams.flows, k.RECEIVED],
        issued=int(sim[k.ISSUED]),
        worked=int(sim[k.EVENTS]),
    )


def look(engine: Engine, streams: Streams, now: int) -> View:
    """The state after all events up to ``now``."""
    from xsim.sim.kernels.packet_skip import pending, promised, queued

    rows, links, flows, sim = engine.rows, engine.links, engine.flows, engine.sim
    found, where = np.empty((2, len(rows)), dtype=np.int64)
    owed = found[: promised(rows, links, found)].copy()
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
        owed=owed[rows[owed, k.TIME] > now],
        fixed=fixed,
        foreign=bool(odd.any() or not ours[rows[carried, k.FLOW]].all()),
        relative=_relative(engine, now, events, owed, (waiting, where)),
        arriving=_arriving(engine, streams, events),
    )


def _relative(engine: Engine, now: int, events: Ints, owed: Ints, waits: tuple[Ints, Ints]) -> tuple[Table, ...]:
    """Equal at two instants if what follows is the same, but for the instants and the bytes."""
    rows, links = engine.rows, engine.links
    come = rows[owed, k.TIME] <= now
    sways = links[:, LINK_SWAYS]
    np.add.at(sways[:, LINK_SWAYS.index(k.CREDITS)], rows[owed[come], k.FLOW], rows[owed[come], k.SIZE])
    paused = links[:, k.PAUSED] * (now - links[:, k.PAUSED_SINCE])
    waiting = np.stack((*_relative_rows(engine, waits[0]), waits[1]))
    due = _due(engine, now, events, owed[~come])
    return due, waiting, sways, paused, engine.switches.copy()


def _due(engine: Engine, now: int, events: Ints, owed: Ints) -> Ints:
    """What comes, in its order: events, credit that calls nobody, and ends of transmissions that are no events."""
    rows, links = engine.rows, engine.links
    coming = np.concatenate((events, owed))
    due = np.stack((*_relative_rows(engine, coming), rows[coming, k.TIME] - now, rows[coming, k.SERIAL]))
    due[0, len(events) :] = OWED_CREDIT
    hidden = np.flatnonzero((links[:, k.FREE_AT] > now) & (links[:, k.FREE_SET] == 0))
    ends = np.zeros((len(due), len(hidden)), dtype=np.int64)
    ends[0], ends[1], ends[-2] = UNSET_FREE, hidden, links[hidden, k.FREE_AT] - now
    ends[-1] = links[hidden, k.FREE_SERIAL]
    due = np.concatenate((due, ends), axis=1)
    return due[:-1, np.lexsort((due[-1], due[-2]))]


def _relative_flows(engine: Engine, streams: Streams, now: int) -> tuple[Table, ...]:
    own = engine.flows[streams.flows]
    stream = own[:, FLOW_STREAM] - own[:, [k.NEXT_BYTE]]
    stream[:, FLOW_STREAM.index(k.ACKED)] *= own[:, k.INSIDE] == 0
    instants = np.maximum(own[:, FLOW_INSTANTS] - now, 0)
    memory = engine.memory[streams.flows]
    if memory.shape[1]:
        for position in engine.control.positions or ():
            column = k.OWN + position
            memory[:, column] -= own[:, k.NEXT_BYTE] * (memory[:, column] > 0)
    return stream, instants, memory


def _relative_rows(engine: Engine, chosen: Ints) -> Iterator[Ints]:
    rows, sent = engine.rows, engine.flows[:, k.NEXT_BYTE]
    kind, subject = rows[chosen, k.KIND], rows[chosen, k.FLOW]
    packet, wake = np.isin(kind & k.KINDS, PACKETS), kind == k.WAKE
    yield kind
    yield subject
    yield np.where(packet, rows[chosen, k.NUMBER] - sent[np.where(packet, subject, 0)], 0)
    yield np.where(packet | (kind == k.CREDIT), rows[chosen, k.SIZE], 0)
    yield np.where(packet, rows[chosen, k.HOP], 0)
    yield wake & (engine.links[np.where(wake, subject, 0), k.WAKE_ROW] == chosen)
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
    for chosen in (view.events, view.owed):
        rows[chosen, k.TIME] += shift.ticks
        rows[chosen, k.SERIAL] += shift.numbers
    _move_links(links, view.now, shift)
    _count(engine, streams, shift)
    own = flows[streams.flows]
    own[:, FLOW_STREAM] += shift.stream[:, None]
    own[:, k.ACKED] -= shift.stream * own[:, k.INSIDE]
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
    links, sim, flows = engine.links, engine.sim, streams.flows
    packets = shift.stream // engine.flows[flows, k.FULL_PAYLOAD]
    replies = np.full(len(flows), sim[k.ACK_SIZE])
    for (which, link), count, size in (
        (streams.there, packets, sizes_of(engine, flows)),
        (streams.back, packets // packets_per_ack(engine, flows), replies),
    ):
        _add(links, link, count[which], size[which], lasts(engine, size[which], link))
    links[:, LINK_PAUSED] += shift.paused
    told = np.flatnonzero(shift.paused[:, 0])
    back, size = links[told, k.BACK], np.full(len(told), sim[k.PFC_SIZE])
    _add(links, back, 2 * shift.paused[told, 0], size, lasts(engine, size, back))


def _add(links: Ints, link: Ints, count: Ints, size: Ints, took: Ints) -> None:
    for column, each in ((k.PACKETS, 1), (k.BYTES, size), (k.BUSY, took)):
        np.add.at(links[:, column], link, count * each)
