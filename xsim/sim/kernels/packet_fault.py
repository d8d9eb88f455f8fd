"""A link that fails: what is on it or waits for it at a switch is lost; what waits at a host stays there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel, part
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
    if row < 0 or _waits_at_its_host(rows[row, HOP], link, route):
        return
    while row >= 0:
        following, came_by, size = rows[row, NEXT], route[rows[row, HOP]], rows[row, SIZE]
        recycle(row, rows, sim)
        if came_by == link:  # a switch that cuts packets accounts for none
            pass
        elif links[came_by, BUFFER] > 0:
            links[came_by, TAKEN] -= size
            give_back(size, came_by, rows, links, wheel, heap, sim)
        else:
            _make_room(came_by, size, rows, links, switches, wheel, heap, sim)
        links[link, LOST] += 1
        row = following
    links[link, HEAD], links[link, BACKLOG] = -1, 0


@part
def _waits_at_its_host(hop: int, link: int, route: Ints) -> bool:
    """Whether a packet in the queue of the link has not begun its way."""
    return bool(route[hop] == link and (hop == 0 or route[hop - 1] < 0))


@part
def _forget(row: int, rows: Ints, sim: Ints) -> int:
    """Drop a list; the head of an empty one."""
    while row >= 0:
        following = rows[row, NEXT]
        recycle(row, rows, sim)
        row = following
    return -1


@part
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
