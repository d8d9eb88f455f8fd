"""Receivers that ask: a host calls packets at the rate of its port, of the flows that it receives in turn.

So they come no faster than it can take them. For each packet that comes, whole or cut, its flow has one more call to be
made, unless as many are coming as are missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, schedule
from xsim.sim.kernels.packet_columns import (
    ACK,
    ACK_SIZE,
    ASK,
    ASK_AT,
    ASKING,
    ASKING_LAST,
    CALL,
    COMING,
    DATA_TIME,
    FLOW,
    HOP,
    KIND,
    MISSING,
    NACK,
    NEXT_ASKED,
    NOW,
    SIZE,
    TO_ASK,
    WAY_BACK,
)
from xsim.sim.kernels.packet_link import append

__all__ = ["ask", "refuse", "want"]

Ints = NDArray[np.int64]


@part
def refuse(row: int, rows: Ints, flows: Ints) -> None:
    """A packet has come cut: its header turns back."""
    rows[row, KIND], rows[row, HOP] = NACK, flows[rows[row, FLOW], WAY_BACK]


@part
def want(flow: int, rows: Ints, links: Ints, flows: Ints, route: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """A packet of the flow has come, whole or cut: one more is to be asked for if not enough are coming."""
    flows[flow, COMING] -= 1
    if flows[flow, COMING] >= flows[flow, MISSING]:
        return
    flows[flow, COMING] += 1
    flows[flow, TO_ASK] += 1
    if flows[flow, TO_ASK] == 1:
        link = route[flows[flow, WAY_BACK]]
        if links[link, ASKING] < 0:
            _expect_asking(max(sim[NOW], links[link, ASK_AT]), link, rows, wheel, heap, sim)
        _queue_up(flow, link, links, flows)


@part
def ask(link: int, rows: Ints, links: Ints, flows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> int:
    """A call for a packet of the next flow in turn is to be sent; the link to prompt, -1 if no flow misses any."""
    flow = links[link, ASKING]
    while flow >= 0 and flows[flow, MISSING] == 0:  # what it was to ask for has come after all
        flows[flow, TO_ASK] = 0
        flow = flows[flow, NEXT_ASKED]
    links[link, ASKING] = flow
    if flow < 0:
        return -1
    links[link, ASKING] = flows[flow, NEXT_ASKED]
    flows[flow, TO_ASK] -= 1
    if flows[flow, TO_ASK] > 0:
        _queue_up(flow, link, links, flows)
    links[link, ASK_AT] = sim[NOW] + links[link, DATA_TIME]
    if links[link, ASKING] >= 0:
        _expect_asking(links[link, ASK_AT], link, rows, wheel, heap, sim)
    row = new_row(rows, sim)
    rows[row, KIND], rows[row, FLOW], rows[row, SIZE] = ACK | CALL, flow, sim[ACK_SIZE]
    rows[row, HOP] = flows[flow, WAY_BACK]
    append(row, link, rows, links)
    return link


@part
def _queue_up(flow: int, link: int, links: Ints, flows: Ints) -> None:
    """The flow's turn to be asked for a packet comes last."""
    flows[flow, NEXT_ASKED] = -1
    if links[link, ASKING] < 0:
        links[link, ASKING] = flow
    else:
        flows[links[link, ASKING_LAST], NEXT_ASKED] = flow
    links[link, ASKING_LAST] = flow


@part
def _expect_asking(at: int, link: int, rows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    row = new_row(rows, sim)
    rows[row, KIND], rows[row, FLOW] = ASK, link
    schedule(row, at, rows, wheel, heap, sim)
