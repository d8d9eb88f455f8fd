"""A link that fails: what is on it or waits for it at a switch is lost; what waits at a host stays there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.packet_clock import recycle
from xsim.sim.kernels.packet_columns import (
    BACKLOG,
    BUFFER,
    CREDIT_CALL,
    CREDITS,
    DOWN,
    HEAD,
    HOP,
    ISSUED,
    LOST,
    NEXT,
    NO_CALL,
    NOW,
    OVER,
    OWED,
    PAUSED,
    PAUSED_FOR,
    PAUSED_SINCE,
    PAUSING,
    RESERVE,
    RESUME,
    RESUME_GAP,
    SEVERED,
    SIZE,
    TAKEN,
    TURN,
    URGENT,
)
from xsim.sim.kernels.packet_credit import give_back
from xsim.sim.kernels.packet_link import depart, signal, threshold

__all__ = ["sever"]

Ints = NDArray[np.int64]


@kernel
def sever(
    link: int, at: int, rows: Ints, links: Ints, switches: Ints, route: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> None:
    """Let the link fail at ``at``, before all else of that instant. The one the other way fails with it, but not here.

    Its ends forget what they have told each other of pauses and credit.
    """
    sim[NOW], sim[TURN] = at, -1
    links[link, SEVERED] = sim[ISSUED]
    if links[link, PAUSED]:
        links[link, PAUSED_FOR] += at - links[link, PAUSED_SINCE]
    links[link, PAUSED], links[link, PAUSING] = DOWN, 0
    if links[link, BUFFER] > 0:
        links[link, CREDITS], links[link, CREDIT_CALL] = links[link, BUFFER] - links[link, TAKEN], NO_CALL
    links[link, OWED] = _forget(links[link, OWED], rows, sim)
    links[link, URGENT] = _forget(links[link, URGENT], rows, sim)
    row = links[link, HEAD]
    if row < 0 or route[rows[row, HOP]] == link:
        return
    while row >= 0:
        following, came_by, size = rows[row, NEXT], route[rows[row, HOP]], rows[row, SIZE]
        recycle(row, rows, sim)
        if links[came_by, BUFFER] > 0:
            links[came_by, TAKEN] -= size
            give_back(size, came_by, rows, links, wheel, heap, sim)
        else:
            _make_room(came_by, size, rows, links, switches, wheel, heap, sim)
        links[link, LOST] += 1
        row = following
    links[link, HEAD], links[link, BACKLOG] = -1, 0


@kernel
def _forget(row: int, rows: Ints, sim: Ints) -> int:
    """Drop a list; the head of an empty one."""
    while row >= 0:
        following = rows[row, NEXT]
        recycle(row, rows, sim)
        row = following
    return -1


@kernel
def _make_room(
    link: int, size: int, rows: Ints, links: Ints, switches: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> None:
    """A packet that came over ``link`` leaves the memory of a switch, which may let the sender resume."""
    depart(link, size, links, switches, sim)
    if links[link, PAUSING] and links[link, OVER] == 0:
        shared = links[link, TAKEN] - sim[RESERVE]
        if shared <= 0 or shared + sim[RESUME_GAP] <= threshold(link, links, switches):
            links[link, PAUSING] = 0
            signal(RESUME, link, rows, links, wheel, heap, sim)
