"""What the links of a packet simulation have counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.contracts import LinkCounts
from xsim.sim.kernels import packet_columns as k

__all__ = ["add_back", "counts_of"]

Ints = NDArray[np.int64]


def add_back(back: Ints, first: Ints, go_backs: Ints) -> None:
    """Add, per link, how often flows that begin at ``first``, -1 for nowhere, went back."""
    np.add.at(back, first[first >= 0], go_backs[first >= 0])


def counts_of(links: Ints, back: Ints, tick_ps: int) -> LinkCounts:
    """What the links have counted, and per link how often the flows that begin there went ``back``."""
    return LinkCounts(
        sent_bytes=links[:, k.BYTES].copy(),
        packets=links[:, k.PACKETS].copy(),
        marks=links[:, k.MARKS].copy(),
        pauses=links[:, k.PAUSES].copy(),
        paused_ps=links[:, k.PAUSED_FOR] * tick_ps,
        drops=links[:, k.DROPS].copy(),
        lost=links[:, k.LOST].copy(),
        cuts=links[:, k.CUTS].copy(),
        go_backs=back,
    )
