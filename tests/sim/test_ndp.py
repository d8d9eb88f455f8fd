"""Receivers that ask: the kernel and its plain twin agree, nothing is lost, and the times are those of htsim."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_asking import Asking
from tests.oracles.packet_cases import all_ways, traffic
from tests.oracles.packet_host import GaveUpError
from tests.oracles.packet_model import StuckError
from tests.oracles.packet_ndp import simulate_asking
from tests.oracles.packet_values import Flow, PacketSettings
from tests.sim.test_packets_in_hosts_twin import KINDS, fabric_of, played
from tests.sim.test_packets_twin import columns
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.ndp import Ndp
from xsim.sim.network.packet import Packet
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings


@given(
    traffic=traffic(),
    tick_ps=st.sampled_from((1, 1000)),
    payload_bytes=st.sampled_from((256, 1000, 4096)),
    queue_packets=st.sampled_from((1, 2, 8)),
    first_packets=st.sampled_from((1, 3, 40)),
    retry_ps=st.sampled_from((None, 40_000_000)),
    completion=st.sampled_from(("sender", "receiver")),
    spray=st.booleans(),
)
def test_kernel_and_plain_model_agree(
    traffic: tuple[Graph, list[Flow]],
    tick_ps: int,
    payload_bytes: int,
    queue_packets: int,
    first_packets: int,
    retry_ps: int | None,
    completion: Literal["sender", "receiver"],
    spray: bool,
) -> None:
    graph, flows = traffic
    settings = Settings(
        tick_ps=tick_ps,
        payload_bytes=payload_bytes,
        congestion=Ndp(queue_packets=queue_packets, first_packets=first_packets),
        retry_ps=retry_ps,
        retries=20,
        completion=completion,
        routing="spray" if spray else "hash",
    )
    plain = PacketSettings(
        tick_ps=tick_ps,
        below_whole=tick_ps == 1000,
        payload_bytes=payload_bytes,
        retransmit_ps=retry_ps,
        retries=20,
        completion=completion,
        routing="spray" if spray else "path",
    )
    try:
        expected, cuts = simulate_asking(graph, flows, plain, Asking([first_packets] * len(flows), queue_packets))
    except (StuckError, GaveUpError):
        with pytest.raises(SpecError):
            replay(graph, columns(flows), settings)
        return

    found = replay(graph, columns(flows), settings)

    assert found.links.cuts.tolist() == cuts
    for name in ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs"):
        assert getattr(found, name).tolist() == list(getattr(expected, name)), name
    for name in ("sent_bytes", "packets", "lost", "drops"):
        assert getattr(found.links, name).tolist() == [getattr(link, name) for link in expected.links], name


def fat_tree(k: int) -> Graph:
    """Hosts first, then edge and aggregation switches pod by pod, then cores; 100 Gb/s and 1 us everywhere."""
    half, hosts = k // 2, k**3 // 4
    edge, aggregation, core = hosts, hosts + k * half, hosts + 2 * k * half
    joins = [(host, edge + host // half) for host in range(hosts)]
    joins += [
        (edge + p * half + e, aggregation + p * half + a) for p in range(k) for e in range(half) for a in range(half)
    ]
    joins += [
        (aggregation + p * half + a, core + a * half + c) for p in range(k) for a in range(half) for c in range(half)
    ]
    vertices = core + half * half
    return Graph(vertices, frozenset(range(hosts, vertices)), tuple(Cable(a, b, 10**11, 1_000_000) for a, b in joins))


def transfers(graph: Graph, ends: list[tuple[int, int]], size_bytes: int) -> list[Flow]:
    flows = []
    for src, dst in ends:
        there, back = all_ways(graph, src, dst), all_ways(graph, dst, src)
        flows.append(Flow(src, dst, size_bytes, 0, -1, there[src % len(there)], back[src % len(back)], ways=there))
    return flows


HTSIM = Settings(payload_bytes=4000, header_bytes=64, ack_bytes=64, congestion=Ndp(queue_packets=35, first_packets=50))


def test_one_transfer_takes_what_it_takes_in_htsim() -> None:
    """2 MB over 6 links: 176.2 us with NDP."""
    graph = fat_tree(4)
    found = replay(graph, columns(transfers(graph, [(0, 15)], 2_000_000)), HTSIM)

    assert found.sender_end_ps[0] / 1e6 == pytest.approx(176.2, abs=0.05)
    assert found.links.cuts.sum() == 0


@pytest.mark.parametrize(("k", "expected_us"), [(4, 2474), (8, 20886)])
def test_an_incast_takes_what_it_takes_in_htsim(k: int, expected_us: int) -> None:
    """2 MB from each host to the last one, of 16 and of 128."""
    graph = fat_tree(k)
    last = max(graph.hosts)
    found = replay(graph, columns(transfers(graph, [(src, last) for src in range(last)], 2_000_000)), HTSIM)

    assert found.sender_end_ps.max() / 1e6 == pytest.approx(expected_us, rel=0.02)
    assert found.sender_end_ps.min() > 0.9 * found.sender_end_ps.max()  # the receiver is fair
    assert found.links.cuts.sum() > 0
    assert found.links.drops.sum() == found.links.pauses.sum() == found.go_backs.sum() == 0


@pytest.mark.parametrize(("k", "expected_us"), [(4, 182.6), (8, 196.0)])
def test_a_permutation_takes_what_it_takes_in_htsim(k: int, expected_us: float) -> None:
    """2 MB from each host to another, each packet by another way; EQDS takes 201.1 us with 16 hosts, 206.6 with 128."""
    graph, dice = fat_tree(k), random.Random(13)
    targets = list(graph.hosts)
    while any(src == dst for src, dst in enumerate(targets)):
        dice.shuffle(targets)
    flows = columns(transfers(graph, list(enumerate(targets)), 2_000_000))
    found = replay(graph, flows, replace(HTSIM, routing="spray"))

    assert found.sender_end_ps.max() / 1e6 == pytest.approx(expected_us, rel=0.05)
    assert found.links.drops.sum() == found.go_backs.sum() == 0
    assert replay(graph, flows, HTSIM).sender_end_ps.max() > 1.5 * found.sender_end_ps.max()


def test_what_wires_lose_comes_all_the_same_if_senders_go_back() -> None:
    graph = fat_tree(4)
    lossy = replace(graph, cables=tuple(replace(cable, loss=0.01) for cable in graph.cables))
    flows = columns(transfers(graph, [(src, 15 - src) for src in range(8)], 400_000))
    found = replay(lossy, flows, replace(HTSIM, retry_ps=50_000_000, retries=20))

    assert found.links.lost.sum() > 0
    assert found.go_backs.sum() > 0
    with pytest.raises(SpecError, match="packets were lost that nobody asks for again"):
        replay(lossy, flows, HTSIM)


def test_senders_that_go_back_before_answers_come_are_named_before_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each goes back every 40 us, and what it sends then is cut: more headers than the port of the receiver takes."""
    monkeypatch.setattr("xsim.sim.packets.engine.AT_EASE", 0)
    count = 600
    graph = Graph(count + 2, frozenset({0}), tuple(Cable(0, host, 10**11, 10**6) for host in range(1, count + 2)))
    flows = columns(
        [Flow(host, 1, 300_000, 0, -1, (2 * host - 1, 0), (1, 2 * host - 2)) for host in range(2, count + 2)]
    )
    hasty = Settings(congestion=Ndp(queue_packets=2), retry_ps=40_000_000, retries=100)

    with pytest.raises(SpecError, match="packets are under way, of 32400 that may be sent unasked") as found:
        replay(graph, flows, hasty)

    assert (found.value.field, found.value.value) == ("network.retry_ps", 40_000_000)
    assert replay(graph, flows, replace(hasty, retry_ps=500_000_000)).go_backs.sum() == 0


def test_ports_that_work_by_credit_cut_nothing() -> None:
    graph = fat_tree(4)
    flows = columns(transfers(graph, [(src, 15) for src in range(15)], 200_000))
    found = replay(graph, flows, replace(HTSIM, flow_control="credit"))

    assert found.links.cuts.sum() == found.links.drops.sum() == 0
    assert found.sender_end_ps.max() / 1e6 > 15 * 50 * 4064 * 8e-5


def test_receivers_that_ask_take_packets_in_any_order() -> None:
    with pytest.raises(SpecError, match=r"receiver = 'in_order': receivers that ask .*; choose auto or selective"):
        replace(HTSIM, receiver="in_order")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue_packets": 0}, "queue_packets = 0: it is not within 1 to 1000000"),
        ({"first_packets": -1}, "first_packets"),
    ],
)
def test_a_queue_has_room_for_a_packet(options: dict[str, int], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Ndp(**options)


@given(traffic=traffic(), kinds=KINDS, queue_packets=st.sampled_from((1, 3)), first_packets=st.sampled_from((1, 20)))
def test_links_of_all_kinds_carry_what_is_asked_for(
    traffic: tuple[Graph, list[Flow]], kinds: list[str], queue_packets: int, first_packets: int
) -> None:
    """Packets of hosts whose own links work by credit, and are faster or slower than the network."""
    graph, drawn = traffic
    fabric, flows = fabric_of(graph, kinds), [flow for flow in drawn if flow.size_bytes]
    control = Ndp(queue_packets=queue_packets, first_packets=first_packets)
    found = played(fabric, Packet(payload_bytes=1000, congestion=control), flows)

    for flow, end_ps in zip(flows, found, strict=True):
        way = fabric.route(flow.src, flow.dst)
        assert end_ps > sum(int(fabric.latency_ps[link]) for link in way)
        assert end_ps > flow.size_bytes * 1e12 / min(fabric.bandwidth_bytes_per_s[link] for link in way)
