"""Senders that are asked: the first window of a transfer goes unasked, every further packet when its receiver calls it.

A packet that came cut is named by its receiver and sent again before anything new. What the wires lose is no longer
coming only once the sender has gone back and sent it again unasked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import recycle
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ALLOWED,
    CARRIES,
    COMING,
    FIRST_PACKETS,
    FLOW,
    FULL_PAYLOAD,
    INSIDE,
    KIND,
    KINDS,
    MISSING,
    NACK,
    NEXT,
    NEXT_BYTE,
    NUMBER,
    RESEND,
    RESEND_LAST,
    RETRY_AT,
    RETRY_TIME,
    TRIES,
)
from xsim.sim.kernels.packet_control import expect_reply

__all__ = ["begin_asking", "drop", "forget", "hear", "take_back"]

Ints = NDArray[np.int64]
WITHOUT_END = 1 << 60


@part
def begin_asking(flow: int, rows: Ints, flows: Ints, sim: Ints) -> None:
    """A round of the flow begins: its first window needs no call, and nothing that stays in a host does."""
    drop(flow, rows, flows, sim)
    packets = -(-flows[flow, CARRIES] // flows[flow, FULL_PAYLOAD])
    first = min(packets, flows[flow, FIRST_PACKETS])
    flows[flow, MISSING], flows[flow, COMING] = packets, first
    flows[flow, ALLOWED] = WITHOUT_END if flows[flow, INSIDE] else first


@part
def hear(row: int, rows: Ints, flows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """A call, or the header of a packet that was cut, has reached the sender: either is a sign of life."""
    flow = rows[row, FLOW]
    flows[flow, RETRY_AT] = flows[flow, TRIES] = 0
    if sim[RETRY_TIME] > 0 and flows[flow, NEXT_BYTE] > flows[flow, ACKED]:
        expect_reply(flow, rows, flows, wheel, heap, sim)
    if rows[row, KIND] & KINDS != NACK:
        flows[flow, ALLOWED] += 1
        recycle(row, rows, sim)
    elif rows[row, NUMBER] < flows[flow, ACKED]:  # it has come since
        recycle(row, rows, sim)
    else:
        rows[row, NEXT] = -1
        if flows[flow, RESEND] < 0:
            flows[flow, RESEND] = row
        else:
            rows[flows[flow, RESEND_LAST], NEXT] = row
        flows[flow, RESEND_LAST] = row


@part
def take_back(flow: int, rows: Ints, flows: Ints) -> int:
    """One packet less is allowed; the row of it if it was cut before, -1 if it is new."""
    flows[flow, ALLOWED] -= 1
    row = flows[flow, RESEND]
    if row >= 0:
        flows[flow, RESEND] = rows[row, NEXT]
    return int(row)


@part
def forget(flow: int, rows: Ints, flows: Ints, sim: Ints) -> None:
    """The sender goes back: all that is not acknowledged is sent again, a first window of it unasked."""
    drop(flow, rows, flows, sim)
    flows[flow, ALLOWED] = max(flows[flow, ALLOWED], flows[flow, FIRST_PACKETS])


@part
def drop(flow: int, rows: Ints, flows: Ints, sim: Ints) -> None:
    """Nothing is to be sent again."""
    while flows[flow, RESEND] >= 0:
        row = flows[flow, RESEND]
        flows[flow, RESEND] = rows[row, NEXT]
        recycle(row, rows, sim)
