"""Flows that share links max-min fairly, from event to event.

A *slot* is a row of a submitted graph, or one of its parties. A row that may start becomes a *flow*: it sends at a rate,
then its last byte travels for the path's latency. Rates are constant between instants; at the end of an instant they
are worked out anew for each connected component (flows joined by links) in which a flow began or ended.

Two properties carry the rest of the package. The state after an instant depends only on what happened up to then, not
on how the calls within it were split. And a component depends on nothing outside of it, down to the last bit: a flow's
remaining bytes are touched only when its own rate changes. So traffic that has nothing in common may be simulated
apart, together, or later.

Every array is plain; the columns are named below. One file, because the compiler's cache looks at single files.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import NEVER_PS

__all__ = ["post", "run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# slots, int64, S x 20. AWAITED: of a row its predecessors and releases, of a party its rows, that are still to come.
# MEMBERS: range in the pool; of a row its successors, of a party its rows, counted from the slot ORIGIN.
STATE, AWAITED, DONE, ROUNDS, CYCLE, COUNT, SIZE, LATENCY, HOPS, SRC, DST, ORIGIN, MEMBERS, MEMBERS_END = range(14)
AT, PLACE, LAST, LAST_BEFORE, BEGAN, SEEN = range(14, 20)
SLOT_COLUMNS = 20
WAITING, SENDING, FLYING, PARTY = range(4)  # STATE

# flows, float64, S x 5: bytes left at LAST, bytes per ps since then, both as they were before LAST, the rate to be.
LEFT, RATE, LEFT_BEFORE, RATE_BEFORE, NEW_RATE = range(5)
FLOW_COLUMNS = 5

# hops, int64, S x H x 3: the link, and the neighbours in the link's list of flows as nodes (slot << NODE_BITS | hop).
LINK, NEXT, PREVIOUS = range(3)
NODE_BITS = 6

# links, int64, L x 8; widths, float64, L x 2. FLOWS: how many; UNSET: those whose rate is not set yet.
HEAD, FLOWS, SINCE, BUSY, BYTES, MARK, REACHED, UNSET = range(8)
LINK_COLUMNS = 8
CAPACITY, FREE = range(2)

# sim, int64, 8: the instant, and how much of each list is in use.
NOW, HEAP, STACK, ENDED, DIRTY, LOG, STAMP = range(7)
# slot_lists, int64, 4 x S; link_lists, int64, 3 x L
QUEUE, READY, PARTIES, MEMBER_FLOWS = range(4)
CHANGED, MEMBER_LINKS, ORDER = range(3)


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
    slot_lists: Ints,
    link_lists: Ints,
    keys: Floats,
    log: Ints,
) -> int:
    """Process instants up to ``until_ps``, but none after one in which a party was done; the next instant.

    Parties that are done are listed in ``slot_lists[PARTIES]``, flow completion times in ``log``; it stops early when
    the next instant might overflow the log. The caller empties both.
    """
    queue = slot_lists[QUEUE]
    while sim[HEAP] > 0 and slots[queue[0], AT] <= until_ps and sim[ENDED] == 0 and sim[LOG] + len(queue) <= len(log):
        now = slots[queue[0], AT]
        sim[NOW] = now
        while sim[HEAP] > 0 and slots[queue[0], AT] == now:
            slot = queue[0]
            _unschedule(slot, slots, sim, queue)
            if slots[slot, STATE] == PARTY:
                _release_members(slot, slots, pool, sim, slot_lists)
            elif slots[slot, STATE] == SENDING:
                _leave(slot, now, slots, hops, links, sim, link_lists, log)
                slots[slot, STATE] = FLYING
                _schedule(slot, now + slots[slot, LATENCY], slots, sim, queue)
            else:
                slots[slot, STATE] = WAITING
                _complete(slot, slots, pool, sim, slot_lists)
            while sim[STACK] > 0:
                sim[STACK] -= 1
                _start(slot_lists[READY, sim[STACK]], now, slots, flows, hops, links, widths, pool, sim, slot_lists, link_lists)
        _share(now, slots, flows, hops, links, widths, sim, slot_lists, link_lists, keys)
    return slots[queue[0], AT] if sim[HEAP] > 0 else NEVER_PS


@kernel
def post(slot: int, at_ps: int, slots: Ints, sim: Ints, slot_lists: Ints) -> int:
    """Release the party in ``slot`` at ``at_ps``; the next instant."""
    queue = slot_lists[QUEUE]
    _schedule(slot, at_ps, slots, sim, queue)
    return slots[queue[0], AT]


# --- rows ---------------------------------------------------------------------------------------------------------


@kernel
def _release_members(slot: int, slots: Ints, pool: Ints, sim: Ints, slot_lists: Ints) -> None:
    """One thing less to wait for, for each member of ``slot``; those with nothing left are ready."""
    for i in range(slots[slot, MEMBERS], slots[slot, MEMBERS_END]):
        member = slots[slot, ORIGIN] + pool[i]
        slots[member, AWAITED] -= 1
        if slots[member, AWAITED] == 0:
            slot_lists[READY, sim[STACK]] = member
            sim[STACK] += 1


@kernel
def _start(
    slot: int,
    now: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    widths: Floats,
    pool: Ints,
    sim: Ints,
    slot_lists: Ints,
    link_lists: Ints,
) -> None:
    """Begin the row's next round; without bytes or links it is complete at once."""
    count, base = slots[slot, COUNT], slots[slot, CYCLE]
    size = slots[base + (slot - base - slots[slot, DONE]) % count, SIZE]
    if slots[slot, ROUNDS] == 0:
        _finish(slot, slots, pool, sim, slot_lists)
    elif size == 0 or slots[slot, HOPS] == 0:
        _complete(slot, slots, pool, sim, slot_lists)
    else:
        slots[slot, STATE] = SENDING
        slots[slot, BEGAN] = slots[slot, LAST] = now
        flows[slot, LEFT] = size
        flows[slot, RATE] = flows[slot, RATE_BEFORE] = -1.0
        _join(slot, now, slots, flows, hops, links, widths, sim, slot_lists, link_lists)


@kernel
def _complete(slot: int, slots: Ints, pool: Ints, sim: Ints, slot_lists: Ints) -> None:
    """Note the end of the row's current round, and ready what waited for it."""
    slots[slot, DONE] += 1
    done, rounds, count, base = slots[slot, DONE], slots[slot, ROUNDS], slots[slot, COUNT], slots[slot, CYCLE]
    if done < rounds and slots[base + (slot - base - 1) % count, DONE] >= done:
        slot_lists[READY, sim[STACK]] = slot
        sim[STACK] += 1
    following = base + (slot - base + 1) % count
    if following != slot and done < rounds and slots[following, DONE] == done and slots[following, STATE] == WAITING:
        slot_lists[READY, sim[STACK]] = following
        sim[STACK] += 1
    if done == rounds:
        _finish(slot, slots, pool, sim, slot_lists)


@kernel
def _finish(slot: int, slots: Ints, pool: Ints, sim: Ints, slot_lists: Ints) -> None:
    """The row has ended: tell its successors and its parties."""
    _release_members(slot, slots, pool, sim, slot_lists)
    src, dst = slots[slot, SRC], slots[slot, DST]
    for party in (src, dst):
        slots[party, AWAITED] -= 1
        if slots[party, AWAITED] == 0:
            slot_lists[PARTIES, sim[ENDED]] = party
            sim[ENDED] += 1
        if src == dst:
            break


# --- links --------------------------------------------------------------------------------------------------------


@kernel
def _join(
    slot: int,
    now: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    widths: Floats,
    sim: Ints,
    slot_lists: Ints,
    link_lists: Ints,
) -> None:
    """Put the flow on its links. Alone on all of them it has its rate at once; else they are shared anew later."""
    alone = True
    rate = np.inf
    for hop in range(slots[slot, HOPS]):
        link, node = hops[slot, hop, LINK], slot << NODE_BITS | hop
        head = links[link, HEAD]
        hops[slot, hop, NEXT], hops[slot, hop, PREVIOUS] = head, -1
        if head >= 0:
            hops[head >> NODE_BITS, head & (1 << NODE_BITS) - 1, PREVIOUS] = node
        else:
            links[link, SINCE] = now
        links[link, HEAD] = node
        links[link, FLOWS] += 1
        alone = alone and head < 0
        rate = min(rate, widths[link, CAPACITY])
    if alone:
        _set_rate(slot, rate, now, slots, flows, sim, slot_lists)
    else:
        _mark(slot, slots, hops, links, sim, link_lists)


@kernel
def _leave(
    slot: int, now: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, link_lists: Ints, log: Ints
) -> None:
    """Take the flow off its links, and count what it was."""
    count, base = slots[slot, COUNT], slots[slot, CYCLE]
    size = slots[base + (slot - base - slots[slot, DONE]) % count, SIZE]
    inside = (1 << NODE_BITS) - 1
    _mark(slot, slots, hops, links, sim, link_lists)
    for hop in range(slots[slot, HOPS]):
        link, after, before = hops[slot, hop, LINK], hops[slot, hop, NEXT], hops[slot, hop, PREVIOUS]
        if after >= 0:
            hops[after >> NODE_BITS, after & inside, PREVIOUS] = before
        if before >= 0:
            hops[before >> NODE_BITS, before & inside, NEXT] = after
        else:
            links[link, HEAD] = after
        links[link, FLOWS] -= 1
        links[link, BYTES] += size
        if links[link, FLOWS] == 0:
            links[link, BUSY] += now - links[link, SINCE]
    log[sim[LOG]] = now + slots[slot, LATENCY] - slots[slot, BEGAN]
    sim[LOG] += 1


@kernel
def _mark(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, link_lists: Ints) -> None:
    """Links of the flow on which there are others: they are shared anew at the end of the instant."""
    for hop in range(slots[slot, HOPS]):
        link = hops[slot, hop, LINK]
        if links[link, FLOWS] > 1 and links[link, MARK] == 0:
            links[link, MARK] = 1
            link_lists[CHANGED, sim[DIRTY]] = link
            sim[DIRTY] += 1


# --- max-min fair sharing -----------------------------------------------------------------------------------------


@kernel
def _share(
    now: int,
    slots: Ints,
    flows: Floats,
    hops: Ints,
    links: Ints,
    widths: Floats,
    sim: Ints,
    slot_lists: Ints,
    link_lists: Ints,
    keys: Floats,
) -> None:
    """New rates in every component that has a changed link."""
    if sim[DIRTY] == 0:
        return
    sim[STAMP] += 1
    for i in range(sim[DIRTY]):
        link = link_lists[CHANGED, i]
        links[link, MARK] = 0
        if links[link, FLOWS] == 0 or links[link, REACHED] == sim[STAMP]:
            continue
        flow_count, link_count = _component(link, sim[STAMP], slots, flows, hops, links, slot_lists, link_lists)
        _fill(link_count, slots, flows, hops, links, widths, link_lists, keys)
        for j in range(flow_count):
            slot = slot_lists[MEMBER_FLOWS, j]
            _set_rate(slot, flows[slot, NEW_RATE], now, slots, flows, sim, slot_lists)
    sim[DIRTY] = 0


@kernel
def _component(
    link: int, stamp: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, slot_lists: Ints, link_lists: Ints
) -> tuple[int, int]:
    """List the flows and links that ``link`` is connected with; how many of each."""
    members, reached = slot_lists[MEMBER_FLOWS], link_lists[MEMBER_LINKS]
    reached[0], flow_count, link_count, visited = link, 0, 1, 0
    links[link, REACHED] = stamp
    while visited < link_count:
        node = links[reached[visited], HEAD]
        visited += 1
        while node >= 0:
            slot = node >> NODE_BITS
            if slots[slot, SEEN] != stamp:
                slots[slot, SEEN] = stamp
                flows[slot, NEW_RATE] = -1.0
                members[flow_count] = slot
                flow_count += 1
                for hop in range(slots[slot, HOPS]):
                    other = hops[slot, hop, LINK]
                    if links[other, REACHED] != stamp:
                        links[other, REACHED] = stamp
                        reached[link_count] = other
                        link_count += 1
            node = hops[slot, node & (1 << NODE_BITS) - 1, NEXT]
    return flow_count, link_count


@kernel
def _fill(
    link_count: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, widths: Floats, link_lists: Ints, keys: Floats
) -> None:
    """Progressive filling: give the flows of the tightest link their equal share, and repeat.

    Links wait in a heap by (share, number). A share only grows while others are served, so an entry that proves old
    goes back with its new share. The rates do not depend on the order of flows or links in their lists.
    """
    order = link_lists[ORDER]
    size = 0
    for i in range(link_count):
        link = link_lists[MEMBER_LINKS, i]
        widths[link, FREE], links[link, UNSET] = widths[link, CAPACITY], links[link, FLOWS]
        size = _push(widths[link, FREE] / links[link, UNSET], link, keys, order, size)
    while size > 0:
        share, tightest = keys[0], order[0]
        size = _pop(keys, order, size)
        if links[tightest, UNSET] == 0:
            continue
        current = widths[tightest, FREE] / links[tightest, UNSET]
        if current != share:
            size = _push(current, tightest, keys, order, size)
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
            node = hops[slot, node & (1 << NODE_BITS) - 1, NEXT]


@kernel
def _set_rate(slot: int, rate: float, now: int, slots: Ints, flows: Floats, sim: Ints, slot_lists: Ints) -> None:
    """Let the flow go on at ``rate``, and foresee its end; a rate that comes back within the instant never left."""
    if rate == flows[slot, RATE]:
        return
    if slots[slot, LAST] < now:
        flows[slot, LEFT_BEFORE], flows[slot, RATE_BEFORE] = flows[slot, LEFT], flows[slot, RATE]
        slots[slot, LAST_BEFORE] = slots[slot, LAST]
        flows[slot, LEFT] = max(0.0, flows[slot, LEFT] - flows[slot, RATE] * (now - slots[slot, LAST]))
        slots[slot, LAST] = now
    elif rate == flows[slot, RATE_BEFORE]:
        flows[slot, LEFT] = flows[slot, LEFT_BEFORE]
        slots[slot, LAST] = slots[slot, LAST_BEFORE]
    flows[slot, RATE] = rate
    sending = max(1, int(flows[slot, LEFT] / rate + 0.5))
    _schedule(slot, slots[slot, LAST] + sending, slots, sim, slot_lists[QUEUE])


# --- heaps --------------------------------------------------------------------------------------------------------


@kernel
def _schedule(slot: int, at_ps: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Set the instant of the slot's one event; it may be in the queue already."""
    place = slots[slot, PLACE]
    if place < 0:
        place = sim[HEAP]
        sim[HEAP] += 1
    slots[slot, AT] = at_ps
    _settle(slot, place, slots, sim, queue)


@kernel
def _unschedule(slot: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Take the slot's event out of the queue."""
    place = slots[slot, PLACE]
    slots[slot, PLACE] = -1
    sim[HEAP] -= 1
    last = queue[sim[HEAP]]
    if last != slot:
        _settle(last, place, slots, sim, queue)


@kernel
def _settle(slot: int, place: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Put the slot near ``place``, where there is room, so that no event stands before an earlier one."""
    at_ps, size = slots[slot, AT], sim[HEAP]
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
def _push(key: float, link: int, keys: Floats, order: Ints, size: int) -> int:
    """Add a link to a heap of ``size`` by (key, link); its new size."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if keys[above] < key or (keys[above] == key and order[above] < link):
            break
        keys[place], order[place] = keys[above], order[above]
        place = above
    keys[place], order[place] = key, link
    return size + 1


@kernel
def _pop(keys: Floats, order: Ints, size: int) -> int:
    """Remove the first of a heap of ``size``; its new size."""
    size -= 1
    key, link = keys[size], order[size]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        right = child + 1
        if right < size and (keys[right] < keys[child] or (keys[right] == keys[child] and order[right] < order[child])):
            child = right
        if keys[child] > key or (keys[child] == key and order[child] > link):
            break
        keys[place], order[place] = keys[child], order[child]
        place = child
    keys[place], order[place] = key, link
    return size
