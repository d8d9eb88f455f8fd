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

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.packet_clock import next_event, recycle
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ALARM,
    ALARMED,
    DATA,
    EVENTS,
    FLOW,
    FREE,
    FREE_SET,
    GROW,
    HOP,
    IDLE,
    KIND,
    KINDS,
    LATER,
    LOSS,
    LOST,
    LOST_HOPE,
    MARGIN,
    NACK,
    NOW,
    OWNER,
    PAUSE,
    PAUSED,
    PAUSED_FOR,
    PAUSED_SINCE,
    RESUME,
    RETRY,
    ROWS_LEFT,
    SERIAL,
    START,
    STATE,
    TIME,
    TIMER,
    TURN,
    UNDER_WAY,
    WAKE,
    WAKE_ROW,
    WAY,
)
from xsim.sim.kernels.packet_control import Law, advise
from xsim.sim.kernels.packet_host import acknowledge, begin, receive, retry, send_turn
from xsim.sim.kernels.packet_link import busy, chance, forward, send_queued

__all__ = ["run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def run(
    law: Law,
    until: int,
    rows: Ints,
    links: Ints,
    chances: Floats,
    switches: Ints,
    flows: Ints,
    state: Floats,
    knobs: Floats,
    seen: Ints,
    route: Ints,
    members: Ints,
    wheel: Ints,
    bucket: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """Process events up to ``until``; why it stopped: ``IDLE``, ``LATER``, ``GROW`` for more rows, or ``LOST_HOPE``."""
    while sim[ROWS_LEFT] >= sim[MARGIN]:
        row = next_event(until, rows, wheel, bucket, heap, sim)
        if row < 0:
            return LATER if row == -1 else IDLE
        sim[NOW], sim[TURN] = rows[row, TIME], rows[row, SERIAL]
        sim[EVENTS] += 1
        kind = rows[row, KIND] & KINDS
        if kind <= NACK:
            hop = rows[row, HOP]
            link, out = route[hop], route[hop + 1]
            if chances[link, LOSS] > 0.0 and chance(link, links) < chances[link, LOSS]:
                links[link, LOST] += 1
                recycle(row, rows, sim)
            elif out >= 0:
                forward(row, link, out, rows, links, chances, switches, seen, route, wheel, heap, sim)
            elif kind == DATA:
                receive(row, rows, links, flows, seen, route, members, wheel, heap, sim)
            else:
                acknowledge(law, row, rows, links, flows, state, knobs, seen, route, members, wheel, heap, sim)
            continue
        subject = rows[row, FLOW]
        recycle(row, rows, sim)
        if kind == START:
            begin(law, subject, rows, links, flows, state, knobs, seen, route, members, wheel, heap, sim)
            continue
        if kind == RETRY:
            if not retry(subject, rows, links, flows, seen, route, members, wheel, heap, sim):
                return LOST_HOPE
            continue
        if kind >= TIMER:
            alarm = kind - TIMER
            if flows[subject, STATE] != UNDER_WAY or state[subject, ALARM + alarm] != sim[NOW]:
                continue
            state[subject, ALARM + alarm] = 0.0
            event, acked, link = ALARMED + alarm, flows[subject, ACKED], route[flows[subject, WAY]]
            advise(law, event, subject, acked, False, seen[0], link, rows, links, flows, state, knobs, wheel, heap, sim)
            continue
        if kind == FREE:
            links[subject, FREE_SET] = 0
        elif kind == WAKE:
            if links[subject, WAKE_ROW] != row:
                continue
            links[subject, WAKE_ROW] = -1
        elif kind == PAUSE:
            if links[subject, PAUSED] == 0:
                links[subject, PAUSED], links[subject, PAUSED_SINCE] = 1, sim[NOW]
            continue
        elif kind == RESUME and links[subject, PAUSED]:
            links[subject, PAUSED] = 0
            links[subject, PAUSED_FOR] += sim[NOW] - links[subject, PAUSED_SINCE]
        if not busy(subject, links, sim):
            if links[subject, OWNER] < 0:
                send_turn(subject, rows, links, flows, seen, members, wheel, heap, sim)
            else:
                send_queued(subject, rows, links, chances, switches, seen, route, wheel, heap, sim)
    return GROW
