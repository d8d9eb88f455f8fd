"""Flows come on their links and leave them; what links and flows were is counted. See ``events``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import (
    BEGAN,
    BUSY,
    BYTES,
    CHANGED,
    CHANGES,
    FLOWS,
    HEAD,
    HOPS,
    LATENCY,
    LINK,
    LONE_RATE,
    MARK,
    NEXT,
    NODE_BITS,
    NODE_HOP,
    NOW,
    PREVIOUS,
    SENT,
    SINCE,
    TIMES,
)
from xsim.sim.kernels.event_share import set_rate
from xsim.sim.kernels.jit import kernel

__all__ = ["count_time", "join", "leave"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def join(slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, lists: Ints) -> None:
    """Put the flow on its links. Alone on all of them it has its rate at once; else they are shared anew later."""
    alone = True
    for hop in range(slots[slot, HOPS]):
        link, node = hops[slot, hop, LINK], slot << NODE_BITS | hop
        head = links[link, HEAD]
        hops[slot, hop, NEXT], hops[slot, hop, PREVIOUS] = head, -1
        if head >= 0:
            alone = False
            hops[head >> NODE_BITS, head & NODE_HOP, PREVIOUS] = node
        else:
            links[link, SINCE] = slots[slot, BEGAN]
        links[link, HEAD] = node
        links[link, FLOWS] += 1
    if alone:
        set_rate(slot, flows[slot, LONE_RATE], slots, flows, sim, lists)
    else:
        _mark(slot, slots, hops, links, sim, lists)


@kernel
def leave(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints, times: Ints) -> None:
    """Take the flow off its links, and count what it was."""
    _mark(slot, slots, hops, links, sim, lists)
    for hop in range(slots[slot, HOPS]):
        link, after, before = hops[slot, hop, LINK], hops[slot, hop, NEXT], hops[slot, hop, PREVIOUS]
        if after >= 0:
            hops[after >> NODE_BITS, after & NODE_HOP, PREVIOUS] = before
        if before >= 0:
            hops[before >> NODE_BITS, before & NODE_HOP, NEXT] = after
        else:
            links[link, HEAD] = after
        links[link, BYTES] += slots[slot, SENT]
        links[link, FLOWS] -= 1
        if links[link, FLOWS] == 0:
            links[link, BUSY] += sim[NOW] - links[link, SINCE]
    count_time(sim[NOW] + slots[slot, LATENCY] - slots[slot, BEGAN], 1, sim, times)


@kernel
def count_time(duration_ps: int, flow_count: int, sim: Ints, times: Ints) -> None:
    """``flow_count`` flows took ``duration_ps``, which is above 0."""
    place = duration_ps % len(times)
    while times[place, 0] != duration_ps and times[place, 0] != 0:
        place = (place + 1) % len(times)
    if times[place, 0] == 0:
        times[place, 0] = duration_ps
        sim[TIMES] += 1
    times[place, 1] += flow_count


@kernel
def _mark(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints) -> None:
    """Links of the flow on which there are others are shared anew at the end of the instant."""
    for hop in range(slots[slot, HOPS]):
        link = hops[slot, hop, LINK]
        if links[link, FLOWS] > 1 and links[link, MARK] == 0:
            links[link, MARK] = 1
            lists[CHANGED, sim[CHANGES]] = link
            sim[CHANGES] += 1
