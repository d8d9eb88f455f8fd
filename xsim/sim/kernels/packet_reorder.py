"""Packets that overtake one another: what either end of a flow keeps of those beyond the first hole.

A flow has two strings of bits in ``arrived``, WORDS each, one bit per packet of its round and used over and over: first
the receiver's, of packets that are there while an earlier one is missing, then the sender's, of those among them that
were acknowledged. A sender has no more packets under way than a string has bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_columns import (
    ACKED,
    ARRIVED,
    BASE,
    FULL_PAYLOAD,
    MISSING,
    NEXT_BYTE,
    OVERHEAD,
    POSTED,
    RECEIVED,
    RETRY_AT,
    TRIES,
    WORDS,
)

__all__ = ["begin_round", "confirm", "most_under_way", "skip", "take"]

Ints = NDArray[np.int64]
BITS = 64  # of a word


@part
def most_under_way(flow: int, flows: Ints) -> int:
    """Bytes from the first that is missing on: the receiver has no bit for what lies beyond."""
    return int(flows[flow, WORDS] * BITS * flows[flow, FULL_PAYLOAD])


@part
def begin_round(flow: int, flows: Ints, arrived: Ints) -> None:
    """All earlier rounds have come: nobody waits for their acknowledgements."""
    posted, words = flows[flow, POSTED], flows[flow, WORDS]
    flows[flow, BASE] = flows[flow, ACKED] = flows[flow, NEXT_BYTE] = posted
    flows[flow, RETRY_AT] = flows[flow, TRIES] = 0
    for word in range(flows[flow, ARRIVED] + words, flows[flow, ARRIVED] + 2 * words):
        arrived[word] = 0


@part
def take(flow: int, first: int, size: int, flows: Ints, arrived: Ints) -> bool:
    """A packet is there; with it, bytes may be complete up to the next hole. False: it has come before."""
    wanted = flows[flow, RECEIVED]
    if first < wanted or (first > wanted and _is_set(flow, first, flows[flow, ARRIVED], flows, arrived)):
        return False
    flows[flow, MISSING] -= 1
    if first > wanted:
        _set(flow, first, flows[flow, ARRIVED], flows, arrived)
    else:
        wanted += size - flows[flow, OVERHEAD]
        while wanted < flows[flow, POSTED] and _is_set(flow, wanted, flows[flow, ARRIVED], flows, arrived):
            _clear(flow, wanted, flows[flow, ARRIVED], flows, arrived)
            wanted += min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - wanted)
        flows[flow, RECEIVED] = wanted
    return True


@part
def confirm(flow: int, upto: int, came: int, flows: Ints, arrived: Ints) -> bool:
    """All bytes before ``upto`` and the packet that begins with ``came`` are acknowledged; whether that is news."""
    acked, bits = flows[flow, ACKED], flows[flow, ARRIVED] + flows[flow, WORDS]
    news = upto > acked
    while acked < upto:
        _clear(flow, acked, bits, flows, arrived)
        acked += min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - acked)
    flows[flow, ACKED] = acked
    if came > acked and not _is_set(flow, came, bits, flows, arrived):
        _set(flow, came, bits, flows, arrived)
        news = True
    flows[flow, NEXT_BYTE] = max(flows[flow, NEXT_BYTE], acked)
    skip(flow, flows, arrived)
    return bool(news)


@part
def skip(flow: int, flows: Ints, arrived: Ints) -> None:
    """What is to be sent next is the next that is not acknowledged."""
    following, bits = flows[flow, NEXT_BYTE], flows[flow, ARRIVED] + flows[flow, WORDS]
    while following < flows[flow, POSTED] and _is_set(flow, following, bits, flows, arrived):
        following += min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - following)
    flows[flow, NEXT_BYTE] = following


@part
def _place(flow: int, first: int, flows: Ints) -> int:
    """Which bit of its string stands for the packet that begins with that byte."""
    return int((first - flows[flow, BASE]) // flows[flow, FULL_PAYLOAD] % (flows[flow, WORDS] * BITS))


@part
def _is_set(flow: int, first: int, bits: int, flows: Ints, arrived: Ints) -> bool:
    place = _place(flow, first, flows)
    return bool(arrived[bits + (place >> 6)] >> (place & 63) & 1)


@part
def _set(flow: int, first: int, bits: int, flows: Ints, arrived: Ints) -> None:
    place = _place(flow, first, flows)
    arrived[bits + (place >> 6)] |= 1 << (place & 63)


@part
def _clear(flow: int, first: int, bits: int, flows: Ints, arrived: Ints) -> None:
    place = _place(flow, first, flows)
    arrived[bits + (place >> 6)] &= ~(1 << (place & 63))
