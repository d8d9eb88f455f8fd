"""Flows that share links max-min fairly, from event to event.

A *slot* is a row of a submitted graph, or one of its parties. A row that may start becomes a *flow*: it sends at a
rate, then its last byte travels for the path's latency. Rates are constant between instants; at the end of an instant
they are worked out anew in each connected component (flows joined by links) in which a flow began or ended.

Two properties carry the network built on this. The state after an instant depends only on what happened up to then,
not on how the calls within it were split. And a component depends on nothing outside of it, down to the last bit: what
a flow has left is touched only when its own rate changes. So traffic that has nothing in common may be simulated
apart, together, or later.

So a ring that has its links to itself needs no events either: when its rows may start it *owns* its links, and its
ends are foreseen by a recursion. The first flow of somebody else on one of the links brings the rows to where they are,
and from there they go on from event to event.

Columns of the tables: ``event_columns``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import (
    ALONE,
    AT,
    AWAITED,
    AWAITS,
    DONE,
    ENDED,
    FLYING,
    HELD,
    HOLDER,
    HOLDERS,
    HOPS,
    LATENCY,
    LINK,
    NEW_TIMES,
    NOW,
    PARTY,
    QUEUE,
    QUEUED,
    READIED,
    RING,
    SENDING,
    SOLE,
    STATE,
    TIMES,
    USERS,
    WAITING,
)
from xsim.sim.kernels.event_links import leave
from xsim.sim.kernels.event_queue import schedule, unschedule
from xsim.sim.kernels.event_ring import disturb, end_alone
from xsim.sim.kernels.event_rows import complete, finish, release_members, start_ready
from xsim.sim.kernels.event_share import share_anew
from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import NEVER_PS

__all__ = ["expose", "open_block", "post", "run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def run(
    until_ps: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    widths: Floats,
    pool: Ints,
    sim: Ints,
    lists: Ints,
    times: Ints,
) -> int:
    """Process instants up to ``until_ps``, but none after one in which a party was done; the next instant.

    Parties that are done are listed in ``lists[PARTIES]``; the caller takes them away. It also stops when the next
    instant might fill ``times`` by more than a half.
    """
    queue = lists[QUEUE]
    while sim[QUEUED] > 0 and sim[ENDED] == 0 and 2 * (sim[TIMES] + sim[NEW_TIMES]) <= len(times):
        now = slots[queue[0], AT]
        if now > until_ps:
            break
        sim[NOW] = now
        while sim[QUEUED] > 0 and slots[queue[0], AT] == now:
            slot = queue[0]
            state = slots[slot, STATE]
            unschedule(slot, slots, sim, queue)
            if state == PARTY:
                release_members(slot, slots, pool, sim, lists)
            elif state == SENDING:
                leave(slot, slots, hops, links, sim, lists, times)
                slots[slot, STATE] = FLYING
                schedule(slot, now + slots[slot, LATENCY], slots, sim, queue)
            elif state == FLYING:
                slots[slot, STATE] = WAITING
                complete(slot, slots, hops, links, pool, sim, lists)
            else:
                end_alone(slot, slots, flows, hops, links, sim, times)
                finish(slot, slots, hops, links, pool, sim, lists)
            start_ready(slots, flows, hops, links, pool, sim, lists, times)
        share_anew(slots, flows, hops, links, widths, sim, lists)
    return int(slots[queue[0], AT]) if sim[QUEUED] > 0 else NEVER_PS


@kernel
def open_block(
    base: int, rows: int, released_ps: Ints, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints
) -> int:
    """Begin the block at ``base`` anew, its parties released at ``released_ps`` or later, if that is ``NEVER_PS``.

    A party without rows is not released. ``lists[HELD]`` gets the holder of each held link that it uses, which is then
    held no more. Returns the next instant.
    """
    for slot in range(base, base + rows):
        slots[slot, STATE], slots[slot, AWAITED], slots[slot, DONE] = WAITING, slots[slot, AWAITS], 0
        slots[slot, RING], slots[slot, READIED] = slots[slot, SOLE], 0
        for hop in range(slots[slot, HOPS]):
            link = hops[slot, hop, LINK]
            links[link, USERS] += 1
            if links[link, HOLDER] >= 0:
                lists[HELD, sim[HOLDERS]], links[link, HOLDER] = links[link, HOLDER], -1
                sim[HOLDERS] += 1
    for party in range(len(released_ps)):
        slot = base + rows + party
        slots[slot, AWAITED] = slots[slot, AWAITS]
        if released_ps[party] < NEVER_PS and slots[slot, AWAITED] > 0:
            schedule(slot, released_ps[party], slots, sim, lists[QUEUE])
    return int(slots[lists[QUEUE, 0], AT]) if sim[QUEUED] > 0 else NEVER_PS


@kernel
def post(slot: int, at_ps: int, slots: Ints, sim: Ints, lists: Ints) -> int:
    """Release the party in ``slot`` at ``at_ps``; the next instant."""
    queue = lists[QUEUE]
    schedule(slot, at_ps, slots, sim, queue)
    return int(slots[queue[0], AT])


@kernel
def expose(
    now_ps: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    widths: Floats,
    pool: Ints,
    sim: Ints,
    lists: Ints,
    times: Ints,
) -> int:
    """Bring all rows to where they are after ``now_ps``, up to which all is processed; the next instant."""
    sim[NOW] = now_ps
    for slot in range(len(slots)):
        if slots[slot, RING] == ALONE:
            disturb(slot, slots, flows, hops, links, sim, lists, times)
    start_ready(slots, flows, hops, links, pool, sim, lists, times)
    share_anew(slots, flows, hops, links, widths, sim, lists)
    return int(slots[lists[QUEUE, 0], AT]) if sim[QUEUED] > 0 else NEVER_PS
