"""The flows that have bytes to send, and what is known of their packets beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine

__all__ = ["Streams", "lasts", "packets_per_ack", "sizes_of", "streams_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The flows that have bytes to send.

    Attributes:
        flows: Their numbers, N.
        period: Ticks in which each had one turn at the busiest port, or as many as the largest acknowledgement is for.
        trip: Ticks of the longest undisturbed round trip of a full packet.
        there, back: Flows (places in ``flows``) and links of each hop of data and acknowledgements.
        sizes: Bytes of their full packets, all told, N.
        first_lasts: Ticks in which such a packet leaves its host, N.
        lossy: Whether a wire of them loses packets.
        each_acknowledged: Whether no acknowledgement is for more than one packet.
    """

    flows: Ints
    period: int
    trip: int
    there: tuple[Ints, Ints]
    back: tuple[Ints, Ints]
    sizes: Ints
    first_lasts: Ints
    lossy: bool
    each_acknowledged: bool


def streams_of(engine: Engine, flows: Ints) -> Streams:
    """Those flows, and how long their packets take; cost: O(N hops)."""
    links, own = engine.links, engine.flows[flows]
    there, back = (_walk(engine.route, own[:, column]) for column in (k.WAY, k.WAY_BACK))
    answered = own[back[0], k.INSIDE] == 0
    back = back[0][answered], back[1][answered]
    load, trip, each = np.zeros(len(links)), np.zeros(len(flows)), packets_per_ack(engine, flows)
    sizes, replies = sizes_of(engine, flows), np.full(len(flows), engine.sim[k.ACK_SIZE])
    for (which, link), size, share in ((there, sizes, np.ones(len(flows))), (back, replies, each)):
        took = lasts(engine, size[which], link)
        load += np.bincount(link, took / share[which], len(links))
        trip += np.bincount(which, took + links[link, k.DELAY], len(flows))
    return Streams(
        flows=flows,
        period=max(1, int(load.max() * each.max())),
        trip=int(trip.max()),
        there=there,
        back=back,
        sizes=sizes,
        first_lasts=lasts(engine, sizes, engine.route[own[:, k.WAY]]),
        lossy=bool((engine.chances[np.concatenate((there[1], back[1])), k.LOSS] > 0).any()),
        each_acknowledged=bool((each == 1).all()),
    )


def _walk(route: Ints, first: Ints) -> tuple[Ints, Ints]:
    """(which, link) of all hops of the ways that begin at these places."""
    return tuple(map(np.concatenate, zip(*_hops(route, first), strict=True)))  # type: ignore[return-value]


def _hops(route: Ints, first: Ints) -> Iterator[tuple[Ints, Ints]]:
    which, place = np.arange(len(first)), first
    yield which[:0], place[:0]
    while len(which):
        link = route[place]
        on = link >= 0
        which, place, link = which[on], place[on] + 1, link[on]
        yield which, link


def sizes_of(engine: Engine, flows: Ints) -> Ints:
    """Of full packets of these flows, all told."""
    sizes: Ints = engine.flows[flows, k.FULL_PAYLOAD] + engine.flows[flows, k.OVERHEAD]
    return sizes


def packets_per_ack(engine: Engine, flows: Ints) -> Ints:
    """How many packets these flows have acknowledged at once."""
    each: Ints = np.maximum(1, -(-engine.sim[k.ACK_EVERY] // engine.flows[flows, k.FULL_PAYLOAD]))
    return each


def lasts(engine: Engine, size: Ints, link: Ints) -> Ints:
    """Ticks in which packets of these sizes are sent."""
    lasts: Ints = (size * 8 * engine.sim[k.SCALE] - engine.sim[k.BELOW]) // engine.links[link, k.RATE]
    return lasts
