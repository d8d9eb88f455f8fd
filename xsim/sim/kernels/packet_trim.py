"""Switches with short queues: a packet that finds no room is cut to its header, and headers overtake all data.

Nothing is lost so, and nobody is paused. What is no data overtakes it, too: acknowledgements and what asks for packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_columns import (
    ACK_SIZE,
    BACKLOG,
    BUFFER,
    CUT,
    CUTS,
    DATA,
    FLOW,
    HOP,
    KIND,
    KINDS,
    NUMBER,
    QUEUE,
    SIZE,
    TAIL,
)
from xsim.sim.kernels.packet_credit import give_back
from xsim.sim.kernels.packet_link import append, chance, urge

__all__ = ["is_short", "pass_on"]

Ints = NDArray[np.int64]


@part
def is_short(row: int, link: int, out: int, rows: Ints, links: Ints, sim: Ints) -> bool:
    """Whether the packet that came over ``link`` passes a port that cuts.

    One that works by credit does not, and data that came so has a buffer to wait in: a host's network interface takes
    from its memory what it can send.
    """
    data = rows[row, KIND] & (KINDS | CUT) == DATA
    return bool(sim[QUEUE] > 0 and links[out, BUFFER] == 0 and not (data and links[link, BUFFER] > 0))


@part
def pass_on(
    row: int,
    link: int,
    out: int,
    rows: Ints,
    links: Ints,
    route: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """A packet has come over ``link`` to a switch and goes on over ``out``; the link to prompt, or -1.

    Where the queue is full, either it or the last one there is cut, each as often: else of two senders that keep step
    the same would be cut each time.
    """
    if links[link, BUFFER] > 0:
        give_back(rows[row, SIZE], link, rows, links, wheel, heap, sim)
    rows[row, HOP] += 1
    data = rows[row, KIND] & (KINDS | CUT) == DATA
    if data and links[out, BACKLOG] > 0 and links[out, BACKLOG] + rows[row, SIZE] > sim[QUEUE]:
        last = links[out, TAIL]
        if chance(out, links) < 0.5 and route[rows[last, HOP]] == out:  # else it is in a buffer of its own
            _exchange(row, last, rows)
            links[out, BACKLOG] += rows[last, SIZE] - rows[row, SIZE]
        links[out, CUTS] += 1
        rows[row, KIND] |= CUT
        rows[row, SIZE], data = sim[ACK_SIZE], False
    if not data:
        urge(row, out, rows, links, wheel, heap, sim)
        return -1
    append(row, out, rows, links)
    return out


@part
def _exchange(row: int, other: int, rows: Ints) -> None:
    """Each of the two data packets takes the place of the other."""
    for column in (KIND, FLOW, NUMBER, SIZE, HOP):
        rows[row, column], rows[other, column] = rows[other, column], rows[row, column]
