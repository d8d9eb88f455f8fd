"""How long a transfer graph takes, roughly: the latencies and the bytes of its longest way, without simulating it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import PAYLOAD_PPM, TransferGraph

__all__ = ["forecast_ps"]


def forecast_ps(graph: TransferGraph, fabric: Fabric) -> int:
    """Picoseconds of ``graph`` alone on ``fabric``, all ranks starting together.

    Rows that are as many predecessors from the beginning run side by side: each link needs the time of all their
    bytes, and a row, in each round, its delay, the latency of its way, and the time of the busiest link on it. The
    rows of a cycle go at the pace of the slowest of them. The forecast is the longest chain of rows.

    Where all rows of such a level start and end together this is what a network of fair links takes; else it is near.

    Cost: about 10 us per row.
    """
    depth = _depths(graph)
    paces = _paces_ps(graph, fabric, depth)
    ends_ps = np.zeros(graph.rows)
    row = 0
    while row < graph.rows:
        count = max(1, int(graph.cycle_len[row]))
        own = range(row, row + count)
        start_ps = max((ends_ps[before] for each in own for before in graph.predecessors(each).tolist()), default=0.0)
        ends_ps[row : row + count] = start_ps + int(graph.rounds[row]) * max(paces[row : row + count])
        row += count
    return int(max(ends_ps, default=0.0))


def _depths(graph: TransferGraph) -> list[int]:
    """How many rows are before each row, one after the other; of a cycle, before any of its rows."""
    depth: list[int] = []
    while len(depth) < graph.rows:
        row = len(depth)
        count = max(1, int(graph.cycle_len[row]))
        before = graph.pred[graph.pred_ptr[row] : graph.pred_ptr[row + count]].tolist()
        depth += [1 + max((depth[other] for other in before), default=-1)] * count
    return depth


def _paces_ps(graph: TransferGraph, fabric: Fabric, depth: list[int]) -> list[float]:
    """Picoseconds of one round of each row, its links shared with the rows of its depth."""
    sizes = (graph.stop - graph.start).astype(float)
    for base in np.unique(graph.cycle_base[graph.cycle_len > 0]).tolist():
        own = slice(base, base + int(graph.cycle_len[base]))
        sizes[own] = sizes[own].mean()
    sizes *= graph.wire_ppm / PAYLOAD_PPM
    routes = [fabric.route(src, dst) for src, dst in zip(graph.src.tolist(), graph.dst.tolist(), strict=True)]
    busy_ps: defaultdict[tuple[int, int], float] = defaultdict(float)
    byte_ps = 1e12 / fabric.bandwidth_bytes_per_s
    for level, size, route in zip(depth, sizes.tolist(), routes, strict=True):
        for link in route:
            busy_ps[level, link] += size * float(byte_ps[link])
    paces = []
    for level, size, route, delay_ps in zip(depth, sizes.tolist(), routes, graph.delay_ps.tolist(), strict=True):
        if route and not size:
            paces.append(0.0)
            continue
        latency_ps = delay_ps + sum(int(fabric.latency_ps[link]) for link in route)
        paces.append(latency_ps + max((busy_ps[level, link] for link in route), default=0.0))
    return paces
