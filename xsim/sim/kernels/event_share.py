"""Max-min fair sharing: new rates in the components of flows that have changed. See ``events``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import (
    CAPACITY,
    CHANGED,
    CHANGES,
    FLOWS,
    FREE,
    HEAD,
    HOPS,
    KEY,
    LAST,
    LAST_BEFORE,
    LEFT,
    LEFT_BEFORE,
    LINK,
    MARK,
    NEAR_FLOWS,
    NEAR_LINKS,
    NEW_RATE,
    NEXT,
    NODE_BITS,
    NODE_HOP,
    NOW,
    ORDER,
    ORDERED,
    QUEUE,
    RATE,
    RATE_BEFORE,
    REACHED,
    SEEN,
    STAMP,
    UNSET,
)
from xsim.sim.kernels.event_queue import pop, push, schedule
from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import LONGEST_PS

__all__ = ["lasting_ps", "set_rate", "share_anew"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def share_anew(slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, sim: Ints, lists: Ints) -> None:
    """New rates in every component that has a changed link."""
    sim[STAMP] += 1
    for i in range(sim[CHANGES]):
        link = lists[CHANGED, i]
        links[link, MARK] = 0
        if links[link, FLOWS] > 0 and links[link, REACHED] != sim[STAMP]:
            flow_count = _gather(link, slots, flows, hops, links, widths, sim, lists)
            _fill(slots, flows, hops, links, widths, sim, lists)
            for j in range(flow_count):
                slot = lists[NEAR_FLOWS, j]
                set_rate(slot, flows[slot, NEW_RATE], slots, flows, sim, lists)
    sim[CHANGES] = 0


@kernel
def _gather(
    link: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, sim: Ints, lists: Ints
) -> int:
    """List the flows that ``link`` is connected with and order their links by share; how many flows."""
    members, reached, stamp = lists[NEAR_FLOWS], lists[NEAR_LINKS], sim[STAMP]
    reached[0], flow_count, link_count, visited = link, 0, 1, 0
    links[link, REACHED] = stamp
    while visited < link_count:
        near = reached[visited]
        visited += 1
        widths[near, FREE], links[near, UNSET] = widths[near, CAPACITY], links[near, FLOWS]
        push(widths[near, FREE] / links[near, UNSET], near, widths, sim, lists)
        node = links[near, HEAD]
        while node >= 0:
            slot = node >> NODE_BITS
            if slots[slot, SEEN] != stamp:
                slots[slot, SEEN], flows[slot, NEW_RATE] = stamp, -1.0
                members[flow_count] = slot
                flow_count += 1
                for hop in range(slots[slot, HOPS]):
                    other = hops[slot, hop, LINK]
                    if links[other, REACHED] != stamp:
                        links[other, REACHED] = stamp
                        reached[link_count] = other
                        link_count += 1
            node = hops[slot, node & NODE_HOP, NEXT]
    return flow_count


@kernel
def _fill(slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, sim: Ints, lists: Ints) -> None:
    """Progressive filling: give the flows of the tightest link their equal share, and repeat.

    A link's share only grows while others are served, so an entry that proves old goes back with the new share. Links
    go by share, then number, and all flows of one link get the same: no order of lists is in the rates.
    """
    while sim[ORDERED] > 0:
        tightest = lists[ORDER, 0]
        share = widths[0, KEY]
        pop(widths, sim, lists)
        if links[tightest, UNSET] == 0:
            continue
        current = widths[tightest, FREE] / links[tightest, UNSET]
        if current != share:
            push(current, tightest, widths, sim, lists)
            continue
        node = links[tightest, HEAD]
        while node >= 0:
            slot = node >> NODE_BITS
            if flows[slot, NEW_RATE] < 0.0:
                flows[slot, NEW_RATE] = share
                for hop in range(slots[slot, HOPS]):
                    link = hops[slot, hop, LINK]
                    widths[link, FREE] -= share
                    links[link, UNSET] -= 1
            node = hops[slot, node & NODE_HOP, NEXT]


@kernel
def set_rate(slot: int, rate: float, slots: Ints, flows: Floats, sim: Ints, lists: Ints) -> None:
    """Let the flow go on at ``rate``, and foresee its end; a rate that comes back within the instant never left."""
    if rate == flows[slot, RATE]:
        return
    if slots[slot, LAST] < sim[NOW]:
        flows[slot, LEFT_BEFORE], flows[slot, RATE_BEFORE] = flows[slot, LEFT], flows[slot, RATE]
        slots[slot, LAST_BEFORE] = slots[slot, LAST]
        sent = flows[slot, RATE] * (sim[NOW] - slots[slot, LAST])
        flows[slot, LEFT] = max(0.0, flows[slot, LEFT] - sent)
        slots[slot, LAST] = sim[NOW]
    elif rate == flows[slot, RATE_BEFORE]:
        flows[slot, LEFT] = flows[slot, LEFT_BEFORE]
        slots[slot, LAST] = slots[slot, LAST_BEFORE]
    flows[slot, RATE] = rate
    sending_ps = lasting_ps(flows[slot, LEFT], rate)
    schedule(slot, slots[slot, LAST] + sending_ps, slots, sim, lists[QUEUE])


@kernel
def lasting_ps(left: float, rate: float) -> int:
    """How long ``left`` bytes take."""
    return max(1, int(min(left / rate + 0.5, LONGEST_PS)))
