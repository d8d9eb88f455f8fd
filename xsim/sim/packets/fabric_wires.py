"""A fabric's links as the packet kernel's tables."""

from __future__ import annotations

import numpy as np

from xsim.fabric.fabric import Fabric
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import Wires, empty_links, mark_ports

__all__ = ["wires_of_fabric"]

UNLIMITED_BYTES = 1 << 60
PACKETS_UNDER_WAY = 3  # beside the delay both ways: one being sent at either end when a pause is called for, one more


def wires_of_fabric(fabric: Fabric, settings: Settings) -> Wires:
    """Links as they are numbered in the fabric; where one ends and another begins is read off their names.

    What lies between two links is a switch that pauses those who send to it. One whose ports' headroom and reserve take
    more than half of ``buffer_bytes`` has twice of what they take instead: a topology may draw many switches as one. A
    link with no way back has a buffer without end, since nobody could be told to pause.
    """
    rate = np.maximum(1, np.rint(fabric.bandwidth_bytes_per_s * 8)).astype(np.int64)
    delay_ps = fabric.latency_ps.astype(np.int64)
    links, chances = empty_links(rate, delay_ps, settings)
    mark_ports(links, chances, settings)
    ends = [link.name.partition(" -> ")[::2] for link in fabric.links]
    number = {pair: link for link, pair in enumerate(ends)}
    back = np.array([number.get((end, start), -1) for start, end in ends], dtype=np.int64)
    private = [f"behind link {link}" for link in range(len(ends))]
    behind = [end if way >= 0 else own for (_, end), way, own in zip(ends, back.tolist(), private, strict=True)]
    place = {vertex: switch for switch, vertex in enumerate(dict.fromkeys(behind))}
    links[:, k.BACK], links[:, k.INTO] = back, [place[vertex] for vertex in behind]
    links[:, k.HEADROOM] = rate / 8e12 * delay_ps * settings.headroom + PACKETS_UNDER_WAY * settings.data_bytes
    switches = np.zeros((len(place), k.SWITCH_COLUMNS), dtype=np.int64)
    np.add.at(switches[:, k.POOL], links[:, k.INTO], links[:, k.HEADROOM] + settings.reserve_bytes)
    switches[:, k.POOL] = np.maximum(settings.buffer_bytes - switches[:, k.POOL], switches[:, k.POOL])
    switches[links[back < 0, k.INTO], k.POOL] = UNLIMITED_BYTES
    return Wires(links, chances, switches)
