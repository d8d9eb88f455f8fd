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

Plain arrays, passed one by one, and all in one file: a tuple of them costs threefold, and the compiler's cache looks
at single files (see ``jit``). Their columns:

    slots   int64    S x 26     ``AT`` .. ``SOLE``
    flows   float64  S x 6      ``LEFT`` .. ``LONE_RATE``
    hops    int64    S x H x 3  ``LINK`` .. ``PREVIOUS``: hop h of the path of each row, a place in the link's list
    links   int64    L x 11     ``HEAD`` .. ``HOLDER``
    widths  float64  L x 3      ``CAPACITY`` .. ``KEY``
    pool    int64               members of slots
    sim     int64    10         ``NOW`` .. ``STAMP``: the instant, and how much of each list is in use
    lists   int64    8 x max(S, L)  ``QUEUE`` .. ``HELD``
    times   int64    T x 2      how many flows took how long: a hash table with 0 for nothing
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import HALF_PPM, LONGEST_PS, NEVER_PS, PPM

__all__ = ["count_time", "expose", "open_block", "post", "run"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# AWAITED: of a row, its predecessors and releases still to come; of a party, its rows; AWAITS at first. DONE: rounds.
# SENT: bytes of the round, on the wire. MEMBERS: where in the pool a row has its successors and a party its rows,
# counted from the slot ORIGIN. PLACE: in the queue, or -1. LAST: the instant of the last change of rate, LAST_BEFORE of
# the one before; of a row that is AHEAD, end and start of the last round that was followed. EXTRA: bytes on the wire
# beyond each million. Of the first row of a ring: SOLE, whether no two of its rows share a link; RING, whether it may
# own its links (FREE_RING), does (ALONE), or neither (0); READIED, how many of its rows have been ready since.
# What is used together stands together.
AT, PLACE, STATE, SEEN, HOPS, LAST, LATENCY, BEGAN = range(8)
SENT, DONE, ROUNDS, AWAITED, CYCLE, COUNT, SIZE, EXTRA = range(8, 16)
RING, ORIGIN, MEMBERS, MEMBERS_END, SRC, DST, READIED, LAST_BEFORE = range(16, 24)
AWAITS, SOLE = range(24, 26)
SLOT_COLUMNS = 26
WAITING, SENDING, FLYING, PARTY, AHEAD, OVER = range(6)  # STATE; AHEAD and OVER: ready, and at its end, in a ring alone
FREE_RING, ALONE = range(1, 3)  # RING

# Bytes left at LAST and bytes per ps since then, the same before LAST, the rate to be, and the rate of a flow alone.
LEFT, RATE, LEFT_BEFORE, RATE_BEFORE, NEW_RATE, LONE_RATE = range(6)
FLOW_COLUMNS = 6

# A node of a link's list of flows is ``slot << NODE_BITS | hop``: a path has up to 64 links.
LINK, NEXT, PREVIOUS = range(3)
NODE_BITS = 6
NODE_HOP = (1 << NODE_BITS) - 1

# FLOWS: how many now; UNSET: how many of them have no new rate yet; OWNER: first row of the ring that has it to itself,
# or -1. USERS: rows among the events that have not ended; HOLDER: who uses it without events, a number of the caller's,
# or -1. FREE: bytes per ps not given to the others.
HEAD, FLOWS, SINCE, BUSY, BYTES, MARK, REACHED, UNSET, OWNER, USERS, HOLDER = range(11)
LINK_COLUMNS = 11
CAPACITY, FREE, KEY = range(3)
WIDTH_COLUMNS = 3

# TIMES: distinct flow completion times so far; NEW_TIMES: at most so many come up in one instant.
NOW, QUEUED, STACKED, ENDED, CHANGES, TIMES, NEW_TIMES, ORDERED, HOLDERS, STAMP = range(10)
SIM_COLUMNS = 10
QUEUE, READY, PARTIES, CHANGED, NEAR_FLOWS, NEAR_LINKS, ORDER, HELD = range(8)
LISTS = 8


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
            _unschedule(slot, slots, sim, queue)
            if state == PARTY:
                _release_members(slot, slots, pool, sim, lists)
            elif state == SENDING:
                _leave(slot, slots, hops, links, sim, lists, times)
                slots[slot, STATE] = FLYING
                _schedule(slot, now + slots[slot, LATENCY], slots, sim, queue)
            elif state == FLYING:
                slots[slot, STATE] = WAITING
                _complete(slot, slots, hops, links, pool, sim, lists)
            else:
                _end_alone(slot, slots, flows, hops, links, sim, times)
                _finish(slot, slots, hops, links, pool, sim, lists)
            _start_ready(slots, flows, hops, links, pool, sim, lists, times)
        _share(slots, flows, hops, links, widths, sim, lists)
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
            _schedule(slot, released_ps[party], slots, sim, lists[QUEUE])
    return int(slots[lists[QUEUE, 0], AT]) if sim[QUEUED] > 0 else NEVER_PS


@kernel
def post(slot: int, at_ps: int, slots: Ints, sim: Ints, lists: Ints) -> int:
    """Release the party in ``slot`` at ``at_ps``; the next instant."""
    queue = lists[QUEUE]
    _schedule(slot, at_ps, slots, sim, queue)
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
            _disturb(slot, slots, flows, hops, links, sim, lists, times)
    _start_ready(slots, flows, hops, links, pool, sim, lists, times)
    _share(slots, flows, hops, links, widths, sim, lists)
    return int(slots[lists[QUEUE, 0], AT]) if sim[QUEUED] > 0 else NEVER_PS


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
def _start_ready(
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
        if slots[slot, DONE] == 0 and _has_links(slots[slot, CYCLE], slots, hops, links):
            _go_ahead(slot, slots, flows, sim, lists)
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
    size = _size(slot, slots[slot, DONE], slots)
    if slots[slot, ROUNDS] == 0:
        _finish(slot, slots, hops, links, pool, sim, lists)
    elif slots[slot, HOPS] == 0 and slots[slot, LATENCY] > 0:
        slots[slot, STATE] = FLYING
        _schedule(slot, sim[NOW] + slots[slot, LATENCY], slots, sim, lists[QUEUE])
    elif size == 0 or slots[slot, HOPS] == 0:
        _complete(slot, slots, hops, links, pool, sim, lists)
    else:
        slots[slot, STATE], slots[slot, SENT] = SENDING, size
        slots[slot, BEGAN] = slots[slot, LAST] = sim[NOW]
        flows[slot, LEFT] = size
        flows[slot, RATE] = flows[slot, RATE_BEFORE] = -1.0
        for hop in range(slots[slot, HOPS]):
            owner = links[hops[slot, hop, LINK], OWNER]
            if owner >= 0:
                _disturb(owner, slots, flows, hops, links, sim, lists, times)
        _join(slot, slots, flows, hops, links, sim, lists)


@kernel
def _size(slot: int, done: int, slots: Ints) -> int:
    """Bytes on the wire of the round that comes after ``done``."""
    base, extra_ppm = slots[slot, CYCLE], slots[slot, EXTRA]
    payload = slots[base + (slot - base - done) % slots[slot, COUNT], SIZE]
    return int(payload + payload // PPM * extra_ppm + (payload % PPM * extra_ppm + HALF_PPM) // PPM)


@kernel
def _complete(slot: int, slots: Ints, hops: Ints, links: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """Note the end of the row's round, and ready what waited for it: its own next round, and the next row's."""
    slots[slot, DONE] += 1
    done, count, base = slots[slot, DONE], slots[slot, COUNT], slots[slot, CYCLE]
    if done == slots[slot, ROUNDS]:
        _finish(slot, slots, hops, links, pool, sim, lists)
        return
    if slots[base + (slot - base - 1) % count, DONE] >= done:
        lists[READY, sim[STACKED]] = slot
        sim[STACKED] += 1
    following = base + (slot - base + 1) % count
    if following != slot and slots[following, DONE] == done and slots[following, STATE] == WAITING:
        lists[READY, sim[STACKED]] = following
        sim[STACKED] += 1


@kernel
def _finish(slot: int, slots: Ints, hops: Ints, links: Ints, pool: Ints, sim: Ints, lists: Ints) -> None:
    """The row has ended: tell its successors and its parties, and let its links go."""
    _release_members(slot, slots, pool, sim, lists)
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


# --- links ---


@kernel
def _join(slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, lists: Ints) -> None:
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
        _set_rate(slot, flows[slot, LONE_RATE], slots, flows, sim, lists)
    else:
        _mark(slot, slots, hops, links, sim, lists)


@kernel
def _leave(slot: int, slots: Ints, hops: Ints, links: Ints, sim: Ints, lists: Ints, times: Ints) -> None:
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


# --- rings alone on their links ---


@kernel
def _has_links(base: int, slots: Ints, hops: Ints, links: Ints) -> bool:
    """Whether the ring has its links to itself, now that one of its rows is ready; it is decided with the first."""
    if slots[base, RING] != FREE_RING:
        return bool(slots[base, RING] == ALONE)
    slots[base, RING] = 0
    for row in range(base, base + slots[base, COUNT]):
        for hop in range(slots[row, HOPS]):
            link = hops[row, hop, LINK]
            if links[link, FLOWS] > 0 or links[link, OWNER] >= 0:
                return False
    slots[base, RING] = ALONE
    for row in range(base, base + slots[base, COUNT]):
        for hop in range(slots[row, HOPS]):
            links[hops[row, hop, LINK], OWNER] = base
    return True


@kernel
def _go_ahead(slot: int, slots: Ints, flows: Floats, sim: Ints, lists: Ints) -> None:
    """A row of a ring that is alone is ready: foresee the ends of all rows that depend on no other."""
    base, count = slots[slot, CYCLE], slots[slot, COUNT]
    slots[slot, STATE], slots[slot, BEGAN] = AHEAD, sim[NOW]
    slots[base, READIED] += 1
    if slots[base, READIED] < min(count, slots[slot, ROUNDS]):  # the last round of a row rests on so many
        return
    _follow(base, NEVER_PS, slots, flows)
    for row in range(base, base + count):
        if slots[row, STATE] == AHEAD and slots[row, DONE] == slots[row, ROUNDS]:
            _schedule(row, slots[row, LAST], slots, sim, lists[QUEUE])


@kernel
def _follow(base: int, until_ps: int, slots: Ints, flows: Floats) -> None:
    """Follow the rounds that begin before ``until_ps``: LAST_BEFORE and LAST of each row, and DONE, those that end too.

    Rows that are ready since ``until_ps`` have LAST_BEFORE -1.
    """
    count = slots[base, COUNT]
    for row in range(base, base + count):
        slots[row, DONE], slots[row, LAST], slots[row, LAST_BEFORE] = 0, slots[row, BEGAN], -1
    known_size, known_rate, sending_ps = -1, 0.0, 0
    for done in range(slots[base, ROUNDS]):
        before_done, before_ps = slots[base + count - 1, DONE], slots[base + count - 1, LAST]
        first_done, first_ps = before_done, before_ps
        for row in range(base + count - 1, base - 1, -1):  # downwards, so that the row before is still a round behind
            if row > base:
                before_done, before_ps = slots[row - 1, DONE], slots[row - 1, LAST]
            else:
                before_done, before_ps = first_done, first_ps
            if slots[row, STATE] < AHEAD or slots[row, DONE] < done or before_done < done:
                continue
            start_ps = max(slots[row, LAST], before_ps) if done > 0 else slots[row, LAST]
            if start_ps >= until_ps:
                continue
            size, rate = _size(row, done, slots), flows[row, LONE_RATE]
            if size != known_size or rate != known_rate:
                known_size, known_rate, sending_ps = size, rate, _sending_ps(size, rate)
            end_ps = start_ps + sending_ps + slots[row, LATENCY] if size > 0 else start_ps
            slots[row, LAST_BEFORE], slots[row, LAST] = start_ps, min(end_ps, NEVER_PS - 1)
            if slots[row, LAST] < until_ps:
                slots[row, DONE] += 1


@kernel
def _end_alone(slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, times: Ints) -> None:
    """The row has ended alone on its links, and gives them back."""
    slots[slot, STATE] = OVER
    _count_rounds(slot, slots[slot, ROUNDS], slots, flows, hops, links, sim, times)
    for hop in range(slots[slot, HOPS]):
        links[hops[slot, hop, LINK], OWNER] = -1


@kernel
def _disturb(
    base: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, lists: Ints, times: Ints
) -> None:
    """The ring owns its links no more: its rows go on, from where they are, from event to event."""
    count = slots[base, COUNT]
    slots[base, RING] = 0
    _follow(base, sim[NOW], slots, flows)
    for row in range(base, base + count):
        if slots[row, STATE] == OVER:
            slots[row, DONE] = slots[row, ROUNDS]
            continue
        for hop in range(slots[row, HOPS]):
            links[hops[row, hop, LINK], OWNER] = -1
    for row in range(base, base + count):
        if slots[row, STATE] == AHEAD:
            if slots[row, PLACE] >= 0:
                _unschedule(row, slots, sim, lists[QUEUE])
            _go_on(row, slots, flows, hops, links, sim, lists, times)


@kernel
def _go_on(slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, lists: Ints, times: Ints) -> None:
    """Put a row, which has been followed up to now, among the events."""
    now, base, done = sim[NOW], slots[slot, CYCLE], slots[slot, DONE]
    before = base + (slot - base - 1) % slots[slot, COUNT]
    end_ps = slots[slot, LAST] - slots[slot, LATENCY]
    if slots[slot, LAST_BEFORE] < 0 or slots[slot, LAST] < now:  # between two rounds
        _count_rounds(slot, done, slots, flows, hops, links, sim, times)
        slots[slot, STATE] = WAITING
        if done == 0 or slots[before, DONE] >= done:
            lists[READY, sim[STACKED]] = slot
            sim[STACKED] += 1
    elif end_ps < now:  # its last byte is on its way
        _count_rounds(slot, done + 1, slots, flows, hops, links, sim, times)
        slots[slot, STATE] = FLYING
        _schedule(slot, slots[slot, LAST], slots, sim, lists[QUEUE])
    else:
        _count_rounds(slot, done, slots, flows, hops, links, sim, times)
        slots[slot, STATE], slots[slot, SENT] = SENDING, _size(slot, done, slots)
        slots[slot, BEGAN] = slots[slot, LAST] = slots[slot, LAST_BEFORE]
        flows[slot, LEFT], flows[slot, RATE], flows[slot, RATE_BEFORE] = slots[slot, SENT], flows[slot, LONE_RATE], -1.0
        _schedule(slot, end_ps, slots, sim, lists[QUEUE])
        _join(slot, slots, flows, hops, links, sim, lists)


@kernel
def _count_rounds(
    slot: int, done: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, times: Ints
) -> None:
    """Count the first ``done`` rounds of the row, alone on its links."""
    known_size, sending_ps, alike, sent, busy_ps = 0, 0, 0, 0, 0
    for turn in range(done):
        size = _size(slot, turn, slots)
        if size == 0:
            continue
        if size != known_size:
            if alike > 0:
                count_time(sending_ps + slots[slot, LATENCY], alike, sim, times)
            known_size, sending_ps, alike = size, _sending_ps(size, flows[slot, LONE_RATE]), 0
        alike += 1
        sent += size
        busy_ps += sending_ps
    if alike > 0:
        count_time(sending_ps + slots[slot, LATENCY], alike, sim, times)
    for hop in range(slots[slot, HOPS]):
        links[hops[slot, hop, LINK], BYTES] += sent
        links[hops[slot, hop, LINK], BUSY] += busy_ps


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
    sending_ps = _sending_ps(flows[slot, LEFT], rate)
    _schedule(slot, slots[slot, LAST] + sending_ps, slots, sim, lists[QUEUE])


@kernel
def _sending_ps(left: float, rate: float) -> int:
    """How long ``left`` bytes take."""
    return max(1, int(min(left / rate + 0.5, LONGEST_PS)))


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
