"""Links that fail: the kernel and its plain twin agree on when transfers are complete and what each link has done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracles.packet_asking import Asking
from tests.oracles.packet_cases import all_ways, traffic
from tests.oracles.packet_faults import NoWayError, Outage
from tests.oracles.packet_model import simulate
from tests.oracles.packet_ndp import simulate_asking
from tests.oracles.packet_values import Flow, Outcome, PacketSettings
from tests.sim.test_packets_in_hosts_twin import fabric_of
from tests.sim.traffic import point_to_point
from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.ndp import Ndp
from xsim.sim.contracts import Fault, NetworkStats
from xsim.sim.kernels import packet_columns as k
from xsim.sim.network.packet import UNTIRING, Packet
from xsim.sim.packets.fabric_wires import wires_of_fabric
from xsim.sim.packets.settings import Settings

Way = tuple[int, ...]
US = 10**6
CABLES = 15  # of ``traffic``, at most
INSTANTS = st.one_of(st.integers(0, 4 * US), st.integers(0, 30 * US))
OUTAGE = st.builds(
    lambda cable, at, lasts: Outage(cable, at, None if lasts is None else at + lasts),
    st.integers(0, CABLES - 1),
    INSTANTS,
    st.one_of(st.none(), st.integers(1, 3 * US), st.integers(1, 60 * US)),
)


@given(
    traffic=traffic(),
    access=st.lists(st.sampled_from(("nic", "nic", "pcie")), min_size=6, max_size=6),
    drawn=st.lists(OUTAGE, min_size=1, max_size=4),
    payload_bytes=st.sampled_from((512, 1000, 4096)),
    flow_control=st.sampled_from(("pause", "credit", "none")),
    routing=st.sampled_from(("hash", "round_robin", "spray", "adaptive")),
    retry_us=st.sampled_from((15, 40)),
)
def test_kernel_and_plain_model_agree(
    traffic: tuple[Graph, list[Flow]],
    access: list[str],
    drawn: list[Outage],
    payload_bytes: int,
    flow_control: Literal["pause", "credit", "none"],
    routing: Literal["hash", "round_robin", "spray", "adaptive"],
    retry_us: int,
) -> None:
    graph, listed = whole_bytes(traffic[0]), traffic[1]
    fabric = choosing(graph, access)
    backend = Packet(
        payload_bytes=payload_bytes,
        flow_control=flow_control,
        credit_bytes=9000,
        routing=routing,
        retry_ps=retry_us * US,
    )
    backend = replace(backend, buffer_bytes=least_buffer(fabric, backend))
    flows = as_routed(fabric, [flow for flow in listed if flow.size_bytes], routing)
    outages = [each for each in drawn if each.cable < len(graph.cables) and fabric.links[2 * each.cable].kind == "nic"]
    assume(outages)  # where nothing fails, nobody goes back
    faults = [Fault(each.at, f"link{2 * each.cable + each.at % 2}", each.until) for each in outages]
    try:
        expected = simulate(graph, flows, settings_of(fabric, backend), outages=outages)
    except NoWayError:
        with pytest.raises(SpecError, match="no way is left from rank"):
            played(fabric, backend, flows, faults)
        return

    ends, stats = played(fabric, backend, flows, faults)

    assert ends == list(expected.receiver_end_ps)
    assert of_links(stats) == of_plain_links(expected)


@given(
    traffic=traffic(),
    drawn=st.lists(OUTAGE, min_size=1, max_size=4),
    payload_bytes=st.sampled_from((512, 1000, 4096)),
    queue_packets=st.sampled_from((1, 2, 8)),
    first_packets=st.sampled_from((1, 3, 40)),
    routing=st.sampled_from(("hash", "spray")),
    retry_us=st.sampled_from((15, 40)),
)
def test_kernel_and_plain_model_agree_on_receivers_that_ask(
    traffic: tuple[Graph, list[Flow]],
    drawn: list[Outage],
    payload_bytes: int,
    queue_packets: int,
    first_packets: int,
    routing: Literal["hash", "spray"],
    retry_us: int,
) -> None:
    graph, listed = whole_bytes(traffic[0]), traffic[1]
    fabric = choosing(graph, ["nic"] * 6)
    control = Ndp(queue_packets=queue_packets, first_packets=first_packets)
    backend = Packet(payload_bytes=payload_bytes, routing=routing, retry_ps=retry_us * US, congestion=control)
    flows = as_routed(fabric, [flow for flow in listed if flow.size_bytes], routing)
    outages = [replace(each, cable=each.cable % len(graph.cables)) for each in drawn]
    faults = [Fault(each.at, f"link{2 * each.cable + each.at % 2}", each.until) for each in outages]
    asking = Asking([first_packets] * len(flows), queue_packets)
    try:
        expected, cuts = simulate_asking(graph, flows, settings_of(fabric, backend), asking, outages)
    except NoWayError:
        with pytest.raises(SpecError, match="no way is left from rank"):
            played(fabric, backend, flows, faults)
        return

    ends, stats = played(fabric, backend, flows, faults)

    assert stats.packets is not None
    assert ends == list(expected.receiver_end_ps)
    for name in ("sent_bytes", "packets", "lost"):
        assert getattr(stats.packets, name).tolist() == [getattr(link, name) for link in expected.links], name
    assert stats.packets.cuts.tolist() == cuts


def test_bytes_count_for_the_links_that_carried_them() -> None:
    """Two hosts under leaves of their own, which two spines join; one of them is cut off from a leaf."""
    joins = [(0, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5)]
    graph = Graph(6, frozenset({2, 3, 4, 5}), tuple(Cable(a, b, 10**11, US) for a, b in joins))
    fabric = choosing(graph, ["nic"] * 6)
    flows = as_routed(fabric, [Flow(0, 1, 50_000, 0, -1, (), ()), Flow(1, 0, 50_000, 0, -1, (), ())], "hash")
    backend = Packet(retry_ps=15 * US)
    spine = flows[0].path[1]
    outages = [Outage(spine // 2, 3 * US, 50 * US)]

    expected = simulate(graph, flows, settings_of(fabric, backend), outages=outages)
    ends, stats = played(fabric, backend, flows, [Fault(3 * US, f"link{spine}", 50 * US)])

    assert ends == list(expected.receiver_end_ps)
    assert of_links(stats) == of_plain_links(expected)
    assert stats.packets is not None
    assert stats.packets.lost[spine] > 0
    other = next(way for way in flows[0].ways if way != flows[0].path)
    carried = stats.link_bytes.tolist()
    assert 0 < carried[spine] < 50_000, "some bytes went each way"
    assert carried[spine] + carried[other[1]] == carried[flows[0].path[0]] == 50_000


@pytest.mark.parametrize("flow_control", ["pause", "credit", "none"])
def test_full_queues_lose_their_links(flow_control: Literal["pause", "credit", "none"]) -> None:
    """Four hosts under two leaves send to a slow one under a third; all that the switches hold waits for it."""
    joins = [(0, 5), (1, 5), (2, 6), (3, 6), (4, 7), *((leaf, spine) for leaf in (5, 6, 7) for spine in (8, 9))]
    cables = tuple(Cable(a, b, 10**11 if a != 4 else 25 * 10**9, US) for a, b in joins)
    graph = Graph(10, frozenset(range(5, 10)), cables)
    fabric = choosing(graph, ["nic"] * 5)
    backend = Packet(payload_bytes=1000, flow_control=flow_control, credit_bytes=20_000, retry_ps=60 * US)
    backend = replace(backend, buffer_bytes=least_buffer(fabric, backend))
    flows = as_routed(fabric, [Flow(src, 4, 50_000, 0, -1, (), ()) for src in range(4)], "hash")
    seen = np.zeros(4, dtype=np.int64)
    for at_us, cable in ((9, 4), (14, 4), (20, flows[0].path[1] // 2), (17, flows[2].path[2] // 2), (25, 2)):
        outages = [Outage(cable, at_us * US + 1, (at_us + 5) * US), Outage(0, at_us * US - US, at_us * US)]
        faults = [Fault(each.at, f"link{2 * each.cable}", each.until) for each in outages]

        expected = simulate(graph, flows, settings_of(fabric, backend), outages=outages)
        ends, stats = played(fabric, backend, flows, faults)

        assert ends == list(expected.receiver_end_ps)
        assert of_links(stats) == of_plain_links(expected)
        assert stats.packets is not None
        counts = stats.packets
        seen += [counts.lost.sum(), counts.pauses.sum(), counts.paused_ps.sum(), counts.drops.sum()]
    assert seen[0] > 0
    assert (seen[1:3] > 0).all() == (flow_control == "pause")


@dataclass(frozen=True)
class Shortest:
    """All shortest paths of a graph."""

    graph: Graph

    def choices(self, src: int, dst: int) -> int:
        return len(all_ways(self.graph, src, dst))

    def chosen(self, src: int, dst: int, choice: int) -> Way:
        return all_ways(self.graph, src, dst)[choice]


def choosing(graph: Graph, access: Sequence[str]) -> Fabric:
    """The graph, with all of its shortest paths; the cables of hosts are of these kinds, all others join switches."""
    kinds = [access[cable.a] if cable.a in graph.hosts else "nic" for cable in graph.cables]
    ways = Shortest(graph)
    return replace(
        fabric_of(graph, kinds),
        router=lambda src, dst: ways.chosen(src, dst, ecmp(src, dst, ways.choices(src, dst))),
        alternatives=ways,
    )


def as_routed(fabric: Fabric, flows: Sequence[Flow], routing: str) -> list[Flow]:
    """The flows from the start on, as the rule has them."""
    found, turns = [], Counter[int]()
    for flow in flows:
        src, dst = flow.src, flow.dst
        there, back = (
            tuple(fabric.route(*ends, number) for number in range(fabric.choices(*ends)))
            for ends in ((src, dst), (dst, src))
        )
        path = fabric.route(src, dst)
        if routing == "round_robin" and len(there) > 1:
            path = there[turns[src] % len(there)]
            turns[src] += 1
        answered = "nic" in {fabric.links[link].kind for link in path}
        found.append(
            replace(
                flow,
                start_ps=0,
                after=-1,
                path=path,
                back=fabric.route(dst, src),
                ways=there,
                back_ways=back,
                answered=answered,
            )
        )
    return found


def whole_bytes(graph: Graph) -> Graph:
    """The graph, its cables so long that a whole number of bytes is on them."""
    longer = {500_000: 640_000, 3_333_333: 3_200_000}
    cables = (replace(cable, delay_ps=longer.get(cable.delay_ps, cable.delay_ps)) for cable in graph.cables)
    return replace(graph, cables=tuple(cables))


def least_buffer(fabric: Fabric, backend: Packet) -> int:
    """Twice what the ports of any switch keep for themselves."""
    plenty = 1 << 40
    pools = wires_of_fabric(fabric, kernel_settings(replace(backend, buffer_bytes=plenty))).switches[:, k.POOL]
    return max(20_000, 2 * (plenty - int(pools.min())))


def kernel_settings(backend: Packet) -> Settings:
    return Settings(
        payload_bytes=backend.payload_bytes,
        flow_control=backend.flow_control,
        credit_bytes=backend.credit_bytes,
        buffer_bytes=backend.buffer_bytes,
        headroom_packets=3,
        scale_up_payload_bytes=backend.scale_up_payload_bytes,
        scale_up_header_bytes=backend.scale_up_header_bytes,
    )


def settings_of(fabric: Fabric, backend: Packet) -> PacketSettings:
    """Of the plain model."""
    usual = kernel_settings(backend)
    buffers = wires_of_fabric(fabric, usual).links[:, k.BUFFER].tolist()
    return PacketSettings(
        tick_ps=1,
        below_whole=False,
        payload_bytes=backend.payload_bytes,
        pfc=backend.flow_control == "pause",
        credit={link: size for link, size in enumerate(buffers) if size},
        buffer_bytes=backend.buffer_bytes,
        headroom_bytes=3 * usual.largest_bytes,
        routes_by_start=False,
        routing=backend.routing if backend.routing in ("spray", "adaptive") else "path",
        selective=backend.routing in ("spray", "adaptive"),
        retransmit_ps=backend.retry_ps,
        retries=UNTIRING,
        completion="receiver",
    )


def played(
    fabric: Fabric, backend: Packet, flows: Sequence[Flow], faults: Sequence[Fault]
) -> tuple[list[int], NetworkStats]:
    """When each is complete, and what the links did until nothing was under way any more."""
    network = backend.open(fabric, 0, faults)
    handles = [network.submit(point_to_point((flow.src, flow.dst, flow.size_bytes))) for flow in flows]
    for handle in handles:
        network.release(handle, 0, 0)
    ends: dict[int, int] = {}
    while network.next_ps is not None:
        ends |= {handle: at_ps for handle, _, at_ps in network.advance(None)}
    return [ends[handle] for handle in handles], network.stats()


def of_links(stats: NetworkStats) -> list[tuple[int, ...]]:
    counts = stats.packets
    assert counts is not None
    columns = (counts.sent_bytes, counts.packets, counts.pauses, counts.paused_ps, counts.drops, counts.lost)
    return list(zip(*(column.tolist() for column in columns), stats.link_bytes.tolist(), strict=True))


def of_plain_links(outcome: Outcome) -> list[tuple[int, ...]]:
    return [
        (each.sent_bytes, each.packets, each.pauses, each.paused_ps, each.drops, each.lost, each.carried_bytes)
        for each in outcome.links
    ]
