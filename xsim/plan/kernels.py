"""What the judge does hundreds of thousands of times, compiled; and how planning compiles its hot loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["carry", "kernel", "put_in_order"]

Ints = NDArray[np.int64]
P = ParamSpec("P")
T = TypeVar("T")


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, compiled on its first call and kept on disk for the next process."""
    options: Any = {"cache": True, "error_model": "numpy", "nogil": True}
    return cast(Callable[P, T], numba.njit(**options)(function))


@kernel
def put_in_order(place: Ints, ptr: Ints, waits: Ints) -> Ints:
    """The order in which always that event comes next which is ready and has the smallest place.

    Args:
        place: Of each of E events, 0..E-1, each once.
        ptr, waits: Which earlier events it waits for, in CSR form.

    Returns:
        Numbers of events, E; fewer if some wait for each other.
    """
    count = len(place)
    at = np.empty(count, dtype=np.int64)
    first = np.zeros(count + 1, dtype=np.int64)
    for event in range(count):
        at[place[event]] = event
    for wait in waits:
        first[wait + 1] += 1
    first = np.cumsum(first)
    fill = first[:-1].copy()
    followers = np.empty(len(waits), dtype=np.int64)
    still_open = np.empty(count, dtype=np.int64)
    heap = np.empty(count, dtype=np.int64)  # places; none is before the one at half its index
    size = done = 0
    for event in range(count):
        still_open[event] = ptr[event + 1] - ptr[event]
        for wait in waits[ptr[event] : ptr[event + 1]]:
            followers[fill[wait]] = event
            fill[wait] += 1
    for own in range(count):  # rising, and so a heap
        if still_open[at[own]] == 0:
            heap[size] = own
            size += 1
    order = np.empty(count, dtype=np.int64)
    while size:
        event = at[heap[0]]
        order[done] = event
        done += 1
        size -= 1
        own, i = heap[size], 0
        while 2 * i + 1 < size:
            child = 2 * i + 1
            if child + 1 < size and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= own:
                break
            heap[i] = heap[child]
            i = child
        heap[i] = own
        for follower in followers[first[event] : first[event + 1]]:
            still_open[follower] -= 1
            if still_open[follower] == 0:
                own, i = place[follower], size
                size += 1
                while i and heap[(i - 1) // 2] > own:
                    heap[i] = heap[(i - 1) // 2]
                    i = (i - 1) // 2
                heap[i] = own
    return order[:done]


@kernel
def carry(
    order: Ints,
    src: Ints,
    dst: Ints,
    first: Ints,
    last: Ints,
    add: Ints,
    counts: NDArray[np.uint8],
    written: NDArray[np.bool_],
    switch: NDArray[np.bool_],
    values: Ints,
    given: NDArray[np.bool_],
) -> int:
    """Performs transfers as ``symbols.Notes`` does, until one that may not be; how many of ``order`` it has performed.

    Args:
        order: Numbers of the transfers.
        src, dst: Of each transfer, rows of the notes.
        first, last: Its pieces, half-open; none if equal.
        add: 1 if the receiver adds.
        counts: The notes, V x P x C.
        written: Whether something is there, V x P.
        switch: Which of the V are switches.
        values, given: Of a switch and piece, how many values are in the sum and whether it was given away, V x P.
    """
    for done in range(len(order)):
        event = order[done]
        a, b, adds = src[event], dst[event], add[event] != 0
        for p in range(first[event], last[event]):
            if not written[a, p] or (adds and not switch[b] and not written[b, p]):
                return done
            if (switch[b] and not adds) or (switch[a] and given[a, p] and values[a, p] > 1):
                return done
        for p in range(first[event], last[event]):
            if switch[a]:
                given[a, p] = True
            anew = not adds
            if switch[b]:
                anew = given[b, p]
                values[b, p] = 1 if anew else values[b, p] + 1
                given[b, p] = False
            for c in range(counts.shape[2]):
                counts[b, p, c] = min(2, counts[a, p, c] + (0 if anew else counts[b, p, c]))
            written[b, p] = True
    return len(order)
