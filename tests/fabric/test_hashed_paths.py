"""Paths that a hash chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.examples import chains, crossed
from xsim.errors import SpecError
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.hashed_paths import Paths, murmur3_32, paths_of
from xsim.interop import flows as plain
from xsim.interop import hpcc, simai


def cable(a: int, b: int) -> Cable:
    return Cable(a, b, 100_000_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("key", "seed", "expected"),
    [
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"abcd", 0x9747B28C, 0xF0478627),
        (b"test", 0, 0xBA6BD213),
        (b"test", 0x9747B28C, 0x704B81DC),
    ],
)
def test_the_published_vectors_of_murmur3(key: bytes, seed: int, expected: int) -> None:
    words = np.frombuffer(key, dtype="<u4").reshape(1, -1)

    assert murmur3_32(words, np.array([seed], dtype=np.uint32)).tolist() == [expected]


def of(paths: Paths, row: int) -> list[int]:
    found: list[int] = paths.links[paths.ptr[row] : paths.ptr[row + 1]].tolist()
    return found


def hashed(words: Sequence[int], seed: int) -> int:
    """MurmurHash3 of whole words, word by word."""
    h = seed
    for word in words:
        k = word * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
        h ^= k
        h = ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    h ^= 4 * len(words)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def walked(graph: Graph, src: int, dst: int, ports: tuple[int, int], preferred: frozenset[int]) -> list[int]:
    """The path of one flow, hop by hop."""
    address = [0x0B000001 + (vertex // 256 << 16) + (vertex % 256 << 8) for vertex in (src, dst)]
    at, links = src, []
    while at != dst:
        hops = graph.next_hops(at, dst)
        hops = tuple(hop for hop in hops if hop.end in preferred) or hops
        seed = at if at in graph.switches else 0x8BADF00D
        hop = hops[hashed([*address, ports[0] | ports[1] << 16], seed) % len(hops)]
        links.append(hop.link)
        at = hop.end
    return links


def depth(flows: FlowList, row: int) -> int:
    return max((depth(flows, other) + 1 for other in flows.awaits(row).tolist()), default=0)


@st.composite
def leaf_spines(draw: st.DrawFn) -> Graph:
    """Hosts 0..5, some on two leaves and some by two cables; spines that not every leaf knows."""
    leaves, spines = [*range(6, 9)], [*range(9, 12)]
    ends = [
        (host, leaf) for host in range(6) for leaf in draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=2))
    ]
    up = [(leaf, spine) for leaf in leaves for spine in draw(st.lists(st.sampled_from(spines), min_size=1, max_size=4))]
    cables = [cable(*(pair if draw(st.booleans()) else pair[::-1])) for pair in draw(st.permutations([*ends, *up]))]
    return Graph(12, frozenset([*leaves, *spines]), tuple(cables))


@given(leaf_spines(), st.sampled_from([2, 6]).flatmap(chains), st.sets(st.integers(6, 11)).map(frozenset))
def test_every_path_is_that_of_a_walk(graph: Graph, flows: FlowList, preferred: frozenset[int]) -> None:
    if not all(graph.next_hops(src, dst) for src, dst in zip(flows.src.tolist(), flows.dst.tolist(), strict=True)):
        with pytest.raises(SpecError, match="no path leads there"):
            paths_of(graph, flows, preferred)
        return
    there, back = paths_of(graph, flows, preferred)
    seen: dict[tuple[int, int], int] = {}
    for row in sorted(range(len(flows)), key=lambda row: (depth(flows, row), flows.start_ps[row], row)):
        src, dst = int(flows.src[row]), int(flows.dst[row])
        port = 10_000 + seen.get((src, dst), 0)
        seen[src, dst] = port - 9_999
        assert of(there, row) == walked(graph, src, dst, (port, 100), preferred)
        assert of(back, row) == walked(graph, dst, src, (100, port), preferred)
        assert crossed(graph, of(there, row), src) == dst


def test_data_and_acknowledgements_spread_over_all_spines(reference_data: Path) -> None:
    """A second flow of a pair has a port, and so a path, of its own."""
    folder = reference_data / "netref" / "scenarios"
    graph = hpcc.read_topology((folder / "ft128.hpcc").read_text())
    flows = plain.read_flows("".join(f"{n} 0 127 1 0 -1\n" for n in range(400)))

    there, back = paths_of(graph, flows)

    up = np.bincount(there.links.reshape(400, 6)[:, 2])
    assert np.diff(there.ptr).tolist() == np.diff(back.ptr).tolist() == [6] * 400
    assert len(np.flatnonzero(up)) == 16
    assert 10 <= up[up > 0].min() <= up.max() <= 45


def test_a_server_keeps_its_own_traffic_on_its_nv_switch(reference_data: Path) -> None:
    text = (reference_data / "netref" / "scenarios" / "Spectrum-X_16g_8gps_400Gbps_H100").read_text()
    topology = simai.read_topology(text)
    flows = plain.read_flows("0 0 7 1 0 -1\n1 0 8 1 0 -1\n2 0 9 1 0 -1\n")

    there, _ = paths_of(topology.graph, flows, topology.nvswitches)

    ends = [[topology.graph.cables[link // 2] for link in of(there, row)] for row in range(3)]
    assert [len(own) for own in ends] == [2, 2, 4]
    assert {ends[0][0].b, ends[0][1].b} == {16}


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("3 0 2 1 0 -1", "flow 3 = 2: it is no host: it is a switch; name a host of the topology"),
        ("3 9 0 1 0 -1", "flow 3 = 9: it is no host: there are 4 vertices; name a host of the topology"),
        ("3 0 3 1 0 -1", "flow 3 = '0 -> 3': no path leads there; join the two in the topology"),
    ],
)
def test_a_flow_needs_a_path(flow: str, message: str) -> None:
    graph = Graph(4, frozenset({2}), (cable(0, 2), cable(2, 1)))

    with pytest.raises(SpecError) as caught:
        paths_of(graph, plain.read_flows(f"1 0 1 1 0 -1\n{flow}"))

    assert str(caught.value).startswith(message)


def test_no_cables_and_no_flows() -> None:
    bare = Graph(2, frozenset(), ())
    none = plain.read_flows("")

    assert [len(paths.links) for paths in paths_of(bare, none)] == [0, 0]
    with pytest.raises(SpecError, match="no path leads there"):
        paths_of(bare, plain.read_flows("0 0 1 1 0 -1"))


def test_a_port_of_its_own_is_hashed() -> None:
    graph = Graph(
        12,
        frozenset(range(2, 12)),
        (*(cable(a, b) for b in range(4, 12) for a in (2, 3)), cable(0, 2), cable(1, 3)),
    )
    flows = plain.read_flows("0 0 1 1 0 -1")

    found = {tuple(of(paths_of(graph, replace(flows, port=np.array([port])))[0], 0)) for port in range(60)}

    assert len(found) == 8
