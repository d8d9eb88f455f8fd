"""All that is under way, seen from an instant, so that two instants can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets import moving as m
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.sending import Streams

__all__ = ["Glance", "Table", "View", "glance", "look"]

Ints = NDArray[np.int64]
Table = NDArray[np.int64] | NDArray[np.float64]

UNSET_FREE, OWED_CREDIT = k.KINDS + 1, k.KINDS + 2  # stand for what comes and is no event
LINK_KEPT, FLOW_KEPT, LINK_PAUSED, LINK_SWAYS = (
    np.array(columns) for columns in (m.LINK_KEPT, m.FLOW_KEPT, m.LINK_PAUSED, m.LINK_SWAYS)
)


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
        paused: Columns of links that pauses add to.
    """

    now: int
    events: Ints
    waiting: Ints
    owed: Ints
    fixed: Ints
    foreign: bool
    relative: tuple[Table, ...]
    arriving: Ints
    paused: Ints


def _kinds(chosen: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether a kind of event is one of these."""
    found = np.zeros(k.KINDS + 1, dtype=np.bool_)
    found[list(chosen)] = True
    return found


PACKET, OF_PORT, KNOWN = _kinds(m.PACKETS), _kinds(m.OF_PORTS), _kinds((k.START, k.RELEASE, k.RETRY))


def glance(engine: Engine, streams: Streams, now: int) -> Glance:
    """The state after all events up to ``now``; cost: O(links + flows)."""
    links, flows, sim = engine.links, engine.flows, engine.sim
    return Glance(
        now=now,
        relative=_relative_flows(engine, streams, now),
        kept=(_columns(links, LINK_KEPT), _columns(flows, FLOW_KEPT)),
        paused=_columns(links, LINK_PAUSED),
        queued=links[:, k.BACKLOG].copy(),
        sent=flows[streams.flows, k.NEXT_BYTE],
        received=flows[streams.flows, k.RECEIVED],
        issued=int(sim[k.ISSUED]),
        worked=int(sim[k.EVENTS]),
    )


def _columns(table: Ints, columns: Ints) -> Ints:
    from xsim.sim.kernels.packet_skip import pick

    found = np.empty((len(table), len(columns)), dtype=np.int64)
    pick(table, columns, found)
    return found


def look(engine: Engine, streams: Streams, now: int, *, starts: bool = False) -> View:
    """The state after all events up to ``now``; of streams that are to begin anew, their ``starts`` move too."""
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
    port = OF_PORT[kind]
    own = (kind == k.RETRY) | (starts & (kind == k.START))
    moves = PACKET[kind] | port | own & ours[np.where(port, 0, rows[events, k.FLOW])]
    events, fixed = events[moves], events[~moves]
    carried = np.concatenate((events, waiting))
    carried = carried[~OF_PORT[rows[carried, k.KIND] & k.KINDS]]
    odd = ~KNOWN[rows[fixed, k.KIND] & k.KINDS]
    return View(
        now=now,
        events=events,
        waiting=waiting,
        owed=owed[rows[owed, k.TIME] > now],
        fixed=fixed,
        foreign=bool(odd.any() or not ours[rows[carried, k.FLOW]].all()),
        relative=_relative(engine, now, events, owed, (waiting, where)),
        arriving=_arriving(engine, streams, events),
        paused=_columns(links, LINK_PAUSED),
    )


def _relative(engine: Engine, now: int, events: Ints, owed: Ints, waits: tuple[Ints, Ints]) -> tuple[Table, ...]:
    """Equal at two instants if what follows is the same, but for the instants and the bytes."""
    rows, links = engine.rows, engine.links
    come = rows[owed, k.TIME] <= now
    sways = _columns(links, LINK_SWAYS)
    np.add.at(sways[:, m.LINK_SWAYS.index(k.CREDITS)], rows[owed[come], k.FLOW], rows[owed[come], k.SIZE])
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
    stream = own[:, m.FLOW_STREAM] - own[:, [k.NEXT_BYTE]]
    stream[:, m.FLOW_STREAM.index(k.ACKED)] *= own[:, k.INSIDE] == 0
    instants = np.maximum(own[:, m.FLOW_INSTANTS] - now, 0)
    memory = engine.memory[streams.flows]
    if memory.shape[1]:
        for position in engine.control.positions or ():
            column = k.OWN + position
            memory[:, column] -= own[:, k.NEXT_BYTE] * (memory[:, column] > 0)
    return stream, instants, memory


def _relative_rows(engine: Engine, chosen: Ints) -> Iterator[Ints]:
    rows, sent = engine.rows[chosen], engine.flows[:, k.NEXT_BYTE]
    kind, subject = rows[:, k.KIND], rows[:, k.FLOW]
    packet, wake = PACKET[kind & k.KINDS], kind == k.WAKE
    yield kind
    yield subject
    yield np.where(packet, rows[:, k.NUMBER] - sent[np.where(packet, subject, 0)], 0)
    yield np.where(packet | (kind == k.CREDIT), rows[:, k.SIZE], 0)
    yield np.where(packet, rows[:, k.HOP], 0)
    yield wake & (engine.links[np.where(wake, subject, 0), k.WAKE_ROW] == chosen)
    if engine.sim[k.RECORDED]:
        yield np.where(packet, engine.seen[chosen, k.SENT_AT] - rows[:, k.TIME], 0)


def _arriving(engine: Engine, streams: Streams, events: Ints) -> Ints:
    """2 x N: the first byte of the next packet to arrive of each stream, and when."""
    rows = engine.rows
    data = events[rows[events, k.KIND] & k.KINDS == k.DATA]
    data = data[engine.route[rows[data, k.HOP] + 1] < 0][::-1]  # of several of a flow, the earliest is entered last
    found = np.full((2, len(engine.flows)), -1, dtype=np.int64)
    found[0, rows[data, k.FLOW]], found[1, rows[data, k.FLOW]] = rows[data, k.NUMBER], rows[data, k.TIME]
    return found[:, streams.flows]
