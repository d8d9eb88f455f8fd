"""The order of events: a wheel of buckets for the near ones, a heap for the others.

An event is a row; it comes by (time, number), and numbers are given in the order of scheduling. A bucket is a list that
grows at its head, so that reading it yields falling numbers, and the next event stands last. The heap takes what the
wheel cannot: events beyond its span, and those of the bucket that is already open.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.bits import trailing_zeros
from xsim.sim.kernels.jit import kernel, part, rare_kernel
from xsim.sim.kernels.packet_columns import (
    BUCKET_MASK,
    BUCKETS,
    CURSOR,
    FLOW,
    HEAPED,
    ISSUED,
    KIND,
    KINDS,
    LEFT,
    NEXT,
    RETRY,
    ROWS_FREE,
    ROWS_LEFT,
    SERIAL,
    TIME,
    TIMER,
    WIDTH,
)

__all__ = ["alarms_alone", "new_row", "next_event", "next_tick", "post", "recycle", "schedule", "schedule_numbered"]

Ints = NDArray[np.int64]

LATEST = 1 << 62
NUMBER_BITS = 44  # of a key in the open bucket; the time within the bucket stands above


@part
def new_row(rows: Ints, sim: Ints) -> int:
    """A free row; the caller of ``run`` sees to it that there is one."""
    row = sim[ROWS_FREE]
    sim[ROWS_FREE] = rows[row, NEXT]
    sim[ROWS_LEFT] -= 1
    return int(row)


@part
def recycle(row: int, rows: Ints, sim: Ints) -> None:
    """Give the row back."""
    rows[row, NEXT] = sim[ROWS_FREE]
    sim[ROWS_FREE] = row
    sim[ROWS_LEFT] += 1


@kernel
def post(kind: int, subjects: Ints, at: Ints, rows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Events from outside, in order; the caller has seen to it that there are rows."""
    for i in range(len(subjects)):
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW] = kind, subjects[i]
        schedule(row, at[i], rows, wheel, heap, sim)


@part
def schedule(row: int, at: int, rows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Enter the event of ``row`` as the last of its instant so far."""
    number = sim[ISSUED]
    sim[ISSUED] = number + 1
    schedule_numbered(row, at, number, rows, wheel, heap, sim)


@part
def schedule_numbered(row: int, at: int, number: int, rows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Enter the event of ``row`` with a number given earlier."""
    rows[row, TIME], rows[row, SERIAL] = at, number
    place = at >> sim[WIDTH]
    ahead = place - sim[CURSOR]
    if 0 < ahead < BUCKETS:
        slot = place & BUCKET_MASK
        before = wheel[slot]
        rows[row, NEXT] = before
        wheel[slot] = row
        if before < 0:
            wheel[BUCKETS + (slot >> 6)] |= 1 << (slot & 63)
    else:
        _push(row, at, number, heap, sim)


@part
def next_event(until: int, rows: Ints, wheel: Ints, bucket: Ints, heap: Ints, sim: Ints) -> int:
    """The next event, taken out, if it is due by ``until``; -1 if none is, -2 if there is none at all."""
    while sim[LEFT] == 0 and (sim[HEAPED] == 0 or heap[0, 0] >> sim[WIDTH] != sim[CURSOR]):
        place = _next_bucket(heap, wheel, sim)
        if place < 0:
            return -2
        if place > until >> sim[WIDTH]:
            return -1
        _open(place, rows, wheel, bucket, sim)
    last = sim[LEFT] - 1
    if last < 0:
        return _pop(heap, sim) if heap[0, 0] <= until else -1
    row = bucket[1, last]
    if sim[HEAPED] > 0 and heap[0, 0] >> sim[WIDTH] == sim[CURSOR]:
        at = rows[row, TIME]
        if heap[0, 0] < at or (heap[0, 0] == at and heap[1, 0] < rows[row, SERIAL]):
            return _pop(heap, sim) if heap[0, 0] <= until else -1
    if rows[row, TIME] > until:
        return -1
    sim[LEFT] = last
    return int(row)


@kernel
def next_tick(rows: Ints, wheel: Ints, bucket: Ints, heap: Ints, sim: Ints) -> int:
    """When the next event comes; -1 if there is none."""
    found = heap[0, 0] if sim[HEAPED] > 0 else LATEST
    if sim[LEFT] > 0:
        return int(min(found, rows[bucket[1, sim[LEFT] - 1], TIME]))
    place = _next_bucket(heap, wheel, sim)
    if place < 0:
        return int(found if found < LATEST else -1)
    row = wheel[place & BUCKET_MASK]
    while row >= 0 and rows[row, TIME] >> sim[WIDTH] == place:
        found = min(found, rows[row, TIME])
        row = rows[row, NEXT]
    return int(found)


@part
def alarms_alone(rows: Ints, wheel: Ints, bucket: Ints, heap: Ints, sim: Ints) -> bool:
    """Whether all events to come are alarms of congestion controls."""
    for i in range(sim[HEAPED]):
        if not _is_alarm(heap[2, i], rows):
            return False
    for i in range(sim[LEFT]):
        if not _is_alarm(bucket[1, i], rows):
            return False
    for slot in range(BUCKETS):
        row = wheel[slot]
        while row >= 0:
            if not _is_alarm(row, rows):
                return False
            row = rows[row, NEXT]
    return True


@part
def _is_alarm(row: int, rows: Ints) -> bool:
    return bool(TIMER <= rows[row, KIND] & KINDS < RETRY)


@part
def _next_bucket(heap: Ints, wheel: Ints, sim: Ints) -> int:
    """The first bucket after the open one with an event in wheel or heap; -1 if there is none."""
    found = heap[0, 0] >> sim[WIDTH] if sim[HEAPED] > 0 else -1
    first = sim[CURSOR] + 1
    slot = first & BUCKET_MASK
    word = wheel[BUCKETS + (slot >> 6)] & (-1 << (slot & 63))
    for _ in range(BUCKETS // 64 + 1):
        if word != 0:
            near = slot & ~63 | trailing_zeros(word)
            place = first + ((near - first) & BUCKET_MASK)
            return int(place if found < 0 else min(place, found))
        slot = (slot | 63) + 1 & BUCKET_MASK
        word = wheel[BUCKETS + (slot >> 6)]
    return int(found)


@part
def _open(place: int, rows: Ints, wheel: Ints, bucket: Ints, sim: Ints) -> None:
    """Make ``place`` the open bucket and take its events out of the wheel, ordered."""
    sim[CURSOR] = place
    slot = place & BUCKET_MASK
    row, size, ordered, before = wheel[slot], 0, True, LATEST
    start = place << sim[WIDTH]
    while row >= 0:
        key = (rows[row, TIME] - start) << NUMBER_BITS | rows[row, SERIAL]
        bucket[0, size], bucket[1, size] = key, row
        ordered &= key < before
        before = key
        size += 1
        row = rows[row, NEXT]
    wheel[slot] = -1
    wheel[BUCKETS + (slot >> 6)] &= ~(1 << (slot & 63))
    sim[LEFT] = size
    if not ordered:
        _sort(size, bucket)


@part
def _sort(size: int, bucket: Ints) -> None:
    """Put the keys in falling order (Shell's method: what comes is nearly in order)."""
    gap = 1
    while gap * 3 < size:
        gap = gap * 3 + 1
    while gap > 0:
        for i in range(gap, size):
            key, row = bucket[0, i], bucket[1, i]
            place = i
            while place >= gap and bucket[0, place - gap] < key:
                bucket[0, place], bucket[1, place] = bucket[0, place - gap], bucket[1, place - gap]
                place -= gap
            bucket[0, place], bucket[1, place] = key, row
        gap //= 3


@rare_kernel
def _push(row: int, at: int, number: int, heap: Ints, sim: Ints) -> None:
    """Add an event to the heap."""
    place = sim[HEAPED]
    sim[HEAPED] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if heap[0, above] < at or (heap[0, above] == at and heap[1, above] < number):
            break
        heap[0, place], heap[1, place], heap[2, place] = heap[0, above], heap[1, above], heap[2, above]
        place = above
    heap[0, place], heap[1, place], heap[2, place] = at, number, row


@part
def _pop(heap: Ints, sim: Ints) -> int:
    """Remove the first event of the heap."""
    first = heap[2, 0]
    sim[HEAPED] -= 1
    size, place = sim[HEAPED], 0
    at, number, row = heap[0, size], heap[1, size], heap[2, size]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and (
            heap[0, child + 1] < heap[0, child]
            or (heap[0, child + 1] == heap[0, child] and heap[1, child + 1] < heap[1, child])
        ):
            child += 1
        if heap[0, child] > at or (heap[0, child] == at and heap[1, child] > number):
            break
        heap[0, place], heap[1, place], heap[2, place] = heap[0, child], heap[1, child], heap[2, child]
        place = child
    heap[0, place], heap[1, place], heap[2, place] = at, number, row
    return int(first)
