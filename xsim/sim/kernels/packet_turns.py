"""Flows that take turns at the port of their host: which sends next, and when the port looks again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, schedule
from xsim.sim.kernels.packet_columns import (
    AVAILABLE,
    CHOOSE,
    DISPERSE,
    FEW,
    FINISHED,
    FLOW,
    FLOWS_AT,
    FLOWS_HERE,
    KIND,
    LATEST,
    LOOK_AGAIN,
    NEXT_BYTE,
    NOW,
    PAUSED,
    POSTED,
    SERVED,
    SLOTS,
    STATE,
    WAKE,
    WAKE_ROW,
)
from xsim.sim.kernels.packet_crowd import Crowd, may_go

__all__ = ["let_go", "next_in_turn", "sleep"]

Ints = NDArray[np.int64]


@part
def next_in_turn(crowd: Crowd, link: int, links: Ints, flows: Ints, turns: Ints, sim: Ints) -> tuple[int, int]:
    """The next flow after the last one served that may send, -1 if none may; and its place, unless it is in a crowd.

    Finished flows that the search comes by leave the list, with all finished ones behind the first of them.
    """
    if links[link, SLOTS] > 0:
        if links[link, FLOWS_HERE] > sim[FEW]:
            return crowd(CHOOSE, -1, link, links, flows, turns, sim), -1
        crowd(DISPERSE, -1, link, links, flows, turns, sim)
    first, count = links[link, FLOWS_AT], links[link, FLOWS_HERE]
    paused, found, leaving = links[link, PAUSED] != 0, -1, count
    for step in range(1, count + 1):
        place = (links[link, SERVED] + step) % count
        flow = turns[first + place]
        if not paused and may_go(flow, flows, sim):
            if flows[flow, AVAILABLE] <= sim[NOW]:
                found = place
                break
        elif flows[flow, STATE] == FINISHED:
            leaving = min(leaving, place)
    found = let_go(link, found, leaving, links, flows, turns)
    return turns[first + found] if found >= 0 else -1, found


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
def sleep(
    crowd: Crowd, link: int, rows: Ints, links: Ints, flows: Ints, turns: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> None:
    """Wake the port when the first of its flows may send by its rate, unless it is to wake already."""
    if links[link, WAKE_ROW] >= 0:
        return
    first, at = links[link, FLOWS_AT], LATEST
    if links[link, SLOTS] > 0:
        at = crowd(LOOK_AGAIN, -1, link, links, flows, turns, sim)
    else:
        for place in range(links[link, FLOWS_HERE]):
            flow = turns[first + place]
            if flows[flow, NEXT_BYTE] < flows[flow, POSTED] and flows[flow, AVAILABLE] > sim[NOW]:
                at = min(at, flows[flow, AVAILABLE])
    if at < LATEST:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW] = WAKE, link
        links[link, WAKE_ROW] = row
        schedule(row, at, rows, wheel, heap, sim)
