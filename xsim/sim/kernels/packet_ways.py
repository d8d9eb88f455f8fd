"""Which of several ways a packet takes: its sender decides, or every switch for itself."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_columns import (
    APART,
    CARRIED,
    COUNT,
    DOWN,
    FIRST,
    HOP,
    LATELY,
    PAUSED,
    RATE,
    SPRAYED,
    STRAY,
    STRIDE,
    WAY,
    WAYS,
)
from xsim.sim.kernels.packet_lane import queued_bytes
from xsim.sim.kernels.packet_link import chance, mixed_bits

__all__ = ["carry", "next_way", "steer"]

Ints = NDArray[np.int64]


@part
def next_way(flow: int, flows: Ints) -> int:
    """Place of the way of the flow's next packet: each once, in an order drawn anew, before one comes again.

    The orders go round the ways in steps that have no divisor in common with how many there are.
    """
    count, number = flows[flow, WAYS], flows[flow, SPRAYED]
    flows[flow, SPRAYED] = number + 1
    turn, drawn = number % count, mixed_bits(np.uint64(flows[flow, STRAY] + number // count))
    step = 1 + drawn // count % count
    while _common_divisor(step, count) != 1:
        step += 1
    return int(flows[flow, WAY] + (drawn + turn * step) % count * flows[flow, STRIDE])


@part
def _common_divisor(one: int, other: int) -> int:
    while other > 0:
        one, other = other, one % other
    return int(one)


@part
def steer(row: int, link: int, rows: Ints, links: Ints, route: Ints, forks: Ints, sim: Ints) -> int:
    """The link by which the switch at the end of ``link`` sends the packet on.

    Of two ports drawn at random and the one that it chose last, that with the shortest queue (DRILL with d = 2 and
    m = 1: Ghorbani et al., SIGCOMM 2017); a port is drawn as often as ways lead over it.
    """
    hop = rows[row, HOP]
    count = forks[hop, COUNT]
    if count < 2:
        return int(route[hop + 1])
    first, apart = forks[hop, FIRST], forks[hop, APART]
    found = int(chance(link, links) * count)
    after = first + found * apart + 1
    alike, leading = forks[after, COUNT], (forks[after, FIRST] - first) // apart
    if alike < count:
        other = int(chance(link, links) * (count - alike))
        other += alike if other >= leading else 0
        shortest = _wait(route[after], links, sim)
        for second in (other, forks[first, LATELY]):
            wait = _wait(route[first + second * apart + 1], links, sim)
            if wait < shortest:
                found, shortest = second, wait
        forks[first, LATELY] = found
    rows[row, HOP] = first + found * apart
    return int(route[first + found * apart + 1])


@part
def _wait(link: int, links: Ints, sim: Ints) -> float:
    """How long what waits at the port will take, in any unit.

    What is being sent does not count: flows that load their ports fully would each stay at the one that it has just
    found free, and so on one way.
    """
    if links[link, PAUSED] == DOWN:
        return math.inf
    return float(queued_bytes(link, links, sim)) / float(links[link, RATE])


@part
def carry(hop: int, payload: int, links: Ints, route: Ints) -> None:
    """A packet has come to its end: its bytes for each link of its way."""
    while hop >= 0 and route[hop] >= 0:
        links[route[hop], CARRIED] += payload
        hop -= 1
