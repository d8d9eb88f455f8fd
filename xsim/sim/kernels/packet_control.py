"""Congestion control: when a flow's law is called, and what becomes of what it asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, schedule, schedule_numbered
from xsim.sim.kernels.packet_columns import (
    ALARM,
    AVAILABLE,
    BELOW,
    FLOW,
    FLOW_RATE,
    INSIDE,
    ISSUED,
    KIND,
    LAST_SIZE,
    LINE_BITS,
    NEXT_BYTE,
    NOW,
    RATE_BITS,
    REPACED,
    RETRY,
    RETRY_AT,
    RETRY_NUMBER,
    RETRY_SET,
    RETRY_TIME,
    SCALE,
    SELECTIVE,
    TIME,
    TIMER,
    TIMERS,
    WAKE,
    WAKE_ROW,
    WINDOW,
    WINDOW_BYTES,
    WINDOW_FOLLOWS,
)
from xsim.sim.kernels.packet_reorder import most_under_way

__all__ = ["Law", "advise", "expect_reply"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Law = Callable[[int, int, int, int, bool, Floats, Ints, Floats], None]


@part
def advise(
    law: Law,
    event: int,
    flow: int,
    acked: int,
    marked: bool,
    seen: Ints,
    link: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    state: Floats,
    knobs: Floats,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """Call the law of the flow and do as it says; ``link`` is the flow's first."""
    own = state[flow]
    first, second, third = own[ALARM], own[ALARM + 1], own[ALARM + 2]
    law(event, sim[NOW], acked, flows[flow, NEXT_BYTE], marked, own, seen, knobs)
    rate = int(own[RATE_BITS])
    if rate != flows[flow, FLOW_RATE]:
        _pace(rate, flow, link, rows, links, flows, wheel, heap, sim)
    window = int(own[WINDOW_BYTES])
    if window > 0 and sim[WINDOW_FOLLOWS]:
        window = max(1, window * rate // int(own[LINE_BITS]))
    if sim[SELECTIVE]:
        most = most_under_way(flow, flows)
        window = most if window == 0 else min(window, most)
    flows[flow, WINDOW] = window
    for timer in range(TIMERS):
        before = first if timer == 0 else (second if timer == 1 else third)
        if own[ALARM + timer] != before and own[ALARM + timer] > 0.0:
            row = new_row(rows, sim)
            rows[row, KIND], rows[row, FLOW] = TIMER + timer, flow
            schedule(row, int(own[ALARM + timer]), rows, wheel, heap, sim)


@part
def _pace(
    rate: int, flow: int, link: int, rows: Ints, links: Ints, flows: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> None:
    """Let the flow go on at ``rate``, from its last packet if that is the rule."""
    if sim[REPACED]:
        bits = flows[flow, LAST_SIZE] * 8 * sim[SCALE] - sim[BELOW]
        flows[flow, AVAILABLE] += bits // rate - bits // flows[flow, FLOW_RATE]
        row = links[link, WAKE_ROW]
        if row >= 0 and flows[flow, AVAILABLE] < rows[row, TIME]:
            row = new_row(rows, sim)
            rows[row, KIND], rows[row, FLOW] = WAKE, link
            links[link, WAKE_ROW] = row
            schedule(row, max(sim[NOW], flows[flow, AVAILABLE]), rows, wheel, heap, sim)
    flows[flow, FLOW_RATE] = rate


@part
def expect_reply(flow: int, rows: Ints, flows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Let the sender go back if nothing comes for so long from now; an event entered before is moved when it is due."""
    if flows[flow, INSIDE]:
        return
    number = sim[ISSUED]
    sim[ISSUED] = number + 1
    flows[flow, RETRY_AT], flows[flow, RETRY_NUMBER] = sim[NOW] + sim[RETRY_TIME], number
    if flows[flow, RETRY_SET] == 0:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW], flows[flow, RETRY_SET] = RETRY, flow, 1
        schedule_numbered(row, flows[flow, RETRY_AT], number, rows, wheel, heap, sim)
