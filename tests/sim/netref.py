"""Reads the reference runs of packet simulators: topologies, flows and completion times."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from xsim.fabric.graph import Cable, Graph
from xsim.sim.packets.flows import Flows

__all__ = ["REFERENCE", "expected_ns", "flows_between", "flows_of", "graph_of", "needs_reference"]

_ROOT = os.environ.get("XSIM_REFERENCE_DATA")
REFERENCE = Path(_ROOT) / "netref" if _ROOT else None
needs_reference = pytest.mark.skipif(
    REFERENCE is None or not REFERENCE.is_dir(), reason="XSIM_REFERENCE_DATA names no folder with netref/ in it"
)
MASK = 0xFFFFFFFF


def graph_of(name: str) -> Graph:
    assert REFERENCE is not None
    words = (REFERENCE / "scenarios" / f"{name}.hpcc").read_text().split()
    vertices, switches, cables = map(int, words[:3])
    rest = words[3 + switches :]
    return Graph(
        vertices,
        frozenset(map(int, words[3 : 3 + switches])),
        tuple(
            Cable(int(a), int(b), int(rate.removesuffix("Gbps")) * 10**9, int(delay.removesuffix("ns")) * 1000)
            for a, b, rate, delay in (rest[5 * i : 5 * i + 4] for i in range(cables))
        ),
    )


def flows_of(name: str, graph: Graph) -> tuple[Flows, list[int]]:
    """The flows of a scenario on their ECMP ways, and their ids."""
    assert REFERENCE is not None
    lines = (REFERENCE / "scenarios" / f"{name}.flows").read_text().splitlines()
    rows = [tuple(map(int, line.split())) for line in lines]
    place = {row[0]: number for number, row in enumerate(rows)}
    flows = flows_between(graph, [(src, dst, size, place.get(after, -1)) for _, src, dst, size, _, after in rows])
    assert not any(row[4] for row in rows), "all scenarios start at once"
    return flows, list(place)


def flows_between(graph: Graph, ends: Sequence[tuple[int, int, int, int]]) -> Flows:
    """Flows (source, target, bytes, which one before) on their ECMP ways; ports count up in the order of the steps."""
    depth = list[int]()
    for *_, after in ends:
        depth.append(depth[after] + 1 if after >= 0 else 0)
    seen = Counter[tuple[int, int]]()
    there, back = [[0]] * len(ends), [[0]] * len(ends)
    for number in sorted(range(len(ends)), key=depth.__getitem__):
        src, dst, *_ = ends[number]
        port = 10_000 + seen[src, dst]
        seen[src, dst] += 1
        there[number] = _way(graph, src, dst, port | 100 << 16)
        back[number] = _way(graph, dst, src, 100 | port << 16)
    table = np.array(ends, dtype=np.int64)
    return Flows(
        src=table[:, 0],
        dst=table[:, 1],
        size_bytes=table[:, 2],
        start_ps=np.zeros(len(ends), dtype=np.int64),
        after=table[:, 3],
        path_ptr=np.cumsum([0, *map(len, there)]),
        path=np.concatenate(there),
        back_ptr=np.cumsum([0, *map(len, back)]),
        back=np.concatenate(back),
    )


def expected_ns(setting: str, name: str) -> dict[int, tuple[int, int]]:
    """(start, completion time) of the flows by id."""
    assert REFERENCE is not None
    with (REFERENCE / f"{setting}_{name}.csv").open() as file:
        return {int(row["flow_id"]): (int(row["start_ns"]), int(row["fct_ns"])) for row in csv.DictReader(file)}


def _way(graph: Graph, src: int, dst: int, ports: int) -> list[int]:
    at, links = src, []
    while at != dst:
        hops = graph.next_hops(at, dst)
        hop = hops[_murmur3((_address(src), _address(dst), ports), at) % len(hops)]
        links.append(hop.link)
        at = hop.end
    return links


def _address(vertex: int) -> int:
    return 0x0B000001 + (vertex // 256 << 16) + (vertex % 256 << 8)


def _murmur3(words: tuple[int, ...], seed: int) -> int:
    value = seed
    for word in words:
        mixed = word * 0xCC9E2D51 & MASK
        mixed = (mixed << 15 | mixed >> 17) * 0x1B873593 & MASK
        value = value ^ mixed
        value = ((value << 13 | value >> 19) & MASK) * 5 + 0xE6546B64 & MASK
    value ^= 4 * len(words)
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK
    return value ^ value >> 16
