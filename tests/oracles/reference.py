"""The reference's runs of packet networks: topologies, flows, how they were routed and set up, when they ended."""

from __future__ import annotations

import csv
import struct
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.oracles.packet_congestion import DCQCN, DCTCP, HPCC, MEGA, TIMELY, Dcqcn
from tests.oracles.packet_host import Congestion
from tests.oracles.packet_values import Flow, Marking, Outcome, PacketSettings, round_trip
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph
from xsim.interop.flows import read_flows
from xsim.interop.hpcc import read_topology

__all__ = ["completions", "durations_ns", "murmur3_32", "read_scenario", "route", "scenario", "set_up"]

HEADER_BYTES = {"hpcc": 48, "sai": 52}
RATE = 100_000 * MEGA  # of every link
MARKING = {RATE: Marking(400_000, 1_600_000, 0.2)}
DCTCP_MARKING = {RATE: Marking(300_000, 300_000, 1.0)}
SIMAI_DCQCN = Congestion(
    partial(Dcqcn, increase_ps=900_000_000, increase=50 * MEGA, large_increase=100 * MEGA, least=100 * MEGA)
)
SCRIPTS = {"dctcp": DCTCP, "timely": TIMELY, "hpcc": HPCC, "dcqcn": DCQCN}  # run.py of HPCC's repository


def scenario(folder: Path, name: str) -> tuple[Graph, list[Flow], list[int]]:
    """Graph, flows and the names of the flows."""
    graph, listed = read_scenario(folder, name)
    return graph, [*_routed(listed, graph)], listed.number.tolist()


def read_scenario(folder: Path, name: str) -> tuple[Graph, FlowList]:
    """Graph and flows as they are written."""
    topology = "ft16" if name.startswith("single") else name.partition("_")[0]
    graph = read_topology((folder / "scenarios" / f"{topology}.hpcc").read_text())
    return graph, read_flows((folder / "scenarios" / f"{name}.flows").read_text())


def set_up(simulator: str, setting: str, graph: Graph, seed: int = 0) -> tuple[PacketSettings, Congestion]:
    """What a file ``<simulator>_<setting>_<scenario>.csv`` was made with: settings ``nocc<payload>``,
    ``dcqcn<payload>`` (SimAI's configuration), ``rp_<control>`` (HPCC's scripts)."""
    header_bytes = HEADER_BYTES[simulator]
    if setting.startswith("nocc"):
        return PacketSettings(header_bytes=header_bytes, payload_bytes=int(setting.removeprefix("nocc"))), Congestion()
    control, scripted = setting.removeprefix("rp_"), setting.startswith("rp_")
    payload_bytes = 1000 if scripted else int(control.removeprefix("dcqcn"))
    round_trip_ps, most_bytes = _longest_round_trip(graph, payload_bytes)
    windowed = not scripted or control in ("dctcp", "hpcc")
    own_window = simulator == "hpcc" and not scripted  # SimAI's fork gives all flows the largest, whatever it is told
    settings = PacketSettings(
        header_bytes=header_bytes,
        payload_bytes=payload_bytes,
        marking=DCTCP_MARKING if control == "dctcp" else MARKING,
        window_bytes=None if not windowed else "path" if own_window else most_bytes,
        window_follows_rate=windowed,
        round_trip_ps=round_trip_ps,
        seed=seed,
    )
    return settings, SCRIPTS[control] if scripted else SIMAI_DCQCN


def completions(folder: Path, simulator: str, setting: str, name: str) -> dict[int, tuple[int, int]]:
    """(start, duration) in ns by the names of the flows; of large rings the file holds a part of them."""
    with (folder / f"{simulator}_{setting}_{name}.csv").open() as file:
        return {int(row["flow_id"]): (int(row["start_ns"]), int(row["fct_ns"])) for row in csv.DictReader(file)}


def durations_ns(outcome: Outcome) -> Iterator[tuple[int, int]]:
    """(start, duration at the sender) of each flow."""
    for start_ps, end_ps in zip(outcome.start_ps, outcome.sender_end_ps, strict=True):
        yield start_ps // 1000, (end_ps - start_ps) // 1000


def _routed(listed: FlowList, graph: Graph) -> Iterator[Flow]:
    """The n-th flow of a pair has source port 10000 + n."""
    earlier: Counter[tuple[int, int]] = Counter()
    for row in range(len(listed)):
        src, dst = int(listed.src[row]), int(listed.dst[row])
        port = 10_000 + earlier[src, dst]
        earlier[src, dst] += 1
        path, back = route(graph, src, dst, port, 100), route(graph, dst, src, 100, port)
        after = next(iter(listed.awaits(row).tolist()), -1)
        yield Flow(src, dst, int(listed.size_bytes[row]), int(listed.start_ps[row]), after, path, back)


def route(graph: Graph, src: int, dst: int, src_port: int, dst_port: int) -> tuple[int, ...]:
    """Directed links from host to host, each switch choosing by a hash of the packet among its next hops."""
    key = struct.pack("<III", _address(src), _address(dst), src_port | dst_port << 16)
    links, vertex = list[int](), src
    while vertex != dst:
        hops = graph.next_hops(vertex, dst)
        hop = hops[murmur3_32(key, vertex) % len(hops)] if vertex in graph.switches else hops[0]
        links.append(hop.link)
        vertex = hop.end
    return tuple(links)


def murmur3_32(key: bytes, seed: int) -> int:
    """MurmurHash3 of whole words (A. Appleby)."""
    mask = 2**32 - 1
    mixed = seed
    for (word,) in struct.iter_unpack("<I", key):
        scrambled = _rotate(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        mixed = _rotate(mixed ^ scrambled, 13) * 5 + 0xE6546B64 & mask
    mixed ^= len(key)
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & mask
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & mask
    return mixed ^ mixed >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 2**32 - 1


def _address(vertex: int) -> int:
    return 0x0B000001 + (vertex // 256 << 16) + (vertex % 256 << 8)


def _longest_round_trip(graph: Graph, payload_bytes: int) -> tuple[int, int]:
    """Of two hosts, and the most bytes under way between any."""
    trips = [
        round_trip([graph.cables[link // 2] for link in _a_path(graph, src, dst)], payload_bytes)
        for src in graph.hosts
        for dst in graph.hosts
        if src != dst
    ]
    return max(time_ps for time_ps, _ in trips), max(held_bytes for _, held_bytes in trips)


def _a_path(graph: Graph, src: int, dst: int) -> Iterator[int]:
    while src != dst:
        link, src = graph.next_hops(src, dst)[0]
        yield link
