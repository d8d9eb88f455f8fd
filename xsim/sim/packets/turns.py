"""The lists of flows that take turns at the ports of hosts, as Python sees them; see ``packet_crowd``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k

__all__ = ["give_room", "know_nothing", "standing"]

Ints = NDArray[np.int64]


def give_room(links: Ints, flows: Ints) -> Ints:
    """Lists for ``flows[port]`` flows each, empty; fills the ports in ``links``."""
    blocks, large = -(-flows // k.BLOCK), -(-flows // k.BLOCK**2)
    size = flows + k.BLOCK_COLUMNS * (blocks + large)
    ports = links[: len(flows)]
    ports[:, k.FLOWS_AT], ports[:, k.ROOM], ports[:, k.SLOTS] = np.cumsum(size) - size, flows, 0
    return np.zeros(int(size.sum()), dtype=np.int64)


def standing(links: Ints, turns: Ints, port: int) -> Ints:
    """The flows that take turns at the port, in their order."""
    first, slots = links[port, k.FLOWS_AT], max(links[port, k.SLOTS], links[port, k.FLOWS_HERE])
    found: Ints = turns[first : first + slots]
    return found[found >= 0]


def know_nothing(links: Ints, turns: Ints) -> None:
    """Of the crowds, now that their flows have been changed from outside."""
    for port in np.flatnonzero(links[:, k.SLOTS]).tolist():
        first, room, slots = links[port, [k.FLOWS_AT, k.ROOM, k.SLOTS]].tolist()
        blocks = -(-room // k.BLOCK)
        table = turns[first + room :][: k.BLOCK_COLUMNS * (blocks + -(-room // k.BLOCK**2))]
        table = table.reshape(-1, k.BLOCK_COLUMNS)
        table[: -(-slots // k.BLOCK), [k.QUIET, k.WAKES]] = 0
        table[blocks:, [k.QUIET, k.WAKES]] = 0
