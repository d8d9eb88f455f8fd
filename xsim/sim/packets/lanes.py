"""Traffic classes in the packet kernel's tables: rows for their lanes, and what all lanes of a link have counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.tables import in_lines
from xsim.sim.packets.wires import NEVER_MARK

__all__ = ["lane_bits", "lanes_of", "ports_of"]

Ints = NDArray[np.int64]
COUNTED = (k.BACKLOG, k.MARKS, k.PAUSES, k.PAUSED_FOR, k.DROPS, k.LOST)  # of each lane


def lanes_of(links: Ints, settings: Settings) -> Ints:
    """The table of L idle links with the lanes of all classes: L rows for each."""
    count = len(settings.lanes)
    if count == 1:
        return links
    links[:, k.SERVED_LANE] = count - 1
    found = in_lines(np.concatenate([links] * count))
    if settings.exempts:
        found[: len(links), [k.KMIN, k.KMAX]] = NEVER_MARK
    return found


def ports_of(links: Ints, count: int) -> Ints:
    """A row for each of ``count`` links, with what all of its lanes have counted."""
    if count == len(links):
        return links
    found = links[:count].copy()
    for column in COUNTED:
        found[:, column] = links[:, column].reshape(-1, count).sum(axis=0)
    return found


def lane_bits(settings: Settings, classes: Ints) -> Ints:
    """Of flows of these classes what stands in the kind of their packets."""
    bits: Ints = np.searchsorted(np.array(settings.lanes), classes) << k.LANE_AT
    return bits
