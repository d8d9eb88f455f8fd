"""Flows that share links max-min fairly, from event to event.

A *slot* is a row of a submitted graph, or one of its parties. A row that may start becomes a *flow*: it sends at a
rate, then its last byte travels for the path's latency. Rates are constant between instants; at the end of an instant
they are worked out anew in each connected component (flows joined by links) in which a flow began or ended.

Two properties carry the network built on this. The state after an instant depends only on what happened up to then,
not on how the calls within it were split. And a component depends on nothing outside of it, down to the last bit: what
a flow has left is touched only when its own rate changes. So traffic that has nothing in common may be simulated
apart, together, or later.

Plain arrays, passed one by one, and all in one file: a tuple of them costs threefold, and the compiler's cache looks
at single files (see ``jit``). Their columns:

    slots   int64    S x 22     ``STATE`` .. ``EXTRA``
    flows   float64  S x 5      ``LEFT`` .. ``NEW_RATE``
    hops    int64    S x H x 3  ``LINK`` .. ``PREVIOUS``: hop h of the path of each row, a place in the link's list
    links   int64    L x 8      ``HEAD`` .. ``UNSET``
    widths  float64  L x 3      ``CAPACITY`` .. ``KEY``
    pool    int64               members of slots
    sim     int64    8          ``NOW`` .. ``STAMP``: the instant, and how much of each list is in use
    lists   int64    7 x max(S, L)  ``QUEUE`` .. ``ORDER``
    log     int64               flow completion times
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import HALF_PPM, LONGEST_PS, NEVER_PS, PPM

__all__ = ["post", "run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# AWAITED: of a row, its predecessors and releases still to come; of a party, its rows. DONE: rounds. SENT: bytes of the
# round, on the wire. MEMBERS: where in the pool a row has its successors and a party its rows, counted from the slot
# ORIGIN. PLACE: in the queue, or -1. LAST: the instant of the last change of rate, and LAST_BEFORE of the one before.
# EXTRA: bytes on the wire beyond each million.
STATE, AWAITED, DONE, ROUNDS, COUNT, SIZE, SENT, LATENCY, HOPS = range(9)
CYCLE, SRC, DST, ORIGIN, MEMBERS, MEMBERS_END = range(9, 15)
AT, PLACE, LAST, LAST_BEFORE, BEGAN, SEEN, EXTRA = range(15, 22)
SLOT_COLUMNS = 22
WAITING, SENDING, FLYING, PARTY = range(4)  # STATE

# Bytes left at LAST and bytes per ps since then, the same before LAST, and the rate to be.
LEFT, RATE, LEFT_BEFORE, RATE_BEFORE, NEW_RATE = range(5)
FLOW_COLUMNS = 5

# A node of a link's list of flows is ``slot << NODE_BITS | hop``: a path has up to 64 links.
LINK, NEXT, PREVIOUS = range(3)
NODE_BITS = 6
NODE_HOP = (1 << NODE_BITS) - 1

# FLOWS: how many now; UNSET: how many of them have no new rate yet. FREE: bytes per ps not given to the others.
HEAD, FLOWS, SINCE, BUSY, BYTES, MARK, REACHED, UNSET = range(8)
LINK_COLUMNS = 8
CAPACITY, FREE, KEY = range(3)
WIDTH_COLUMNS = 3

NOW, QUEUED, STACKED, ENDED, CHANGES, LOGGED, ORDERED, STAMP = range(8)
SIM_COLUMNS = 8
QUEUE, READY, PARTIES, CHANGED, NEAR_FLOWS, NEAR_LINKS, ORDER = range(7)
LISTS = 7


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
    log: Ints,
) -> int:
    """Process instants up to ``until_ps``, but none after one in which a party was done; the next instant.

    Parties that are done are listed in ``lists[PARTIES]``; the caller takes them and the log away. It also stops when
    the next instant might overflow the log.
    """
    queue = lists[QUEUE]
    while sim[QUEUED] > 0 and sim[ENDED] == 0 and sim[LOGGED] + len(slots) <= len(log):
        now = slots[queue[0], AT]
        if now > until_ps:
            break
        sim[NOW] = now
        while sim[QUEUED] > 0 and slots[queue[0], AT] == now:
            slot = queue[0]
            _unschedule(slot, slots, sim, queue)
            if slots[slot, STATE] == PARTY:
                _release_members(slot, slots, pool, sim, lists)
            elif slots[slot, STATE] == SENDING:
                _leave(slot, slots, hops, links, sim, lists, log)
                slots[slot, STATE] = FLYING
                _schedule(slot, now + slots[slot, LATENCY], slots, sim, queue)
            else:
                slots[slot, STATE] = WAITING
                _complete(slot, slots, pool, sim, lists)
            while sim[STACKED] > 0:
                sim[STACKED] -= 1
                ready = lists[READY, sim[STACKED]]
                _start(ready, slots, flows, hops, links, widths, pool, sim, lists)
        _share(slots, flows, hops, links, widths, sim, lists)
    return int(slots[queue[0], AT]) if sim[QUEUED] > 0 else NEVER_PS


@kernel
def post(slot: int, at_ps: int, slots: Ints, sim: Ints, lists: Ints) -> int:
    """Release the party in ``slot`` at ``at_ps``; the next instant."""
    queue = lists[QUEUE]
    _schedule(slot, at_ps, slots, sim, queue)
    return int(slots[queue[0], AT])


# --- rows ---


@kernel
def _release_members(slot: int, slots: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """One thing less to wait for, for each member of ``slot``; those with nothing left are ready."""
    for i in range(slots[slot, MEMBERS], slots[slot, MEMBERS_END]):
        member = slots[slot, ORIGIN] + pool[i]
        slots[member, AWAITED] -= 1
        if slots[member, AWAITED] == 0:
            lists[READY, sim[STACKED]] = member
            sim[STACKED] += 1


@kernel
def _start(
    slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, pool: Ints, sim: Ints, lists: Ints
) -> None:
    """Begin the row's next round; without bytes or links it is complete at once, but for the delay of one without."""
    count, base = slots[slot, COUNT], slots[slot, CYCLE]
    payload, extra_ppm = slots[base + (slot - base - slots[slot, DONE]) % count, SIZE], slots[slot, EXTRA]
    size = payload + payload // PPM * extra_ppm + (payload % PPM * extra_ppm + HALF_PPM) // PPM
    if slots[slot, ROUNDS] == 0:
        _finish(slot, slots, pool, sim, lists)
    elif slots[slot, HOPS] == 0 and slots[slot, LATENCY] > 0:
        slots[slot, STATE] = FLYING
        _schedule(slot, sim[NOW] + slots[slot, LATENCY], slots, sim, lists[QUEUE])
    elif size == 0 or slots[slot, HOPS] == 0:
        _complete(slot, slots, pool, sim, lists)
    else:
        slots[slot, STATE], slots[slot, SENT] = SENDING, size
        slots[slot, BEGAN] = slots[slot, LAST] = sim[NOW]
        flows[slot, LEFT] = size
        flows[slot, RATE] = flows[slot, RATE_BEFORE] = -1.0
        _join(slot, slots, flows, hops, links, widths, sim, lists)


@kernel
def _complete(slot: int, slots: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """Note the end of the row's round, and ready what waited for it: its own next round, and the next row's."""
    slots[slot, DONE] += 1
    done, count, base = slots[slot, DONE], slots[slot, COUNT], slots[slot, CYCLE]
    if done == slots[slot, ROUNDS]:
        _finish(slot, slots, pool, sim, lists)
        return
    if slots[base + (slot - base - 1) % count, DONE] >= done:
        lists[READY, sim[STACKED]] = slot
        sim[STACKED] += 1
    following = base + (slot - base + 1) % count
    if following != slot and slots[following, DONE] == done and slots[following, STATE] == WAITING:
        lists[READY, sim[STACKED]] = following
        sim[STACKED] += 1


@kernel
def _finish(slot: int, slots: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """The row has ended: tell its successors and its parties."""
    _release_members(slot, slots, pool, sim, lists)
    src, dst = slots[slot, SRC], slots[slot, DST]
    for party in (src, dst):
        slots[party, AWAITED] -= 1
        if slots[party, AWAITED] == 0:
            lists[PARTIES, sim[ENDED]] = party
            sim[ENDED] += 1
        if src == dst:
            break


# --- links ---


@kernel
def _join(
    slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, sim: Ints, lists: Ints
) -> None:
    """Put the flow on its links. Alone on all of them it has its rate at once; else they are shared anew later."""
    alone, rate = True, np.inf
    for hop in range(slots[slot, HOPS]):
        link, node = hops[slot, hop, LINK], slot << NODE_BITS | hop
        head = links[link, HEAD]
        hops[slot, hop, NEXT], hops[slot, hop, PREVIOUS] = head, -1
        if head >= 0:
            alone = False
            hops[head >> NODE_BITS, head & NODE_HOP, PREVIOUS] = node
        else:
            links[link, SINCE] = sim[NOW]
        links[link, HEAD] = node
        links[link, FLOWS] += 1
        rate = min(rate, widths[link, CAPACITY])
    if alone:
        _set_rate(slot, rate, slots, flows, sim, lists)
    else:
        _mark(slot, slots, hops, links, sim, lists)


@kernel
def _leave(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints, log: Ints) -> None:
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
    log[sim[LOGGED]] = sim[NOW] + slots[slot, LATENCY] - slots[slot, BEGAN]
    sim[LOGGED] += 1


@kernel
def _mark(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints) -> None:
    """Links of the flow on which there are others are shared anew at the end of the instant."""
    for hop in range(slots[slot, HOPS]):
        link = hops[slot, hop, LINK]
        if links[link, FLOWS] > 1 and links[link, MARK] == 0:
            links[link, MARK] = 1
            lists[CHANGED, sim[CHANGES]] = link
            sim[CHANGES] += 1


# --- max-min fair sharing ---


@kernel
def _share(slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, sim: Ints, lists: Ints) -> None:
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
                _set_rate(slot, flows[slot, NEW_RATE], slots, flows, sim, lists)
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
        _push(widths[near, FREE] / links[near, UNSET], near, widths, sim, lists)
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
        _pop(widths, sim, lists)
        if links[tightest, UNSET] == 0:
            continue
        current = widths[tightest, FREE] / links[tightest, UNSET]
        if current != share:
            _push(current, tightest, widths, sim, lists)
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
def _set_rate(slot: int, rate: float, slots: Ints, flows: Floats, sim: Ints, lists: Ints) -> None:
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
    sending = max(1, int(min(flows[slot, LEFT] / rate + 0.5, LONGEST_PS)))
    _schedule(slot, slots[slot, LAST] + sending, slots, sim, lists[QUEUE])


# --- heaps: events by instant, each slot at most once; links by share and number ---


@kernel
def _schedule(slot: int, at_ps: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Set the instant of the slot's one event, in the queue or new to it."""
    place = slots[slot, PLACE]
    if place < 0:
        place = sim[QUEUED]
        sim[QUEUED] += 1
    slots[slot, AT] = at_ps
    _settle(slot, place, slots, sim, queue)


@kernel
def _unschedule(slot: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Take the slot's event out of the queue."""
    place = slots[slot, PLACE]
    slots[slot, PLACE] = -1
    sim[QUEUED] -= 1
    last = queue[sim[QUEUED]]
    if last != slot:
        _settle(last, place, slots, sim, queue)


@kernel
def _settle(slot: int, place: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Put the slot at the hole in ``place`` or above or below it, so that no event stands before an earlier one."""
    at_ps, size = slots[slot, AT], sim[QUEUED]
    while place > 0 and slots[queue[(place - 1) // 2], AT] > at_ps:
        queue[place] = queue[(place - 1) // 2]
        slots[queue[place], PLACE] = place
        place = (place - 1) // 2
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and slots[queue[child + 1], AT] < slots[queue[child], AT]:
            child += 1
        if slots[queue[child], AT] >= at_ps:
            break
        queue[place] = queue[child]
        slots[queue[place], PLACE] = place
        place = child
    queue[place] = slot
    slots[slot, PLACE] = place


@kernel
def _push(key: float, link: int, widths: Floats, sim: Ints, lists: Ints) -> None:
    """Add a link to those ordered by (key, number)."""
    place = sim[ORDERED]
    sim[ORDERED] += 1
    while place > 0:
        above = (place - 1) // 2
        if widths[above, KEY] < key or (widths[above, KEY] == key and lists[ORDER, above] < link):
            break
        widths[place, KEY], lists[ORDER, place] = widths[above, KEY], lists[ORDER, above]
        place = above
    widths[place, KEY], lists[ORDER, place] = key, link


@kernel
def _pop(widths: Floats, sim: Ints, lists: Ints) -> None:
    """Remove the first of the links ordered by (key, number)."""
    sim[ORDERED] -= 1
    size, place = sim[ORDERED], 0
    key, link = widths[size, KEY], lists[ORDER, size]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        best, number = widths[child, KEY], lists[ORDER, child]
        if child + 1 < size:
            other, other_number = widths[child + 1, KEY], lists[ORDER, child + 1]
            if other < best or (other == best and other_number < number):
                child, best, number = child + 1, other, other_number
        if best > key or (best == key and number > link):
            break
        widths[place, KEY], lists[ORDER, place] = best, number
        place = child
    widths[place, KEY], lists[ORDER, place] = key, link
