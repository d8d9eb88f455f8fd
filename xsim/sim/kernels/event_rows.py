"""Rows of graphs from being ready to being done, round by round. See ``events``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import (
    AWAITED,
    BEGAN,
    COUNT,
    CYCLE,
    DONE,
    DST,
    ENDED,
    FLYING,
    HOPS,
    LAST,
    LATENCY,
    LEFT,
    LINK,
    MEMBERS,
    MEMBERS_END,
    NOW,
    ORIGIN,
    OWNER,
    PARTIES,
    QUEUE,
    RATE,
    RATE_BEFORE,
    READY,
    ROUNDS,
    SENDING,
    SENT,
    SRC,
    STACKED,
    STATE,
    USERS,
    WAITING,
)
from xsim.sim.kernels.event_links import join
from xsim.sim.kernels.event_queue import schedule
from xsim.sim.kernels.event_ring import disturb, go_ahead, has_links, wire_bytes
from xsim.sim.kernels.jit import kernel

__all__ = ["complete", "finish", "release_members", "start_ready"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def release_members(slot: int, slots: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """One thing less to wait for, for each member of ``slot``; those with nothing left are ready."""
    for i in range(slots[slot, MEMBERS], slots[slot, MEMBERS_END]):
        member = slots[slot, ORIGIN] + pool[i]
        slots[member, AWAITED] -= 1
        if slots[member, AWAITED] == 0:
            lists[READY, sim[STACKED]] = member
            sim[STACKED] += 1


@kernel
def start_ready(
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    pool: Ints,
    sim: Ints,
    lists: Ints,
    times: Ints,
) -> None:
    """Start all rows that are ready, and those that become so thereby."""
    while sim[STACKED] > 0:
        sim[STACKED] -= 1
        slot = lists[READY, sim[STACKED]]
        if slots[slot, DONE] == 0 and has_links(slots[slot, CYCLE], slots, hops, links):
            go_ahead(slot, slots, flows, sim, lists)
        else:
            _start(slot, slots, flows, hops, links, pool, sim, lists, times)


@kernel
def _start(
    slot: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    pool: Ints,
    sim: Ints,
    lists: Ints,
    times: Ints,
) -> None:
    """Begin the row's next round; without bytes or links it is complete at once, but for the delay of one without."""
    size = wire_bytes(slot, slots[slot, DONE], slots)
    if slots[slot, ROUNDS] == 0:
        finish(slot, slots, hops, links, pool, sim, lists)
    elif slots[slot, HOPS] == 0 and slots[slot, LATENCY] > 0:
        slots[slot, STATE] = FLYING
        schedule(slot, sim[NOW] + slots[slot, LATENCY], slots, sim, lists[QUEUE])
    elif size == 0 or slots[slot, HOPS] == 0:
        complete(slot, slots, hops, links, pool, sim, lists)
    else:
        slots[slot, STATE], slots[slot, SENT] = SENDING, size
        slots[slot, BEGAN] = slots[slot, LAST] = sim[NOW]
        flows[slot, LEFT] = size
        flows[slot, RATE] = flows[slot, RATE_BEFORE] = -1.0
        for hop in range(slots[slot, HOPS]):
            owner = links[hops[slot, hop, LINK], OWNER]
            if owner >= 0:
                disturb(owner, slots, flows, hops, links, sim, lists, times)
        join(slot, slots, flows, hops, links, sim, lists)


@kernel
def complete(slot: int, slots: Ints, hops: Ints, links: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """Note the end of the row's round, and ready what waited for it: its own next round, and the next row's."""
    slots[slot, DONE] += 1
    done, count, base = slots[slot, DONE], slots[slot, COUNT], slots[slot, CYCLE]
    if done == slots[slot, ROUNDS]:
        finish(slot, slots, hops, links, pool, sim, lists)
        return
    if slots[base + (slot - base - 1) % count, DONE] >= done:
        lists[READY, sim[STACKED]] = slot
        sim[STACKED] += 1
    following = base + (slot - base + 1) % count
    if following != slot and slots[following, DONE] == done and slots[following, STATE] == WAITING:
        lists[READY, sim[STACKED]] = following
        sim[STACKED] += 1


@kernel
def finish(slot: int, slots: Ints, hops: Ints, links: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """The row has ended: tell its successors and its parties, and let its links go."""
    release_members(slot, slots, pool, sim, lists)
    for hop in range(slots[slot, HOPS]):
        links[hops[slot, hop, LINK], USERS] -= 1
    src, dst = slots[slot, SRC], slots[slot, DST]
    for party in (src, dst):
        slots[party, AWAITED] -= 1
        if slots[party, AWAITED] == 0:
            lists[PARTIES, sim[ENDED]] = party
            sim[ENDED] += 1
        if src == dst:
            break
