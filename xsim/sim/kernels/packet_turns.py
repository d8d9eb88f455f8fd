"""Flows that take turns at the port of their host: which sends next, and when the port looks again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, schedule
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ALLOWED,
    AVAILABLE,
    FINISHED,
    FLOW,
    FLOWS_AT,
    FLOWS_HERE,
    KIND,
    NEXT_BYTE,
    NOW,
    PAUSED,
    POSTED,
    QUEUE,
    RESEND,
    SERVED,
    STATE,
    WAKE,
    WAKE_ROW,
    WINDOW,
)

__all__ = ["let_go", "next_in_turn", "sleep"]

Ints = NDArray[np.int64]
LATEST = 1 << 62


@part
def next_in_turn(link: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> int:
    """Place of the next flow after the last one served that may send, -1 if none may.

    Finished flows that the search comes by leave the list, with all finished ones behind the first of them.
    """
    first, count = links[link, FLOWS_AT], links[link, FLOWS_HERE]
    paused, asked, found, leaving = links[link, PAUSED] != 0, sim[QUEUE] > 0, -1, count
    for step in range(1, count + 1):
        place = (links[link, SERVED] + step) % count
        flow = turns[first + place]
        sent, acked = flows[flow, NEXT_BYTE], flows[flow, ACKED]
        window = flows[flow, WINDOW]
        ready = sent < flows[flow, POSTED] and (window == 0 or sent - acked < window)
        if asked:
            ready = flows[flow, ALLOWED] > 0 and (ready or flows[flow, RESEND] >= 0)
        if not paused and ready:
            if flows[flow, AVAILABLE] <= sim[NOW]:
                found = place
                break
        elif flows[flow, STATE] == FINISHED:
            leaving = min(leaving, place)
    return let_go(link, found, leaving, links, flows, turns)


@part
def let_go(link: int, found: int, leaving: int, links: Ints, flows: Ints, turns: Ints) -> int:
    """Let the finished flows from place ``leaving`` on leave the list; where what stood at ``found`` stands then."""
    first, count = links[link, FLOWS_AT], links[link, FLOWS_HERE]
    if leaving < count:
        kept = leaving
        for place in range(leaving, count):
            flow = turns[first + place]
            if flows[flow, STATE] != FINISHED:
                if place == found:
                    found = kept
                turns[first + kept] = flow
                kept += 1
        links[link, FLOWS_HERE] = kept
    return int(found)


@part
def sleep(link: int, rows: Ints, links: Ints, flows: Ints, turns: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Wake the port when the first of its flows may send by its rate, unless it is to wake already."""
    if links[link, WAKE_ROW] >= 0:
        return
    first, at = links[link, FLOWS_AT], LATEST
    for place in range(links[link, FLOWS_HERE]):
        flow = turns[first + place]
        if flows[flow, NEXT_BYTE] < flows[flow, POSTED] and flows[flow, AVAILABLE] > sim[NOW]:
            at = min(at, flows[flow, AVAILABLE])
    if at < LATEST:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW] = WAKE, link
        links[link, WAKE_ROW] = row
        schedule(row, at, rows, wheel, heap, sim)
