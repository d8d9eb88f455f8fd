"""A graph's directed links and switches as the packet kernel's tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.graph import Graph
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings

__all__ = ["Wires", "below_of", "wires_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BITS_PER_S_TO_PS = 8 * 10**12
NEVER_MARK = 1 << 62
SHIFT = 3  # a port may hold an eighth of the free pool


@dataclass(frozen=True, slots=True, eq=False)
class Wires:
    """Tables of L links and S switches; see ``packet_columns``."""

    links: Ints
    chances: Floats
    switches: Ints


def wires_of(graph: Graph, settings: Settings) -> Wires:
    """Directed link 2 i and 2 i + 1 are those of cable i; switches in order of their vertices."""
    number = {vertex: place for place, vertex in enumerate(sorted(graph.switches))}
    cables = graph.cables
    links = np.zeros((2 * len(cables), k.LINK_COLUMNS), dtype=np.int64)
    chances = np.zeros((2 * len(cables), 2))
    rate = np.repeat([cable.bandwidth_bits_per_s for cable in cables], 2)
    delay_ps = np.repeat([cable.delay_ps for cable in cables], 2)
    owner = np.array([number.get(vertex, -1) for cable in cables for vertex in (cable.a, cable.b)], dtype=np.int64)
    links[:, k.RATE], links[:, k.DELAY] = rate, delay_ps // settings.tick_ps
    links[:, k.BACK] = np.arange(2 * len(cables)) ^ 1
    links[:, k.INTO] = owner[links[:, k.BACK]]
    scale, below = 10**12 // settings.tick_ps, below_of(settings.tick_ps)
    links[:, k.DATA_TIME] = (settings.data_bytes * 8 * scale - below) // rate
    links[:, k.ACK_TIME] = (settings.reply_bytes * 8 * scale - below) // rate
    links[:, [k.HEAD, k.URGENT, k.WAKE_ROW]] = -1
    links[:, k.FREE_SERIAL] = -1
    links[:, k.HEADROOM] = [
        int(r) * int(d) // BITS_PER_S_TO_PS * settings.headroom for r, d in zip(rate, delay_ps, strict=True)
    ]
    nic = int(rate[owner < 0].max(initial=1))
    links[:, k.SHIFT] = [max(0, SHIFT - _halvings(int(r), nic)) for r in rate]
    links[:, [k.KMIN, k.KMAX]] = NEVER_MARK
    for bits_per_s in np.unique(rate).tolist():
        marking = settings.marking(bits_per_s)
        if marking is not None:
            same = rate == bits_per_s
            links[same, k.KMIN], links[same, k.KMAX] = marking.kmin_bytes, marking.kmax_bytes
            chances[same, k.PMAX] = marking.pmax
    links[:, k.DICE] = _dice(len(links), settings.seed)
    chances[:, k.LOSS] = np.repeat([cable.loss for cable in cables], 2)
    switches = np.zeros((len(number), k.SWITCH_COLUMNS), dtype=np.int64)
    switches[:, k.POOL] = settings.buffer_bytes
    into = links[:, k.INTO]
    ports = into >= 0
    np.subtract.at(switches[:, k.POOL], into[ports], links[ports, k.HEADROOM] + settings.reserve_bytes)
    return Wires(links, chances, switches)


def below_of(tick_ps: int) -> int:
    """1 if what lasts a whole number of ticks is to last one less.

    So it is in ns-3, whose durations are seconds in fixed point, rounded down, before they are nanoseconds: what would
    be whole falls short. Flows that are held to 1 Gb/s show it (HPCC with 16 senders at one receiver: 8720 ns a packet,
    of which ns-3 makes 8719).
    """
    return int(tick_ps == 1000)


def _halvings(rate: int, nic: int) -> int:
    """How often ``rate`` must be halved to be no more than the hosts'."""
    return max(0, (-(-rate // nic) - 1).bit_length())


def _dice(links: int, seed: int) -> Ints:
    """A start for each link's own sequence of chances."""
    return np.random.default_rng(seed).integers(-(1 << 63), 1 << 63, size=links, dtype=np.int64)
