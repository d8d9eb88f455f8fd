"""Room for what the ends of flows keep of packets that overtake others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import MOST_AHEAD, Settings

__all__ = ["make_room"]

Ints = NDArray[np.int64]
BITS = 64  # of a word


def make_room(flows: Ints, largest_bytes: Ints, settings: Settings) -> int:
    """Give flows their words of ``arrived`` from 0 on, and windows that those can tell apart; how many words that is.

    A flow inside a host has none: nothing overtakes there.

    Args:
        largest_bytes: Of each flow, the most that one of its rounds carries.
    """
    if not settings.selective or not len(flows):
        return 0
    packets = np.clip(-(-largest_bytes // settings.payload_bytes), 1, MOST_AHEAD)
    words = np.where(flows[:, k.INSIDE] != 0, 0, -(-packets // BITS))
    ends = np.cumsum(2 * words)
    flows[:, k.WORDS], flows[:, k.ARRIVED] = words, ends - 2 * words
    most, window = words * BITS * settings.payload_bytes, flows[:, k.WINDOW]
    flows[:, k.WINDOW] = np.where(window > 0, np.minimum(window, most), most)
    return int(ends[-1])
