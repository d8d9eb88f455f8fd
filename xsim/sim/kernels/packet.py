"""Packets from event to event: the protocol of lossless Ethernet hosts and shared-buffer switches.

The model in one paragraph. A full-duplex wire is two directed links; each has a port that stores and forwards. A packet
that has arrived at a switch goes to the queue of the next port of its way, is accounted to the port it came by, and may
make the switch pause that port's sender. A host sends acknowledgements before data, and its flows in turn. A receiver
acknowledges in order and asks once for what is missing; the sender then goes back. Events of one instant are taken in
the order in which they were scheduled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel, part
from xsim.sim.kernels.packet_ask import ask, refuse, want
from xsim.sim.kernels.packet_clock import alarms_alone, next_event, recycle
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ADAPTIVE,
    ALARM,
    ALARMED,
    ALARMED_AT,
    ALARMS,
    ASK,
    BEGIN,
    BUFFER,
    CALL,
    CLASSES,
    CONTROLLED,
    CREDIT,
    CREDIT_CALL,
    CREDITS,
    CUT,
    DATA,
    DOWN,
    ENDED,
    EVENTS,
    FEEDBACK,
    FINISHED,
    FLOW,
    FLOWS_HERE,
    FREE,
    FREE_SET,
    GROW,
    HEAD,
    HEAPED,
    HOP,
    IDLE,
    IN_TURN,
    INSIDE,
    KIND,
    KINDS,
    LATER,
    LOGGED,
    LOSS,
    LOST,
    LOST_HOPE,
    MARGIN,
    MARKED,
    NACK,
    NO_CALL,
    NOW,
    NUMBER,
    PAUSE,
    PAUSED,
    PAUSED_FOR,
    PAUSED_SINCE,
    QUEUE,
    RELEASE,
    RESUME,
    RETRY,
    ROWS_LEFT,
    SERIAL,
    SEVERED,
    SIZE,
    SLOTS,
    START,
    STATE,
    STIR,
    TIME,
    TIMER,
    TURN,
    UNDER_WAY,
    WAKE,
    WAKE_ROW,
    WAY,
    WAY_BACK,
)
from xsim.sim.kernels.packet_control import Law, advise
from xsim.sim.kernels.packet_credit import give_back
from xsim.sim.kernels.packet_crowd import Crowd
from xsim.sim.kernels.packet_flow import begin, release
from xsim.sim.kernels.packet_host import acknowledge, receive, retry
from xsim.sim.kernels.packet_lane import lane_of, others_wait, port_of
from xsim.sim.kernels.packet_link import append, busy, chance, expect_free
from xsim.sim.kernels.packet_port import forward, serve
from xsim.sim.kernels.packet_pull import hear
from xsim.sim.kernels.packet_trim import is_short, pass_on
from xsim.sim.kernels.packet_ways import steer

__all__ = ["run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PATIENCE = 1 << 12  # alarms in a row, before anybody asks whether anything else is to come


@kernel
def run(
    law: Law,
    crowd: Crowd,
    until: int,
    rows: Ints,
    links: Ints,
    chances: Floats,
    switches: Ints,
    flows: Ints,
    state: Floats,
    knobs: Floats,
    seen: Ints,
    arrived: Ints,
    route: Ints,
    forks: Ints,
    turns: Ints,
    members: Ints,
    ended: Ints,
    log: Ints,
    wheel: Ints,
    bucket: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """Process events up to ``until``, but none after an instant in which a party was done; why it stopped."""
    while (
        sim[ROWS_LEFT] >= sim[MARGIN]
        and sim[HEAPED] + sim[MARGIN] <= heap.shape[1]
        and sim[LOGGED] + sim[MARGIN] <= len(log)
    ):
        row = next_event(until if sim[ENDED] == 0 else min(until, sim[NOW]), rows, wheel, bucket, heap, sim)
        if row < 0:
            return LATER if row == -1 else IDLE
        sim[NOW], sim[TURN] = rows[row, TIME], rows[row, SERIAL]
        sim[EVENTS] += 1
        kind, subject, waiting, asked_of, event = rows[row, KIND] & KINDS, rows[row, FLOW], -1, -1, -1
        acked, marked, stirred = 0, False, -1
        if kind <= NACK:
            hop = rows[row, HOP]
            link, out = route[hop], route[hop + 1]
            severed = rows[row, SERIAL] < links[link, SEVERED]
            lost = severed or (chances[link, LOSS] > 0.0 and chance(link, links) < chances[link, LOSS])
            if sim[ADAPTIVE] and out >= 0 and kind == DATA and not lost:
                out = steer(row, link, rows, links, route, forks, sim)
            nowhere = out >= 0 and not lost and links[out, PAUSED] == DOWN
            if (lost or nowhere or out < 0) and links[link, BUFFER] > 0 and not severed:
                give_back(rows[row, SIZE], lane_of(link, row, rows, sim), rows, links, wheel, heap, sim)
            if lost or nowhere:
                links[out if nowhere else link, LOST] += 1
                recycle(row, rows, sim)
            elif out >= 0 and sim[QUEUE] and is_short(row, link, out, rows, links, sim):
                waiting = pass_on(row, link, out, rows, links, route, wheel, heap, sim)
            elif out >= 0:
                waiting = forward(row, link, out, rows, links, switches, seen, wheel, heap, sim)
            elif rows[row, KIND] & (CUT | CALL) or (kind == NACK and sim[QUEUE]):
                waiting, stirred = _exchange_calls(row, rows, links, flows, route, wheel, heap, sim), subject
            elif kind == DATA:
                waiting = receive(row, rows, links, flows, seen, arrived, route, members, ended, log, wheel, heap, sim)
                if flows[subject, INSIDE]:
                    stirred = subject
                elif sim[QUEUE]:
                    asked_of = subject
            else:
                acked, marked, stirred = rows[row, NUMBER], (rows[row, KIND] & MARKED) != 0, subject
                waiting = acknowledge(
                    row, rows, links, flows, seen, arrived, route, members, ended, log, wheel, heap, sim
                )
                if sim[CONTROLLED] and not flows[subject, INSIDE]:
                    event = FEEDBACK
        else:
            recycle(row, rows, sim)
            if kind <= WAKE:
                link = subject if kind >= FREE or sim[CLASSES] == 0 else port_of(subject, sim)
                if _port_wakes(row, kind, subject, rows, links, sim) and not busy(link, links, sim):
                    waiting = link
            elif kind == START:
                new, stirred = not flows[subject, IN_TURN], subject
                waiting = begin(
                    crowd, subject, rows, links, flows, arrived, route, turns, members, ended, log, wheel, heap, sim
                )
                if new and waiting >= 0 and sim[CONTROLLED] and not flows[subject, INSIDE]:
                    event = BEGIN
            elif kind == RELEASE:
                release(subject, rows, flows, route, members, wheel, heap, sim)
            elif kind == ASK:
                waiting = ask(subject, rows, links, flows, wheel, heap, sim)
            elif kind == RETRY:
                waiting, stirred = retry(subject, rows, flows, route, wheel, heap, sim), subject
                if waiting < -1:
                    return LOST_HOPE
            elif flows[subject, STATE] != FINISHED and state[subject, ALARM + kind - TIMER] == sim[NOW]:
                state[subject, ALARM + kind - TIMER] = 0.0
                event, acked, stirred = ALARMED + kind - TIMER, flows[subject, ACKED], subject
        if event >= 0:
            link, told = route[flows[subject, WAY]], row if event == FEEDBACK else 0
            advise(
                law, event, subject, acked, marked, seen[told], link, rows, links, flows, state, knobs, wheel, heap, sim
            )
            if event >= ALARMED and _nothing_but_alarms(rows, flows, wheel, bucket, heap, sim):
                return IDLE
        if stirred >= 0:
            link = route[flows[stirred, WAY]]
            if link >= 0 and links[link, SLOTS] > 0:
                crowd(STIR, stirred, link, links, flows, turns, sim)
        if waiting >= 0:  # something has changed for what waits there: it sends now if it can, or when the port is free
            if not busy(waiting, links, sim):
                serve(
                    crowd, waiting, rows, links, chances, switches, flows, seen, arrived, route, turns, wheel, heap, sim
                )
            elif (
                links[waiting, HEAD] >= 0
                or links[waiting, FLOWS_HERE] > 0
                or (sim[CLASSES] and others_wait(waiting, links, sim))
            ):
                expect_free(waiting, rows, links, wheel, heap, sim)
        if asked_of >= 0:
            want(asked_of, rows, links, flows, route, wheel, heap, sim)
    return GROW


@part
def _nothing_but_alarms(rows: Ints, flows: Ints, wheel: Ints, bucket: Ints, heap: Ints, sim: Ints) -> bool:
    """Whether flows are under way of which no packet will come any more, whatever the congestion controls do.

    Their alarms follow one another for ever, so it is looked up when many have come in a row, then twice as many.
    """
    row = sim[ALARMS] + 1 if sim[ALARMED_AT] == sim[EVENTS] - 1 else 1
    sim[ALARMS], sim[ALARMED_AT] = row, sim[EVENTS]
    if row < PATIENCE or row & (row - 1) or not alarms_alone(rows, wheel, bucket, heap, sim):
        return False
    under_way = 0
    for flow in range(len(flows)):
        under_way += flows[flow, STATE] == UNDER_WAY
    return under_way > 0


@part
def _exchange_calls(
    row: int, rows: Ints, links: Ints, flows: Ints, route: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> int:
    """The header of a packet that was cut has reached its receiver; it, or a call, the sender. The link to prompt."""
    flow = rows[row, FLOW]
    if rows[row, KIND] & KINDS == DATA:
        want(flow, rows, links, flows, route, wheel, heap, sim)
        refuse(row, rows, flows)
        link = route[flows[flow, WAY_BACK]]
        append(row, link, rows, links)
        return int(link)
    hear(row, rows, flows, wheel, heap, sim)
    return int(route[flows[flow, WAY]])


@part
def _port_wakes(row: int, kind: int, link: int, rows: Ints, links: Ints, sim: Ints) -> bool:
    """Note what has happened to the port, or one of its lanes; whether it may have become able to send."""
    if kind == FREE:
        links[link, FREE_SET] = 0
    elif kind == WAKE:
        if links[link, WAKE_ROW] != row:
            return False
        links[link, WAKE_ROW] = -1
    elif kind in (CREDIT, PAUSE, RESUME) and sim[TURN] < links[link, SEVERED]:
        return False  # a message between ends that have forgotten it since
    elif kind == CREDIT:
        links[link, CREDIT_CALL] = NO_CALL
        links[link, CREDITS] += rows[row, SIZE]
    elif kind == PAUSE:
        if links[link, PAUSED] == 0:
            links[link, PAUSED], links[link, PAUSED_SINCE] = 1, sim[NOW]
        return False
    elif links[link, PAUSED]:
        links[link, PAUSED] = 0
        links[link, PAUSED_FOR] += sim[NOW] - links[link, PAUSED_SINCE]
    return True
