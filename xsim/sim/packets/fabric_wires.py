"""A fabric's links as the packet kernel's tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from xsim.fabric.fabric import Fabric
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import NEVER_MARK, UNLIMITED_BYTES, Wires, empty_links, give_credit, mark_ports
from xsim.sim.traffic.stored import SCALE_UP

__all__ = ["INSIDE_HOSTS", "wires_of_fabric"]

INSIDE_HOSTS = ("pcie", SCALE_UP)  # kinds of links


def wires_of_fabric(fabric: Fabric, settings: Settings) -> Wires:
    """Links as they are numbered in the fabric.

    Links inside hosts, PCIe and scale-up, work by credit as their standards have it, and mark nothing; of those between
    hosts the settings say how they work. What lies between two links is a switch. One whose ports' headroom and reserve
    take more than half of ``buffer_bytes`` has twice of what they take instead: a topology may draw many switches as
    one. A link with no way back and no credit has a buffer without end, since nobody could be told to pause. Where
    switches cut packets, all else waits without end: in hosts whose own links are slower than their network.
    """
    kinds = np.array([link.kind for link in fabric.links])
    inside = np.isin(kinds, INSIDE_HOSTS)
    rate = np.maximum(1, np.rint(fabric.bandwidth_bytes_per_s * 8)).astype(np.int64)
    delay_ps = fabric.latency_ps.astype(np.int64)
    sizes = np.where(kinds == SCALE_UP, settings.scale_up_bytes, settings.data_bytes)
    links, chances = empty_links(rate, delay_ps, sizes, settings)
    mark_ports(links, chances, settings)
    links[inside, k.KMIN] = links[inside, k.KMAX] = NEVER_MARK
    credit = inside | (settings.flow_control == "credit")
    give_credit(links, np.flatnonzero(credit), settings)
    links[:, k.SIGNALS] = settings.flow_control == "pause"
    ends = _ends(fabric)
    back = np.array(_ways_back(ends), dtype=np.int64)
    private = [f"behind link {link}" for link in range(len(ends))]
    behind = [end if way >= 0 else own for (_, end), way, own in zip(ends, back.tolist(), private, strict=True)]
    place = {vertex: switch for switch, vertex in enumerate(dict.fromkeys(behind))}
    links[:, k.BACK], links[:, k.INTO] = back, [place[vertex] for vertex in behind]
    shared = ~credit
    under_way = rate / 8e12 * delay_ps * settings.headroom + settings.headroom_packets * settings.largest_bytes
    links[shared, k.HEADROOM] = under_way[shared]
    switches = np.zeros((len(place), k.SWITCH_COLUMNS), dtype=np.int64)
    np.add.at(switches[:, k.POOL], links[shared, k.INTO], links[shared, k.HEADROOM] + settings.reserve_bytes)
    switches[:, k.POOL] = np.maximum(settings.buffer_bytes - switches[:, k.POOL], switches[:, k.POOL])
    switches[links[shared & (back < 0), k.INTO], k.POOL] = UNLIMITED_BYTES
    if settings.congestion.asking:
        switches[:, k.POOL] = UNLIMITED_BYTES
    return Wires(links, chances, switches)


def _ends(fabric: Fabric) -> list[tuple[Hashable, Hashable]]:
    """Where each link starts and ends: its vertices, or what its name says where they are not numbered."""
    if len(fabric.start):
        return list(zip(fabric.start.tolist(), fabric.end.tolist(), strict=True))
    return [(start, end) for start, _, end in (link.name.partition(" -> ") for link in fabric.links)]


def _ways_back(ends: Sequence[tuple[Hashable, Hashable]]) -> list[int]:
    """Of each link the one that goes back; of several side by side the one in the same place; -1 if there is none."""
    side_by_side: defaultdict[tuple[Hashable, Hashable], list[int]] = defaultdict(list)
    for link, pair in enumerate(ends):
        side_by_side[pair].append(link)
    back = [-1] * len(ends)
    for (start, end), there in side_by_side.items():
        for link, other in zip(there, side_by_side.get((end, start), ()), strict=False):
            back[link] = other
    return back
