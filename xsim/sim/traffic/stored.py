"""Transfers that go in packets, each of which a switch receives wholly before it sends it on, in closed form.

m packets cross n links one behind the other. Link k sends a full packet in ``w_k`` and the last, which may be smaller,
in ``l_k``. The last byte arrives when the slowest chain of sendings is over, of which each follows either the same
packet on the link before, or the packet before on the same link:

    max over j of  w_1 + .. + w_j  +  (m - 2) max(w_1, .., w_j)  +  l_j + .. + l_n        (m = 1: l_1 + .. + l_n)

j is where the chain goes over to the last packet. Where all links are alike it is n, and the transfer takes n - 1
packets longer than its bytes take on one link; else it takes about the first packet at the links before the slowest
and the last full one at those behind it. The difference to the bytes on the slowest link depends on nothing that
happens: it is a part of a row's latency.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.kernels.never import HALF_PPM, LONGEST_PS, PPM

__all__ = ["SCALE_UP", "PacketSizes", "Stored", "largest_bytes", "last_byte_ps", "on_wire", "sending_ps"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCALE_UP = "scale_up"  # kind of a link
BITS_TO_PS = 8 * 10**12
LIMITS = {True: (1, 1 << 20), False: (0, 1 << 16)}  # of payloads, of headers: their bits by 10**12 are an int64
NO_LINK = 1 << 62  # bits per second, beyond the end of a path


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """Bytes that a full packet carries, and of the header of each; the last two on ways of a scale-up fabric alone."""

    payload_bytes: int
    header_bytes: int
    scale_up_payload_bytes: int
    scale_up_header_bytes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least, most = getattr(self, field.name), *(LIMITS["payload" in field.name])
            if not least <= value <= most:
                raise SpecError(field.name, value, "packets are not of that size", f"choose {least} to {most}")


def on_wire(size_bytes: Ints, wire_ppm: Ints) -> Ints:
    """Bytes on the wire of so many that are carried, as the kernels round them."""
    extra_ppm = wire_ppm - PPM
    found: Ints = size_bytes + size_bytes // PPM * extra_ppm + (size_bytes % PPM * extra_ppm + HALF_PPM) // PPM
    return found


def sending_ps(wire_bytes: Ints, bytes_per_ps: Floats) -> Ints:
    """How long bytes take at that rate, as the kernels round it; above 0."""
    rounded: Ints = np.minimum(wire_bytes / bytes_per_ps + 0.5, LONGEST_PS).astype(np.int64)
    return np.maximum(1, rounded)


def largest_bytes(graph: TransferGraph) -> Ints:
    """The most that each row carries in one round, N: in a cycle, the size of its largest row."""
    found: Ints = graph.stop - graph.start
    for base in np.unique(graph.cycle_base[graph.cycle_len > 0]).tolist():
        cycle = slice(base, base + int(graph.cycle_len[base]))
        found[cycle] = found[cycle].max()
    return found


class Stored:
    """What packets of these sizes add to the rows of graphs on one fabric."""

    def __init__(self, fabric: Fabric, sizes: PacketSizes) -> None:
        self._sizes = sizes
        self._scale_up = np.array([link.kind == SCALE_UP for link in fabric.links])
        self._bits_per_s = np.maximum(1, np.rint(fabric.bandwidth_bytes_per_s * 8)).astype(np.int64)

    def __call__(self, graph: TransferGraph, path_ptr: Ints, path: Ints, bytes_per_ps: Floats) -> tuple[Ints, Ints]:
        """Of each row the bytes on the wire per million, headers included, and the latency in ps, both N.

        Exact for the largest piece that a row carries, to which those of other rounds are taken to be alike; but no
        row is faster than its bytes on its slowest link, though the time of each packet is rounded down.

        Args:
            path_ptr, path: Links of each row in CSR form.
            bytes_per_ps: Rates of the rows alone, N.
        """
        wire_ppm, latency_ps = graph.wire_ppm.copy(), np.zeros(graph.rows, dtype=np.int64)
        hops, carried = np.diff(path_ptr), largest_bytes(graph)
        rows = np.flatnonzero((hops > 0) & (carried > 0))
        if not len(rows):
            return wire_ppm, latency_ps
        content = on_wire(carried, wire_ppm)[rows]
        payload, header = self._packets(hops, path, rows)
        wire_ppm[rows] = np.rint((content + -(-content // payload) * header) / carried[rows] * PPM)
        fluid_ps = sending_ps(on_wire(carried, wire_ppm)[rows], bytes_per_ps[rows])
        alone_ps = last_byte_ps(content, payload, header, self._bits_per_s, path_ptr, path, rows)
        latency_ps[rows] = np.clip(alone_ps - fluid_ps, 0, LONGEST_PS)
        return wire_ppm, latency_ps

    def _packets(self, hops: Ints, path: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Bytes of payload and of header of the packets of ``rows``."""
        own = self._sizes
        scale_up_hops = np.bincount(np.repeat(np.arange(len(hops)), hops), self._scale_up[path], len(hops))
        inside = (scale_up_hops == hops)[rows]
        payload = np.where(inside, own.scale_up_payload_bytes, own.payload_bytes)
        return payload, np.where(inside, own.scale_up_header_bytes, own.header_bytes)


def last_byte_ps(
    size_bytes: Ints,
    payload_bytes: Ints | int,
    header_bytes: Ints | int,
    bits_per_s: Ints,
    path_ptr: Ints,
    path: Ints,
    rows: Ints,
    tick_ps: int = 1,
) -> Floats:
    """When the last byte of each of N transfers that are alone is through, in ps, links without delay.

    Args:
        size_bytes: That packets carry, above 0, N.
        payload_bytes, header_bytes: Of a full packet and of each, N or the same for all.
        bits_per_s: Of each link.
        path_ptr, path: Links of more transfers than these, in CSR form.
        rows: Which of them, none without a link, N.
        tick_ps: The clock to which the time of each packet is rounded down.
    """
    hops = np.diff(path_ptr)[rows, None]
    there = np.arange(hops.max())
    rates = np.where(there < hops, bits_per_s[path[np.minimum(path_ptr[rows, None] + there, len(path) - 1)]], NO_LINK)
    packets = -(-size_bytes // payload_bytes)
    full, last = payload_bytes + header_bytes + 0 * packets, size_bytes - (packets - 1) * payload_bytes + header_bytes
    full_ps, last_ps = (size[:, None] * BITS_TO_PS // rates // tick_ps * tick_ps for size in (full, last))
    before, behind = full_ps.cumsum(axis=1), last_ps[:, ::-1].cumsum(axis=1)[:, ::-1]
    slowest = np.maximum.accumulate(full_ps, axis=1)
    over_at = before + (packets[:, None] - 2.0) * slowest + behind
    return np.where(packets > 1, over_at.max(axis=1), behind[:, 0])
