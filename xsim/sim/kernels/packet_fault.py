"""A link that fails: what is on it or waits for it at a switch is lost; what waits at a host stays there.

A NIC that PCIe feeds is a switch here: what waited in it for good would keep from the PCIe link what goes another way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel, part
from xsim.sim.kernels.packet_clock import recycle
from xsim.sim.kernels.packet_columns import (
    BACKLOG,
    BUFFER,
    CLASSES,
    CREDIT_CALL,
    CREDITS,
    DOWN,
    EXEMPT,
    HEAD,
    HOP,
    ISSUED,
    LINKS,
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
    QUEUE,
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
from xsim.sim.kernels.packet_lane import lane_of
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
    row = links[link, URGENT]
    while row >= 0 and sim[QUEUE]:  # where packets are cut, no frames are urgent, but packets
        links[link, LOST] += 1
        row = rows[row, NEXT]
    links[link, URGENT] = _forget(links[link, URGENT], rows, sim)
    for place in range(sim[CLASSES] + 1):
        _sever_lane(link + place * sim[LINKS], link, at, rows, links, switches, route, wheel, heap, sim)


@kernel
def _sever_lane(
    lane: int,
    link: int,
    at: int,
    rows: Ints,
    links: Ints,
    switches: Ints,
    route: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """What the failure of the link means for one of its lanes."""
    links[lane, SEVERED] = sim[ISSUED]
    if links[lane, PAUSED]:
        links[lane, PAUSED_FOR] += at - links[lane, PAUSED_SINCE]
    links[lane, PAUSED], links[lane, PAUSING] = DOWN, 0
    if links[lane, BUFFER] > 0:
        links[lane, CREDITS], links[lane, CREDIT_CALL] = links[lane, BUFFER] - links[lane, TAKEN], NO_CALL
    links[lane, OWED] = _forget(links[lane, OWED], rows, sim)
    row = links[lane, HEAD]
    if row < 0 or _waits_at_its_host(rows[row, HOP], link, route):
        return
    while row >= 0:
        following, came_over, size = rows[row, NEXT], route[rows[row, HOP]], rows[row, SIZE]
        came_by = lane_of(came_over, row, rows, sim)
        recycle(row, rows, sim)
        counted = came_over != link  # a switch that cuts packets counts none
        if counted and links[came_by, BUFFER] > 0:
            links[came_by, TAKEN] -= size
            give_back(size, came_by, rows, links, wheel, heap, sim)
        elif counted and not (sim[EXEMPT] and came_by == came_over):
            _make_room(came_by, size, rows, links, switches, wheel, heap, sim)
        links[link, LOST] += 1
        row = following
    links[lane, HEAD], links[lane, BACKLOG] = -1, 0


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
