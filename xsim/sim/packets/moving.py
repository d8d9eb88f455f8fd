"""All that is under way, moved to a later instant.

Every column of the kernel's tables is of one kind here. One that is not, and is in use, makes a simulation one whose
state nobody knows how to move: see ``known``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.sending import Streams, lasts, packets_per_ack
from xsim.sim.packets.turns import know_nothing

if TYPE_CHECKING:
    from xsim.sim.packets.views import View

__all__ = ["Shift", "known", "move"]

Ints = NDArray[np.int64]

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
# POSTED, CARRIES, DONE, BEGAN, READY_AT and RECEIVER_END stay within a round, see ``rounds`` for what is beyond it.
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
    *(k.DATA_SIZE, k.BUFFER, k.SIGNALS, k.ROOM, k.SLOTS, k.ASKING, k.ASKING_LAST, k.ASK_AT, k.CUTS, k.SEVERED),
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
    *(k.GAVE_UP, k.ENDED, k.LOGGED, k.ALARMS, k.ALARMED_AT, k.LINKS, k.KEPT, k.FEW),
)
# Of ``sim``, what nobody knows how to move: packets that overtake one another leave marks in a table of their own,
# receivers that ask for packets keep lists, switches that choose know what they chose, and links have as many queues as
# there are classes.
NOT_MOVED = (k.SELECTIVE, k.QUEUE, k.ADAPTIVE, k.CLASSES, k.STRICT, k.EXEMPT, k.BY_PACKET)
PACKETS = (k.DATA, k.ACK)
OF_PORTS = (k.FREE, k.WAKE, k.PAUSE, k.RESUME, k.CREDIT)
FLOW_UNKNOWN, LINK_UNKNOWN, SWITCH_UNKNOWN, SIM_UNKNOWN = (
    [column for column in range(count) if column not in columns]
    for count, columns in (
        (k.FLOW_COLUMNS, FLOW_COLUMNS),
        (k.LINK_COLUMNS, LINK_COLUMNS),
        (k.SWITCH_COLUMNS, SWITCH_COLUMNS),
        (k.SIM_COLUMNS, SIM_COLUMNS),
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """How far all moves.

    Attributes:
        ticks: In time.
        stream: Bytes of each stream, and in how many packets these are: ``full`` ones, and ``parts`` of such.
        numbers: Of events.
        paused: What pauses add to links.
    """

    ticks: int
    stream: Ints
    numbers: int
    paused: Ints
    full: Ints
    parts: Ints


def known(engine: Engine) -> bool:
    """Whether all columns in use are among those above."""
    tables = ((engine.flows, FLOW_UNKNOWN), (engine.links, LINK_UNKNOWN), (engine.switches, SWITCH_UNKNOWN))
    return not engine.sim[SIM_UNKNOWN].any() and not any(table[:, columns].any() for table, columns in tables)


def move(engine: Engine, streams: Streams, view: View, shift: Shift) -> None:
    """Make it so late, as if the streams had gone on as they went; ``view`` is of this instant."""
    from xsim.sim.kernels.packet_skip import enter

    rows, links, flows, sim = engine.rows, engine.links, engine.flows, engine.sim
    bytes_on = np.zeros(len(flows), dtype=np.int64)
    bytes_on[streams.flows] = shift.stream
    for chosen in (view.events, view.waiting):
        kind = rows[chosen, k.KIND] & k.KINDS
        packets = chosen[(kind == k.DATA) | (kind == k.ACK)]
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
    know_nothing(links, engine.turns)
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
    payload, overhead = engine.flows[flows, k.FULL_PAYLOAD], engine.flows[flows, k.OVERHEAD]
    part_bytes = overhead + (shift.stream - shift.full * payload) // np.maximum(1, shift.parts)
    replies = np.full(len(flows), sim[k.ACK_SIZE])
    acks = (shift.full + shift.parts) // packets_per_ack(engine, flows)
    for (which, link), count, size in (
        (streams.there, shift.full, streams.sizes),
        (streams.there, shift.parts, part_bytes),
        (streams.back, acks, replies),
    ):
        _add(links, link, count[which], size[which], lasts(engine, size[which], link))
    links[:, LINK_PAUSED] += shift.paused
    told = np.flatnonzero(shift.paused[:, 0])
    back, size = links[told, k.BACK], np.full(len(told), sim[k.PFC_SIZE])
    _add(links, back, 2 * shift.paused[told, 0], size, lasts(engine, size, back))


def _add(links: Ints, link: Ints, count: Ints, size: Ints, took: Ints) -> None:
    for column, each in ((k.PACKETS, 1), (k.BYTES, size), (k.BUSY, took)):
        np.add.at(links[:, column], link, count * each)
