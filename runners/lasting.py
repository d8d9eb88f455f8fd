"""Whether flows that are replayed end within the time that simulations know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import Paths
from xsim.sim.kernels.never import LONGEST_PS

__all__ = ["check_ends", "check_lasting"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS_TO_PS = 8e12
DAY_PS = 86_400 * 10**12
LIMIT = f"no simulation lasts longer than {LONGEST_PS / DAY_PS:.1f} days"


@dataclass(frozen=True, slots=True)
class _Least:
    """The least times of N flows alone: of their bytes at their slowest links and all delays, in ps; and those links.

    Floats, which know times beyond int64.
    """

    took_ps: Floats
    slowest: Ints


def check_lasting(graph: Graph, flows: FlowList, paths: Paths) -> None:
    """Refuse flows that cannot end in time on any network: bytes without headers, each link alone with its own.

    Raises:
        SpecError: A flow starts or would end beyond ``LONGEST_PS``, alone or behind those that it waits for; or a link
            has more bytes than it carries by then.
    """
    bits_per_s = np.repeat([float(cable.bandwidth_bits_per_s) for cable in graph.cables], 2)
    least = _least(graph, flows, paths, bits_per_s)
    for row in np.flatnonzero(flows.start_ps > LONGEST_PS)[:1].tolist():
        problem = f"it starts {flows.start_ps[row] / DAY_PS:.1f} days late, and {LIMIT}"
        raise SpecError(_named(flows, row), int(flows.start_ps[row]), problem, "write an earlier start")
    for row in np.flatnonzero(least.took_ps > LONGEST_PS)[:1].tolist():
        took, link = f"{least.took_ps[row] / DAY_PS:.1f} days", graph.link_name(int(least.slowest[row]))
        problem = f"its bytes take {took} at least, the slowest link is {link}, and {LIMIT}"
        fix = "write fewer bytes, or a faster link"
        raise SpecError(_named(flows, row), int(flows.size_bytes[row]), problem, fix)
    _check_loads(graph, flows, paths, bits_per_s)
    end_ps = _ends(flows, least.took_ps)
    for row in np.flatnonzero(end_ps > LONGEST_PS)[:1].tolist():
        problem = f"with what it waits for, it ends after {end_ps[row] / DAY_PS:.1f} days at least, and {LIMIT}"
        fix = "write earlier starts or fewer bytes, or let it wait for less"
        raise SpecError(_named(flows, row), int(flows.start_ps[row]), problem, fix)


def check_ends(flows: FlowList, start_ps: Ints, end_ps: Ints) -> None:
    """Refuse results beyond the time that simulations know.

    Raises:
        SpecError: A flow ends before its start, or not before ``LONGEST_PS``, where times are cut off.
    """
    for row in np.flatnonzero((start_ps < 0) | (end_ps < start_ps) | (end_ps >= LONGEST_PS))[:1].tolist():
        problem, fix = f"it does not end in time: {LIMIT}", "write fewer bytes, earlier starts or faster links"
        raise SpecError(_named(flows, row), int(flows.size_bytes[row]), problem, fix)


def _named(flows: FlowList, row: int) -> str:
    return f"flow {flows.number[row]}"


def _least(graph: Graph, flows: FlowList, paths: Paths, bits_per_s: Floats) -> _Least:
    took_ps, slowest = np.zeros(len(flows)), np.zeros(len(flows), dtype=np.int64)
    travels = np.diff(paths.ptr) > 0
    if not travels.any():
        return _Least(took_ps, slowest)
    hops = np.diff(paths.ptr)
    row_of = np.repeat(np.arange(len(flows)), hops)
    delay_ps = np.repeat([float(cable.delay_ps) for cable in graph.cables], 2)
    rate = np.full(len(flows), np.inf)
    rate[travels] = np.minimum.reduceat(bits_per_s[paths.links], paths.ptr[:-1][travels])
    at = np.flatnonzero(bits_per_s[paths.links] == rate[row_of])[::-1]
    slowest[row_of[at]] = paths.links[at]
    took_ps = flows.size_bytes * BITS_TO_PS / rate + np.bincount(row_of, delay_ps[paths.links], len(flows))
    return _Least(np.where(flows.size_bytes > 0, took_ps, 0.0), slowest)


def _check_loads(graph: Graph, flows: FlowList, paths: Paths, bits_per_s: Floats) -> None:
    size_bytes = np.repeat(flows.size_bytes.astype(np.float64), np.diff(paths.ptr))
    load_ps = np.bincount(paths.links, size_bytes, len(bits_per_s)) * BITS_TO_PS / bits_per_s
    for link in np.flatnonzero(load_ps > LONGEST_PS)[:1].tolist():
        problem = f"the flows' bytes take it {load_ps[link] / DAY_PS:.1f} days at least, and {LIMIT}"
        raise SpecError("link", graph.link_name(link), problem, "write fewer bytes, or a faster link")


def _ends(flows: FlowList, took_ps: Floats) -> Floats:
    """When each ends at the earliest, N; cost: O(N), in Python where flows wait for others."""
    found = flows.start_ps + took_ps
    if not len(flows.after):
        return found
    ends, ptr, after = found.tolist(), flows.after_ptr.tolist(), flows.after.tolist()
    for row in flows.order().tolist():
        if ptr[row] < ptr[row + 1]:
            ends[row] += max(ends[other] for other in after[ptr[row] : ptr[row + 1]])
    return np.array(ends)
