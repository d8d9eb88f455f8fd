"""Whether streams go on as they went."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.sending import Streams, lasts
from xsim.sim.packets.views import Glance, Table

__all__ = ["LEFT", "asked_again", "may_move", "same", "steady", "unslowed"]

Ints = NDArray[np.int64]

LEFT = 16  # packets of a stream that are simulated in any case, and of each in a window
SWAY = 0.02  # by which the next window may differ
BUSY = 0.98  # of the time, at least
SWAY_PACKETS = 2


def same(before: Sequence[Table], after: Sequence[Table]) -> bool:
    """Whether all is equal."""
    return all(map(np.array_equal, before, after))


def may_move(engine: Engine, streams: Streams, before: Glance, after: Glance) -> bool:
    """Whether the same streams have gone on all the while, none of which adapts."""
    return same(before.kept, after.kept) and unslowed(engine, streams)


def unslowed(engine: Engine, streams: Streams) -> bool:
    """Whether no congestion control has slowed one of them."""
    memory = engine.memory[streams.flows]
    if not memory.shape[1]:
        return True
    alarms = memory[:, k.ALARM : k.LINE_BITS]
    free = (memory[:, k.RATE_BITS] == memory[:, k.LINE_BITS]) | (engine.flows[streams.flows, k.INSIDE] > 0)
    return bool(free.all() and not alarms.any())


def steady(engine: Engine, streams: Streams, first: Glance, middle: Glance, last: Glance) -> bool:
    """Whether each stream moves as much in the second window as in the first, and no queue changes.

    Where pauses or a congestion control share out the wires, shares drift over far more than two windows.
    """
    if engine.sim[k.CONTROLLED] or (last.paused != first.paused).any() or not may_move(engine, streams, first, last):
        return False
    payload = engine.flows[streams.flows, k.FULL_PAYLOAD]
    for column, packets in (("sent", 4 * SWAY_PACKETS), ("received", SWAY_PACKETS)):
        early = getattr(middle, column) - getattr(first, column)
        late = getattr(last, column) - getattr(middle, column)
        if (abs(late - early) > np.maximum(packets * payload, SWAY * early)).any() or (late < LEFT * payload).any():
            return False
    size = int(streams.sizes.max())
    if (abs(last.queued - first.queued) > SWAY_PACKETS * size).any():
        return False
    return _kept_busy(engine, streams, last.sent - first.sent, last.now - first.now)


def _kept_busy(engine: Engine, streams: Streams, sent: Ints, ticks: int) -> bool:
    """Whether each stream crosses a link that is busy all the time: what waits for credit shares it by chance."""
    which, link = streams.there
    packets = sent // engine.flows[streams.flows, k.FULL_PAYLOAD]
    spent = packets[which] * lasts(engine, streams.sizes[which], link)
    full = np.bincount(link, spent, len(engine.links)) > BUSY * ticks
    return bool((np.bincount(which, full[link], len(packets)) > 0).all())


def asked_again(engine: Engine, flows: Ints) -> bool:
    """Whether a receiver of these has missed a packet."""
    return bool((engine.flows[flows, k.GAP] >= engine.flows[flows, k.RECEIVED]).any())
