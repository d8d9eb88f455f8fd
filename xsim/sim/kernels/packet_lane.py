"""Traffic classes: what each has of a link for itself, and whose turn it is where several wait.

A class has a *lane* of every link: a queue at its transmitter, pauses and credit of its own, and at its far end its own
share of the switch's memory. The lane of the first class is the link's own row; those of the others stand in blocks of
rows behind all links. What a link has once, its transmitter and its flows, is in its own row alone.

In the order of ns-3's RDMA switches class 0 is served before all others, and the others in turn, a packet each; a host
serves what answers before what is new, and its flows in turn, whatever their class. In strict order the smaller number
is served first everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import rare_kernel
from xsim.sim.kernels.packet_columns import (
    ACKED,
    AVAILABLE,
    BACKLOG,
    CLASSES,
    EXEMPT,
    FINISHED,
    FLOWS_AT,
    FLOWS_HERE,
    FULL_PAYLOAD,
    HEAD,
    KIND,
    LANE,
    LANE_AT,
    LINKS,
    NEXT_BYTE,
    NOW,
    OVERHEAD,
    PAUSED,
    POSTED,
    SERVED,
    SERVED_LANE,
    SIZE,
    STATE,
    STRICT,
    WINDOW,
)
from xsim.sim.kernels.packet_credit import may_send

__all__ = ["flow_of_lanes", "lane_of", "next_lane", "others_wait", "port_of", "queued_bytes"]

Ints = NDArray[np.int64]


@rare_kernel
def lane_of(link: int, row: int, rows: Ints, sim: Ints) -> int:
    """The lane that the packet takes of the link; where there is one class, the link."""
    return int(link + (rows[row, KIND] >> LANE_AT) * sim[LINKS])


@rare_kernel
def port_of(lane: int, sim: Ints) -> int:
    """The link of the lane."""
    return int(lane % sim[LINKS])


@rare_kernel
def others_wait(link: int, links: Ints, sim: Ints) -> bool:
    """Whether a packet waits in a lane beside the first."""
    found = False
    for place in range(1, sim[CLASSES] + 1):
        found |= links[link + place * sim[LINKS], HEAD] >= 0
    return found


@rare_kernel
def queued_bytes(link: int, links: Ints, sim: Ints) -> int:
    """Bytes that wait at the port, of all lanes."""
    found = links[link, BACKLOG]
    for place in range(1, sim[CLASSES] + 1):
        found += links[link + place * sim[LINKS], BACKLOG]
    return int(found)


@rare_kernel
def next_lane(link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> int:
    """The lane whose first packet an idle port sends now, its credit taken; -1 if none may go."""
    count = sim[CLASSES] + 1
    last = count - 1 if sim[STRICT] else links[link, SERVED_LANE]
    for step in range(-sim[EXEMPT], count):
        place = 0 if step < 0 else (last + 1 + step) % count
        lane = link + place * sim[LINKS]
        row = links[lane, HEAD]
        if row >= 0 and links[lane, PAUSED] == 0 and may_send(rows[row, SIZE], lane, rows, links, wheel, heap, sim):
            if place >= sim[EXEMPT]:
                links[link, SERVED_LANE] = place
            return int(lane)
    return -1


@rare_kernel
def flow_of_lanes(
    link: int, rows: Ints, links: Ints, flows: Ints, turns: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> tuple[int, int]:
    """Place of the flow that sends now, its credit taken, -1 if none may; and of the first that has finished.

    The second is among those that the search came by; it is their number if it came by none. A flow waits with what
    waits in the queue of its lane, and that does so only if it may not go.
    """
    first, count, shut = links[link, FLOWS_AT], links[link, FLOWS_HERE], 0
    leaving = count
    for place in range(sim[CLASSES] + 1):
        lane = link + place * sim[LINKS]
        if links[lane, PAUSED] or links[lane, HEAD] >= 0:
            shut |= 1 << place
    for rank in range(sim[CLASSES] + 1 if sim[STRICT] else 1):
        served = links[link + rank * sim[LINKS], SERVED]
        if sim[STRICT] and shut >> rank & 1:
            continue
        for step in range(1, count + 1):
            place = (served + step) % count
            flow = turns[first + place]
            own = flows[flow, LANE] >> LANE_AT
            sent, window = flows[flow, NEXT_BYTE], flows[flow, WINDOW]
            if sent < flows[flow, POSTED] and (window == 0 or sent - flows[flow, ACKED] < window):
                meant = own == rank or not sim[STRICT]
                if meant and not shut >> own & 1 and flows[flow, AVAILABLE] <= sim[NOW]:
                    size = min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - sent) + flows[flow, OVERHEAD]
                    if may_send(size, link + own * sim[LINKS], rows, links, wheel, heap, sim):
                        return place, leaving
                    shut |= 1 << own
            elif flows[flow, STATE] == FINISHED:
                leaving = min(leaving, place)
    return -1, leaving
