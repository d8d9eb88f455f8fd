"""Rings that have their links to themselves: their ends are foreseen, without events. See ``events``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import (
    AHEAD,
    ALONE,
    BEGAN,
    BUSY,
    BYTES,
    COUNT,
    CYCLE,
    DONE,
    EXTRA,
    FLOWS,
    FLYING,
    FREE_RING,
    HOPS,
    LAST,
    LAST_BEFORE,
    LATENCY,
    LEFT,
    LINK,
    LONE_RATE,
    NOW,
    OVER,
    OWNER,
    PLACE,
    QUEUE,
    RATE,
    RATE_BEFORE,
    READIED,
    READY,
    RING,
    ROUNDS,
    SENDING,
    SENT,
    SIZE,
    STACKED,
    STATE,
    WAITING,
)
from xsim.sim.kernels.event_links import count_time, join
from xsim.sim.kernels.event_queue import schedule, unschedule
from xsim.sim.kernels.event_share import lasting_ps
from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import HALF_PPM, NEVER_PS, PPM

__all__ = ["disturb", "end_alone", "go_ahead", "has_links", "wire_bytes"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def has_links(base: int, slots: Ints, hops: Ints, links: Ints) -> bool:
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
def go_ahead(slot: int, slots: Ints, flows: Floats, sim: Ints, lists: Ints) -> None:
    """A row of a ring that is alone is ready: foresee the ends of all rows that depend on no other."""
    base, count = slots[slot, CYCLE], slots[slot, COUNT]
    slots[slot, STATE], slots[slot, BEGAN] = AHEAD, sim[NOW]
    slots[base, READIED] += 1
    if slots[base, READIED] < min(count, slots[slot, ROUNDS]):  # the last round of a row rests on so many
        return
    _follow(base, NEVER_PS, slots, flows)
    for row in range(base, base + count):
        if slots[row, STATE] == AHEAD and slots[row, DONE] == slots[row, ROUNDS]:
            schedule(row, slots[row, LAST], slots, sim, lists[QUEUE])


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
            size, rate = wire_bytes(row, done, slots), flows[row, LONE_RATE]
            if size != known_size or rate != known_rate:
                known_size, known_rate, sending_ps = size, rate, lasting_ps(size, rate)
            end_ps = start_ps + sending_ps + slots[row, LATENCY] if size > 0 else start_ps
            slots[row, LAST_BEFORE], slots[row, LAST] = start_ps, min(end_ps, NEVER_PS - 1)
            if slots[row, LAST] < until_ps:
                slots[row, DONE] += 1


@kernel
def end_alone(slot: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, times: Ints) -> None:
    """The row has ended alone on its links, and gives them back."""
    slots[slot, STATE] = OVER
    _count_rounds(slot, slots[slot, ROUNDS], slots, flows, hops, links, sim, times)
    for hop in range(slots[slot, HOPS]):
        links[hops[slot, hop, LINK], OWNER] = -1


@kernel
def disturb(
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
                unschedule(row, slots, sim, lists[QUEUE])
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
        schedule(slot, slots[slot, LAST], slots, sim, lists[QUEUE])
    else:
        _count_rounds(slot, done, slots, flows, hops, links, sim, times)
        slots[slot, STATE], slots[slot, SENT] = SENDING, wire_bytes(slot, done, slots)
        slots[slot, BEGAN] = slots[slot, LAST] = slots[slot, LAST_BEFORE]
        flows[slot, LEFT], flows[slot, RATE], flows[slot, RATE_BEFORE] = slots[slot, SENT], flows[slot, LONE_RATE], -1.0
        schedule(slot, end_ps, slots, sim, lists[QUEUE])
        join(slot, slots, flows, hops, links, sim, lists)


@kernel
def _count_rounds(
    slot: int, done: int, slots: Ints, flows: Floats, hops: Ints, links: Ints, sim: Ints, times: Ints
) -> None:
    """Count the first ``done`` rounds of the row, alone on its links."""
    known_size, sending_ps, alike, sent, busy_ps = 0, 0, 0, 0, 0
    for turn in range(done):
        size = wire_bytes(slot, turn, slots)
        if size == 0:
            continue
        if size != known_size:
            if alike > 0:
                count_time(sending_ps + slots[slot, LATENCY], alike, sim, times)
            known_size, sending_ps, alike = size, lasting_ps(size, flows[slot, LONE_RATE]), 0
        alike += 1
        sent += size
        busy_ps += sending_ps
    if alike > 0:
        count_time(sending_ps + slots[slot, LATENCY], alike, sim, times)
    for hop in range(slots[slot, HOPS]):
        links[hops[slot, hop, LINK], BYTES] += sent
        links[hops[slot, hop, LINK], BUSY] += busy_ps


@kernel
def wire_bytes(slot: int, done: int, slots: Ints) -> int:
    """Bytes on the wire of the round that comes after ``done``."""
    base, extra_ppm = slots[slot, CYCLE], slots[slot, EXTRA]
    payload = slots[base + (slot - base - done) % slots[slot, COUNT], SIZE]
    return int(payload + payload // PPM * extra_ppm + (payload % PPM * extra_ppm + HALF_PPM) // PPM)
