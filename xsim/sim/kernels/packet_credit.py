"""Credit: a port sends only what the buffer at the far end of its link has room for, so that nothing is ever lost.

What leaves that buffer is credit for the transmitter again, one delay of the link later. The messages that say so take
no time on the wire: InfiniBand's are 8 bytes, sent as often as there is room for them (InfiniBand Architecture
Specification, volume 1, section 7.9), PCI Express and NVLink have them in their own small words between packets. The
credit of a packet that the wire loses is given back when the packet would have come, as the totals that those messages
carry repair it.

Credit that nobody waits for is no event: it stands in a list of the link until the transmitter needs it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, recycle, schedule_numbered
from xsim.sim.kernels.packet_columns import (
    BUFFER,
    CREDIT,
    CREDIT_CALL,
    CREDITS,
    DELAY,
    FLOW,
    ISSUED,
    KIND,
    NEXT,
    NEXT_CALL,
    NO_CALL,
    NOW,
    ONE_CALL,
    OWED,
    OWED_LAST,
    SERIAL,
    SIZE,
    TIME,
    TURN,
)

__all__ = ["give_back", "may_send"]

Ints = NDArray[np.int64]


@part
def may_send(size: int, link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> bool:
    """Take the credit for a packet, if the link asks for it; without enough, the port is called when some comes."""
    if links[link, BUFFER] == 0:
        return True
    _collect(link, rows, links, sim)
    if size <= links[link, CREDITS]:
        links[link, CREDITS] -= size
        return True
    if links[link, CREDIT_CALL] == NO_CALL:
        row = links[link, OWED]
        if row < 0:
            links[link, CREDIT_CALL] = NEXT_CALL
        else:
            links[link, OWED], links[link, CREDIT_CALL] = rows[row, NEXT], ONE_CALL
            schedule_numbered(row, rows[row, TIME], rows[row, SERIAL], rows, wheel, heap, sim)
    return False


@part
def give_back(size: int, link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """So many bytes have left the buffer at the end of the link, or will never come there."""
    _collect(link, rows, links, sim)
    row, at, number = new_row(rows, sim), sim[NOW] + links[link, DELAY], sim[ISSUED]
    sim[ISSUED] = number + 1
    rows[row, KIND], rows[row, FLOW], rows[row, SIZE] = CREDIT, link, size
    if links[link, CREDIT_CALL] == NEXT_CALL:
        links[link, CREDIT_CALL] = ONE_CALL
        schedule_numbered(row, at, number, rows, wheel, heap, sim)
        return
    rows[row, TIME], rows[row, SERIAL], rows[row, NEXT] = at, number, -1
    if links[link, OWED] < 0:
        links[link, OWED] = row
    else:
        rows[links[link, OWED_LAST], NEXT] = row
    links[link, OWED_LAST] = row


@part
def _collect(link: int, rows: Ints, links: Ints, sim: Ints) -> None:
    """Count the credit that has come by the event in hand."""
    row = links[link, OWED]
    while row >= 0 and (rows[row, TIME] < sim[NOW] or (rows[row, TIME] == sim[NOW] and rows[row, SERIAL] < sim[TURN])):
        links[link, CREDITS] += rows[row, SIZE]
        links[link, OWED] = rows[row, NEXT]
        recycle(row, rows, sim)
        row = links[link, OWED]
