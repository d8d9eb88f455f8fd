"""Flows that are listed one by one, on a network whose backend runs transfer graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import Paths
from xsim.fabric.transfers import COLUMNS, PAYLOAD_PPM, Row, TransferGraph, graph_of
from xsim.sim.contracts import NetworkBackend, NetworkStats
from xsim.sim.packets.flows import Flows
from xsim.sim.traffic.stored import BITS_TO_PS, last_byte_ps, sending_ps

__all__ = ["Replayed", "as_packets", "replay", "stored_ps"]

Ints = NDArray[np.int64]

_ROWS = 512  # flows per transfer graph, unless more are tied together: a graph keeps a bit per party and instance


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """When N flows began and ended.

    Attributes:
        start_ps, end_ps: int64, N. A flow ends with its last byte at the receiver.
        stats: What went over the graph's directed links.
    """

    start_ps: Ints
    end_ps: Ints
    stats: NetworkStats


def replay(
    graph: Graph,
    flows: FlowList,
    paths: Paths,
    wire_bytes: Ints,
    backend: NetworkBackend,
    seed: int,
    watch: Callable[[int], None],
    delay_ps: Ints | None = None,
) -> Replayed:
    """Run all flows; one that waits for others starts when their last bytes are at their receivers.

    Each flow is a party of its own, with two ranks of its own whose route is the flow's path: so it has its own release
    and its own end.

    Args:
        paths: Of the flows' data.
        wire_bytes: What each puts on its links, headers included, N.
        watch: Told now and then how many flows have ended.
        delay_ps: What comes on top for each, as ``stored_ps``; None: nothing.

    Raises:
        SpecError: A flow does not end, or later than simulations go on.
    """
    own_ps = np.zeros(len(flows), dtype=np.int64) if delay_ps is None else delay_ps
    network = backend.open(_fabric(graph, flows, paths), seed)
    parts: dict[int, Ints] = {}
    for rows in _parts(flows):
        handle = network.submit(_transfers(flows, rows, wire_bytes, own_ps))
        parts[handle] = rows
        for party, row in enumerate(rows.tolist()):
            network.release(handle, party, 0 if len(flows.awaits(row)) else int(flows.start_ps[row]))
    end_ps = np.full(len(flows), -1)
    ended = 0
    while completions := network.advance(None):
        for handle, party, at_ps in completions:
            end_ps[parts[handle][party]] = at_ps
        ended += len(completions)
        watch(ended)
    for row in np.flatnonzero(end_ps < 0)[:1].tolist():
        problem, fix = "it does not end within the time that simulations know", "write fewer bytes, or faster links"
        raise SpecError(f"flow {flows.number[row]}", int(flows.size_bytes[row]), problem, fix)
    return Replayed(_starts_ps(flows, end_ps), end_ps, network.stats())


def stored_ps(graph: Graph, flows: FlowList, paths: Paths, payload_bytes: int, header_bytes: int) -> Ints:
    """How much longer each flow takes alone because its packets are stored on their way, N; none if it has no bytes.

    Packets take what they take among packets with time in ps.
    """
    found, travels = np.zeros(len(flows), dtype=np.int64), np.diff(paths.ptr) > 0
    rows = np.flatnonzero(travels & (flows.size_bytes > 0))
    if not len(rows):
        return found
    size_bytes, slowest = flows.size_bytes[rows], np.zeros(len(flows))
    bits_per_s = np.repeat([cable.bandwidth_bits_per_s for cable in graph.cables], 2)
    slowest[travels] = np.minimum.reduceat(bits_per_s[paths.links], paths.ptr[:-1][travels])
    wire_bytes = size_bytes + -(-size_bytes // payload_bytes) * header_bytes
    alone_ps = last_byte_ps(size_bytes, payload_bytes, header_bytes, bits_per_s, paths.ptr, paths.links, rows)
    found[rows] = np.maximum(0, alone_ps - sending_ps(wire_bytes, slowest[rows] / BITS_TO_PS))
    return found


def as_packets(flows: FlowList, there: Paths, back: Paths) -> Flows:
    """The flows as the packet simulation takes them, with the paths of their data and of their acknowledgements.

    Raises:
        SpecError: A flow waits for several others.
    """
    waits = np.diff(flows.after_ptr)
    for row in np.flatnonzero(waits > 1)[:1].tolist():
        problem, fix = "among packets, a flow waits for one other", "replay it on another network"
        raise SpecError(f"flow {flows.number[row]}", f"after {waits[row]} others", problem, fix)
    after = np.full(len(flows), -1)
    after[waits > 0] = flows.after
    columns = (flows.src, flows.dst, flows.size_bytes, flows.start_ps, after)
    paths = (there.ptr, there.links, back.ptr, back.links)
    return Flows(*columns, *paths, number=flows.number, classes=flows.classes)


def _fabric(graph: Graph, flows: FlowList, paths: Paths) -> Fabric:
    """Ranks 2 i and 2 i + 1 are the ends of flow i."""

    def route(src: int, dst: int) -> tuple[int, ...]:
        return () if src == dst else tuple(paths.links[paths.ptr[src // 2] : paths.ptr[src // 2 + 1]].tolist())

    cables = graph.cables
    return Fabric(
        bandwidth_bytes_per_s=np.repeat([cable.bandwidth_bits_per_s / 8 for cable in cables], 2),
        latency_ps=np.repeat(np.array([cable.delay_ps for cable in cables], dtype=np.int64), 2),
        links=tuple(Link(graph.link_name(link), "cable") for link in range(2 * len(cables))),
        hosts=tuple(np.stack((flows.src, flows.dst), axis=1).ravel().tolist()),
        router=route,
    )


def _parts(flows: FlowList) -> Iterator[Ints]:
    """Rows of each transfer graph, in an order in which none precedes one that it waits for."""
    if not len(flows):
        return
    waiting = np.repeat(np.arange(len(flows)), np.diff(flows.after_ptr))
    ties = coo_array((np.ones(len(waiting)), (waiting, flows.after)), shape=(len(flows), len(flows)))
    _, label = connected_components(ties, directed=False)
    _, first, size = np.unique(label, return_index=True, return_counts=True)
    listed = np.argsort(first)
    part = np.empty(len(first), dtype=np.int64)
    part[listed] = (np.cumsum(size[listed]) - size[listed]) // _ROWS
    order = flows.order()
    place = np.argsort(part[label][order], kind="stable")
    bounds = np.flatnonzero(np.diff(part[label][order][place])) + 1
    yield from np.split(order[place], bounds)


def _transfers(flows: FlowList, rows: Ints, wire_bytes: Ints, own_ps: Ints) -> TransferGraph:
    """The flows of ``rows``: party p is flow ``rows[p]``, and its start after others a row of its own before it."""
    table: list[Row] = []
    waits: list[tuple[int, ...]] = []
    last: dict[int, int] = {}  # per flow, its row of the graph
    for flow in rows.tolist():
        before = tuple(last[other] for other in flows.awaits(flow).tolist())
        delay_ps = int(flows.start_ps[flow])
        if before and delay_ps:
            table.append(_row(2 * flow, 2 * flow, 0, delay_ps, len(table)))
            waits.append(before)
            before = (len(table) - 1,)
        last[flow] = len(table)
        table.append(_row(2 * flow, 2 * flow + 1, int(wire_bytes[flow]), int(own_ps[flow]), len(table)))
        waits.append(before)
    return graph_of(table, waits, [(2 * flow, 2 * flow + 1) for flow in rows.tolist()])


def _row(src: int, dst: int, size: int, delay_ps: int, own: int) -> Row:
    given = {"src": src, "dst": dst, "stop": size, "rounds": 1, "cycle_base": own, "delay_ps": delay_ps}
    return tuple((given | {"wire_ppm": PAYLOAD_PPM}).get(column, 0) for column in COLUMNS)


def _starts_ps(flows: FlowList, end_ps: Ints) -> Ints:
    start_ps = flows.start_ps.copy()
    waiting = np.flatnonzero(np.diff(flows.after_ptr))
    if len(waiting):
        start_ps[waiting] += np.maximum.reduceat(end_ps[flows.after], flows.after_ptr[waiting])
    return start_ps
