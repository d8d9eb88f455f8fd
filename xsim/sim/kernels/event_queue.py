"""Heaps: events by instant, each slot at most once; links by share and number. See ``events``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.event_columns import AT, KEY, ORDER, ORDERED, PLACE, QUEUED
from xsim.sim.kernels.jit import kernel

__all__ = ["pop", "push", "schedule", "unschedule"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def schedule(slot: int, at_ps: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Set the instant of the slot's one event, in the queue or new to it."""
    place = slots[slot, PLACE]
    if place < 0:
        place = sim[QUEUED]
        sim[QUEUED] += 1
    slots[slot, AT] = at_ps
    _settle(slot, place, slots, sim, queue)


@kernel
def unschedule(slot: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Take the slot's event out of the queue."""
    place = slots[slot, PLACE]
    slots[slot, PLACE] = -1
    sim[QUEUED] -= 1
    last = queue[sim[QUEUED]]
    if last != slot:
        _settle(last, place, slots, sim, queue)


@kernel
def _settle(slot: int, place: int, slots: Ints, sim: Ints, queue: Ints) -> None:
    """Put the slot at the hole in ``place`` or above or below it, so that no event stands before an earlier one."""
    at_ps, size = slots[slot, AT], sim[QUEUED]
    while place > 0 and slots[queue[(place - 1) // 2], AT] > at_ps:
        queue[place] = queue[(place - 1) // 2]
        slots[queue[place], PLACE] = place
        place = (place - 1) // 2
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and slots[queue[child + 1], AT] < slots[queue[child], AT]:
            child += 1
        if slots[queue[child], AT] >= at_ps:
            break
        queue[place] = queue[child]
        slots[queue[place], PLACE] = place
        place = child
    queue[place] = slot
    slots[slot, PLACE] = place


@kernel
def push(key: float, link: int, widths: Floats, sim: Ints, lists: Ints) -> None:
    """Add a link to those ordered by (key, number)."""
    place = sim[ORDERED]
    sim[ORDERED] += 1
    while place > 0:
        above = (place - 1) // 2
        if widths[above, KEY] < key or (widths[above, KEY] == key and lists[ORDER, above] < link):
            break
        widths[place, KEY], lists[ORDER, place] = widths[above, KEY], lists[ORDER, above]
        place = above
    widths[place, KEY], lists[ORDER, place] = key, link


@kernel
def pop(widths: Floats, sim: Ints, lists: Ints) -> None:
    """Remove the first of the links ordered by (key, number)."""
    sim[ORDERED] -= 1
    size, place = sim[ORDERED], 0
    key, link = widths[size, KEY], lists[ORDER, size]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        best, number = widths[child, KEY], lists[ORDER, child]
        if child + 1 < size:
            other, other_number = widths[child + 1, KEY], lists[ORDER, child + 1]
            if other < best or (other == best and other_number < number):
                child, best, number = child + 1, other, other_number
        if best > key or (best == key and number > link):
            break
        widths[place, KEY], lists[ORDER, place] = best, number
        place = child
    widths[place, KEY], lists[ORDER, place] = key, link
