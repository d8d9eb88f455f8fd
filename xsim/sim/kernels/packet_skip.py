"""Looking at all that is under way between two runs of the packet kernel, and entering it anew at other instants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.bits import trailing_zeros
from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.packet_clock import schedule_numbered
from xsim.sim.kernels.packet_columns import (
    BUCKETS,
    CURSOR,
    HEAD,
    HEAPED,
    LEFT,
    NEXT,
    OWED,
    SERIAL,
    TIME,
    URGENT,
    WIDTH,
)

__all__ = ["enter", "pending", "pick", "promised", "queued"]

Ints = NDArray[np.int64]


@kernel
def pick(table: Ints, columns: Ints, found: Ints) -> None:
    """Put these columns of all rows of ``table`` into ``found``."""
    for row in range(len(table)):
        for place in range(len(columns)):
            found[row, place] = table[row, columns[place]]


@kernel
def pending(rows: Ints, wheel: Ints, bucket: Ints, heap: Ints, sim: Ints, found: Ints) -> int:
    """Put the rows of all events into ``found``, in no particular order; how many there are."""
    count = sim[LEFT]
    for place in range(count):
        found[place] = bucket[1, place]
    for place in range(sim[HEAPED]):
        found[count + place] = heap[2, place]
    count += sim[HEAPED]
    for word in range(BUCKETS // 64):
        bits = wheel[BUCKETS + word]
        while bits != 0:
            row = wheel[word * 64 + trailing_zeros(bits)]
            bits &= bits - 1
            while row >= 0:
                found[count] = row
                count += 1
                row = rows[row, NEXT]
    return int(count)


@kernel
def queued(rows: Ints, links: Ints, found: Ints, where: Ints) -> int:
    """Put the rows that wait at ports into ``found``, port by port in their order, and the ports into ``where``.

    A pause frame's port is given as its complement, since it stands in a queue of its own.
    """
    count = 0
    for link in range(len(links)):
        for column in (HEAD, URGENT):
            row = links[link, column]
            while row >= 0:
                found[count], where[count] = row, link if column == HEAD else ~link
                count += 1
                row = rows[row, NEXT]
    return count


@kernel
def promised(rows: Ints, links: Ints, found: Ints) -> int:
    """Put the rows of the credit that is owed into ``found``, port by port in their order; how many there are."""
    count = 0
    for link in range(len(links)):
        row = links[link, OWED]
        while row >= 0:
            found[count] = row
            count += 1
            row = rows[row, NEXT]
    return count


@kernel
def enter(events: Ints, now: int, rows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Make these rows, which stand in the order of their instants, the only events; all of them come after ``now``."""
    wheel[:BUCKETS] = -1
    wheel[BUCKETS:] = 0
    sim[CURSOR], sim[LEFT], sim[HEAPED] = now >> sim[WIDTH], 0, 0
    for place in range(len(events)):
        row = events[place]
        schedule_numbered(row, rows[row, TIME], rows[row, SERIAL], rows, wheel, heap, sim)
