"""The same turns where many flows stand at one port: what cannot have changed since it was looked at is passed over.

The flows keep their slots in the list of the port, those that leave it leave a gap, and their places, on which the
order depends, are counted. Behind the slots stands a table of blocks of ``BLOCK`` slots, and of as many blocks again:
how many flows stand there; from when on one of them may send, by all that is known (``QUIET``); and when the first of
those that have bytes may, by its rate alone (``WAKES``). A flow to which anything happens *stirs* its blocks: nothing
is known of them until they are looked at again. So the cost of a turn is that of a few blocks, and a sum over the
largest.

The kernel is given all of that as one function, ``Crowd``: what few simulations need is compiled only for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from xsim.sim.kernels.jit import as_value, part
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ALLOWED,
    AVAILABLE,
    BLOCK,
    BLOCK_COLUMNS,
    CHOOSE,
    DISPERSE,
    FINISHED,
    FLOWS_AT,
    FLOWS_HERE,
    GATHER,
    IN_TURN,
    JOIN,
    LATEST,
    LOOK_AGAIN,
    NEXT_BYTE,
    NOW,
    PAUSED,
    POSTED,
    PRESENT,
    QUEUE,
    QUIET,
    RESEND,
    ROOM,
    SENT,
    SERVED,
    SLOTS,
    STATE,
    STIR,
    WAKES,
    WINDOW,
)

__all__ = ["Crowd", "compiled_crowd", "may_go", "no_crowd"]

Ints = NDArray[np.int64]
Crowd = Callable[[int, int, int, Ints, Ints, Ints, Ints], int]
GAPS = 2 * BLOCK  # so many, beside as many as there are flows, are borne
_TABLE = types.int64[:, ::1]
_SIGNATURE = types.int64(types.int64, types.int64, types.int64, _TABLE, _TABLE, types.int64[::1], types.int64[::1])


@cache
def compiled_crowd() -> Any:
    """What ``run`` needs where flows may become a crowd."""
    return as_value(_crowd, _SIGNATURE)


@cache
def no_crowd() -> Any:
    """The same where they are too few for one."""
    return as_value(_nobody, _SIGNATURE)


def _nobody(_event: int, _flow: int, _link: int, _links: Ints, _flows: Ints, _turns: Ints, _sim: Ints) -> int:
    """It is never called."""
    return -1


def _crowd(event: int, flow: int, link: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> int:
    """At this port ``event``; the flow of ``CHOOSE``, the instant of ``LOOK_AGAIN``, else nothing of use."""
    if event == CHOOSE:
        return _next_of_many(link, links, flows, turns, sim)
    if event == LOOK_AGAIN:
        return _wakes_of_many(link, links, flows, turns, sim)
    if event == DISPERSE:
        _close_up(link, links, turns)
    elif event == GATHER or (event == JOIN and links[link, SLOTS] == links[link, ROOM]):
        _gather(link, links, flows, turns)
    if event == JOIN:
        _enter(flow, link, links, flows, turns)
    elif event == SENT:
        links[link, SERVED] = _place_of(flows[flow, IN_TURN] - 1, link, links, turns)
    if event >= STIR:
        _stir(flow, link, links, flows, turns)
    return -1


@part
def may_go(flow: int, flows: Ints, sim: Ints) -> bool:
    """Whether the flow has something to send and its window, or its receiver, lets it."""
    sent, window = flows[flow, NEXT_BYTE], flows[flow, WINDOW]
    ready = sent < flows[flow, POSTED] and (window == 0 or sent - flows[flow, ACKED] < window)
    if sim[QUEUE] > 0:
        ready = flows[flow, ALLOWED] > 0 and (ready or flows[flow, RESEND] >= 0)
    return bool(ready)


@part
def _block(link: int, slot: int, links: Ints) -> int:
    """Where the table has the slot's block."""
    return int(links[link, FLOWS_AT] + links[link, ROOM] + slot // BLOCK * BLOCK_COLUMNS)


@part
def _large(link: int, slot: int, links: Ints) -> int:
    """Where the table has the slot's block of blocks."""
    blocks = (links[link, ROOM] + BLOCK - 1) // BLOCK + slot // (BLOCK * BLOCK)
    return int(links[link, FLOWS_AT] + links[link, ROOM] + blocks * BLOCK_COLUMNS)


@part
def _enter(flow: int, link: int, links: Ints, flows: Ints, turns: Ints) -> None:
    """The flow takes the next slot."""
    slot = links[link, SLOTS]
    block, large = _block(link, slot, links), _large(link, slot, links)
    if slot % BLOCK == 0:
        turns[block + PRESENT] = 0
    if slot % (BLOCK * BLOCK) == 0:
        turns[large + PRESENT] = 0
    turns[links[link, FLOWS_AT] + slot], flows[flow, IN_TURN] = flow, slot + 1
    for place in (block, large):
        turns[place + PRESENT] += 1
        turns[place + QUIET] = turns[place + WAKES] = 0
    links[link, SLOTS] = slot + 1


@part
def _gather(link: int, links: Ints, flows: Ints, turns: Ints) -> None:
    """The list becomes a crowd, or one without gaps."""
    first, slots = links[link, FLOWS_AT], max(links[link, SLOTS], links[link, FLOWS_HERE])
    links[link, SLOTS] = 0
    for slot in range(slots):
        if turns[first + slot] >= 0:
            _enter(turns[first + slot], link, links, flows, turns)


@part
def _close_up(link: int, links: Ints, turns: Ints) -> None:
    """The crowd becomes a plain list again."""
    first, kept = links[link, FLOWS_AT], 0
    for slot in range(links[link, SLOTS]):
        if turns[first + slot] >= 0:
            turns[first + kept] = turns[first + slot]
            kept += 1
    links[link, SLOTS] = 0


@part
def _stir(flow: int, link: int, links: Ints, flows: Ints, turns: Ints) -> None:
    """Something has happened to the flow."""
    slot = flows[flow, IN_TURN] - 1
    if 0 <= slot < links[link, SLOTS] and turns[links[link, FLOWS_AT] + slot] == flow:
        block, large = _block(link, slot, links), _large(link, slot, links)
        turns[block + QUIET] = turns[block + WAKES] = turns[large + QUIET] = turns[large + WAKES] = 0


@part
def _next_of_many(link: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> int:
    """The flow that sends next, -1 if none may; as ``next_in_turn`` has it."""
    if links[link, SLOTS] > 2 * links[link, FLOWS_HERE] + GAPS:
        _gather(link, links, flows, turns)
    slots = links[link, SLOTS]
    start = _slot_of((links[link, SERVED] + 1) % links[link, FLOWS_HERE], link, links, turns)
    begin, end, found, leaving = start, slots, -1, slots
    for _ in range(2):
        found, finished = _search(link, begin, end, links, flows, turns, sim)
        leaving = min(leaving, finished)
        if found >= 0:
            break
        begin, end = 0, start
    if leaving < slots:
        _let_go(link, leaving, links, flows, turns, sim)
    return int(turns[links[link, FLOWS_AT] + found]) if found >= 0 else -1


@part
def _wakes_of_many(link: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> int:
    """When the first of the flows with bytes left may send by its rate, of those that may not yet."""
    now, slots, first, found = sim[NOW], links[link, SLOTS], links[link, FLOWS_AT], LATEST
    for begin in range(0, slots, BLOCK * BLOCK):
        large = _large(link, begin, links)
        if turns[large + WAKES] <= now:
            turns[large + WAKES] = LATEST
            for slot in range(begin, min(slots, begin + BLOCK * BLOCK), BLOCK):
                block = _block(link, slot, links)
                if turns[block + WAKES] <= now:
                    at = LATEST
                    for place in range(first + slot, first + min(slots, slot + BLOCK)):
                        flow = turns[place]
                        if flow >= 0 and flows[flow, NEXT_BYTE] < flows[flow, POSTED] and flows[flow, AVAILABLE] > now:
                            at = min(at, flows[flow, AVAILABLE])
                    turns[block + WAKES] = at
                turns[large + WAKES] = min(turns[large + WAKES], turns[block + WAKES])
        found = min(found, turns[large + WAKES])
    return int(found)


@part
def _slot_of(place: int, link: int, links: Ints, turns: Ints) -> int:
    slot, left = 0, place
    large = _large(link, 0, links)
    while turns[large + PRESENT] <= left:
        left -= turns[large + PRESENT]
        slot, large = slot + BLOCK * BLOCK, large + BLOCK_COLUMNS
    block = _block(link, slot, links)
    while turns[block + PRESENT] <= left:
        left -= turns[block + PRESENT]
        slot, block = slot + BLOCK, block + BLOCK_COLUMNS
    slot -= 1
    while left >= 0:
        slot += 1
        left -= turns[links[link, FLOWS_AT] + slot] >= 0
    return slot


@part
def _place_of(slot: int, link: int, links: Ints, turns: Ints) -> int:
    found, first = 0, links[link, FLOWS_AT]
    large = slot // (BLOCK * BLOCK) * BLOCK * BLOCK
    for begin in range(0, large, BLOCK * BLOCK):
        found += turns[_large(link, begin, links) + PRESENT]
    for begin in range(large, slot // BLOCK * BLOCK, BLOCK):
        found += turns[_block(link, begin, links) + PRESENT]
    for other in range(slot // BLOCK * BLOCK, slot):
        found += turns[first + other] >= 0
    return found


@part
def _search(link: int, begin: int, end: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> tuple[int, int]:
    """The first slot of ``begin`` .. ``end`` whose flow may send, else -1; and of the first that had finished.

    Finished flows that it comes by leave. The second is the number of slots if it came by none.
    """
    slots, first, paused, slot = links[link, SLOTS], links[link, FLOWS_AT], links[link, PAUSED] != 0, begin
    leaving = slots
    quiet_until = 1 if paused else sim[NOW] + 2
    while slot < end:
        large, block = _large(link, slot, links), _block(link, slot, links)
        if turns[large + QUIET] >= quiet_until:
            slot = (slot // (BLOCK * BLOCK) + 1) * BLOCK * BLOCK
            continue
        after = (slot // BLOCK + 1) * BLOCK
        if turns[block + QUIET] < quiet_until:
            whole, quiet = slot % BLOCK == 0 and (after <= end or end == slots), LATEST
            for other in range(slot, min(after, end)):
                flow = turns[first + other]
                if flow < 0:
                    continue
                if may_go(flow, flows, sim):
                    if not paused and flows[flow, AVAILABLE] <= sim[NOW]:
                        return other, leaving
                    quiet = min(quiet, 1 + max(0, flows[flow, AVAILABLE]))
                elif flows[flow, STATE] == FINISHED:
                    leaving = min(leaving, other)
                    _leave(other, link, links, turns)
            if whole:
                turns[block + QUIET] = quiet
        slot = after
        if slot >= end or slot % (BLOCK * BLOCK) == 0:
            turns[large + QUIET] = _quiet(link, after - 1, links, turns)
    return -1, leaving


@part
def _quiet(link: int, slot: int, links: Ints, turns: Ints) -> int:
    """Of the block of blocks about the slot, what is known of all of its blocks."""
    found, begin = LATEST, slot // (BLOCK * BLOCK) * BLOCK * BLOCK
    for other in range(begin, min(links[link, SLOTS], begin + BLOCK * BLOCK), BLOCK):
        found = min(found, turns[_block(link, other, links) + QUIET])
    return int(found)


@part
def _let_go(link: int, leaving: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> None:
    """The finished flows from slot ``leaving`` on leave, too; they are in blocks of which nothing is known."""
    slots, first, slot = links[link, SLOTS], links[link, FLOWS_AT], leaving
    while slot < slots:
        large, block = _large(link, slot, links), _block(link, slot, links)
        if turns[large + QUIET] > 0:
            slot = (slot // (BLOCK * BLOCK) + 1) * BLOCK * BLOCK
            continue
        after = (slot // BLOCK + 1) * BLOCK
        if turns[block + QUIET] == 0:
            whole, quiet = slot % BLOCK == 0, LATEST
            for other in range(slot, min(after, slots)):
                flow = turns[first + other]
                if flow < 0:
                    continue
                if may_go(flow, flows, sim):
                    quiet = min(quiet, 1 + max(0, flows[flow, AVAILABLE]))
                elif flows[flow, STATE] == FINISHED:
                    _leave(other, link, links, turns)
            if whole:
                turns[block + QUIET] = quiet
        slot = after
        if slot >= slots or slot % (BLOCK * BLOCK) == 0:
            turns[large + QUIET] = _quiet(link, after - 1, links, turns)


@part
def _leave(slot: int, link: int, links: Ints, turns: Ints) -> None:
    turns[links[link, FLOWS_AT] + slot] = -1
    turns[_block(link, slot, links) + PRESENT] -= 1
    turns[_large(link, slot, links) + PRESENT] -= 1
    links[link, FLOWS_HERE] -= 1
