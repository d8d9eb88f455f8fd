"""The packet kernel and its plain twin agree in every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import packet_values
from tests.oracles.packet_cases import ring_of_switches, traffic, two_on_each_cable
from tests.oracles.packet_congestion import DCQCN, DCTCP, TIMELY
from tests.oracles.packet_host import Congestion, GaveUpError
from tests.oracles.packet_model import StuckError, simulate
from tests.oracles.packet_swift import Swift as PlainSwift
from tests.oracles.packet_values import Flow, PacketSettings
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.congestion.none import Uncontrolled
from xsim.sim.congestion.swift import Swift
from xsim.sim.congestion.timely import Timely
from xsim.sim.contracts import CongestionControl
from xsim.sim.kernels import packet_columns as k
from xsim.sim.marking import Marking
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import FLOW_CONTROLS, Settings
from xsim.sim.packets.wires import Wires, give_credit, wires_of

# A mark is certain or impossible, so that the two need not draw alike.
ALWAYS = (3000, 3000, 1.0)
Case = tuple[Graph, list[Flow]]


def swift(case: Case, tick_ps: int, payload_bytes: int, base_ns: int = 20_000, range_ns: int = 100_000) -> Congestion:
    """Each flow begins with the packets that its slowest link sends in the longest undisturbed round trip of all."""
    cables, flows = [[case[0].cables[link // 2] for link in flow.path] for flow in case[1]], case[1]
    bits = payload_bytes * 8 * (10**12 // tick_ps)
    trips = [sum(2 * (c.delay_ps // tick_ps) + bits / c.bandwidth_bits_per_s for c in path) for path in cables]
    slowest = [min(cable.bandwidth_bits_per_s for cable in path) for path in cables]
    held = [max(1, max(1, int(max(trips))) * rate // (8 * 10**12 // tick_ps)) for rate in slowest]
    begins = {number: held[number] / payload_bytes for number in range(len(flows))}
    return Congestion(partial(PlainSwift, begins=begins, base_ns=base_ns, range_ns=range_ns), extra_bytes=8)


# A control, and what builds its plain twin for a case, a tick and a payload.
CONTROLS: tuple[tuple[CongestionControl, Callable[[Case, int, int], Congestion]], ...] = (
    (Uncontrolled(), lambda *_: Congestion()),
    (Dcqcn(), lambda *_: DCQCN),
    (Dctcp(), lambda *_: DCTCP),
    (Timely(), lambda *_: TIMELY),
    (Swift(), swift),
    (Swift(base_ns=1, range_ns=3_000), partial(swift, base_ns=1, range_ns=3_000)),
)


@given(
    traffic=traffic(losses=(0.0, 0.0, 0.0, 0.02)),
    tick_ps=st.sampled_from((1, 1000)),
    payload_bytes=st.sampled_from((256, 1000, 4096)),
    ack_every=st.sampled_from((1, 1, 3000)),
    pool_bytes=st.sampled_from((0, 100_000, 300_000, 32 << 20)),
    headroom_packets=st.sampled_from((0, 3)),
    flow_control=st.sampled_from(FLOW_CONTROLS),
    credit_bytes=st.sampled_from((None, 4200, 9000, 20_000)),
    mixed=st.booleans(),
    muted=st.booleans(),
    retry=st.booleans(),
    receiver=st.sampled_from(("in_order", "selective")),
    routing=st.sampled_from(("hash", "spray", "adaptive")),
    ahead_packets=st.sampled_from((64, 4096)),
    completion=st.sampled_from(("sender", "receiver")),
    classes=st.sampled_from(((3,), (3,), (1,), (0,), (2, 5), (0, 1), (1, 3, 4), (0, 2, 7))),
    class_order=st.sampled_from(("round_robin", "strict")),
    ack_priority=st.booleans(),
    pause_shift=st.sampled_from((3, 3, 0, 5)),
    resume_gap_bytes=st.sampled_from((3072, 0, 20_000)),
    control=st.sampled_from(CONTROLS),
    few=st.sampled_from((0, 1, 64)),
)
def test_kernel_and_plain_model_agree(
    traffic: tuple[Graph, list[Flow]],
    tick_ps: int,
    payload_bytes: int,
    ack_every: int,
    pool_bytes: int,
    headroom_packets: int,
    flow_control: Literal["pause", "credit", "none"],
    credit_bytes: int | None,
    mixed: bool,
    muted: bool,
    retry: bool,
    receiver: Literal["in_order", "selective"],
    routing: Literal["hash", "spray", "adaptive"],
    ahead_packets: int,
    completion: Literal["sender", "receiver"],
    classes: tuple[int, ...],
    class_order: Literal["round_robin", "strict"],
    ack_priority: bool,
    pause_shift: int,
    resume_gap_bytes: int,
    control: tuple[CongestionControl, Callable[[Case, int, int], Congestion]],
    few: int,
) -> None:
    graph, flows = traffic
    flows = [replace(flow, traffic_class=classes[number % len(classes)]) for number, flow in enumerate(flows)]
    ours, plain = control[0], control[1](traffic, tick_ps, payload_bytes)
    selective = receiver == "selective" or routing != "hash"
    ack_every = 1 if selective else ack_every
    retry_ps = 40_000_000 if retry or muted or flow_control == "none" else None
    settings = Settings(
        tick_ps=tick_ps,
        payload_bytes=payload_bytes,
        ack_every=ack_every,
        flow_control=flow_control,
        credit_bytes=credit_bytes,
        buffer_bytes=1 << 40,
        headroom_packets=headroom_packets,
        congestion=ours,
        ecn={10**9: Marking(*ALWAYS)},
        window="none",
        routing=routing,
        class_order=class_order,
        ack_priority=ack_priority,
        pause_shift=pause_shift,
        resume_gap_bytes=resume_gap_bytes,
        receiver=receiver if routing == "hash" else "auto",
        retry_ps=retry_ps,
        retries=20,
        completion=completion,
    )
    settings = replace(settings, buffer_bytes=pool_bytes + kept_by_ports(graph, settings))
    mute = frozenset(sorted(graph.switches)[:1]) if muted else frozenset[int]()
    built = wires(graph, settings, mute, mixed)
    plain_settings = PacketSettings(
        tick_ps=tick_ps,
        below_whole=tick_ps == 1000,
        payload_bytes=payload_bytes,
        ack_every=ack_every,
        pfc=flow_control == "pause",
        mute=mute,
        credit={link: size for link, size in enumerate(built.links[:, k.BUFFER].tolist()) if size},
        buffer_bytes=settings.buffer_bytes,
        headroom_bytes=headroom_packets * settings.largest_bytes,
        marking={10**9: packet_values.Marking(*ALWAYS)},
        routes_by_start=False,
        routing="path" if routing == "hash" else routing,
        selective=selective,
        class_order=class_order,
        ack_priority=ack_priority,
        pause_shift=pause_shift,
        resume_gap_bytes=resume_gap_bytes,
        ahead_packets=ahead_packets,
        retransmit_ps=retry_ps,
        retries=20,
        completion=completion,
    )
    try:
        expected = simulate(graph, flows, plain_settings, plain)
    except (StuckError, GaveUpError):
        expected = None

    crowds = patch("xsim.sim.packets.engine.FEW", few)
    room = patch("xsim.sim.packets.reorder.MOST_AHEAD", ahead_packets)
    with crowds, room, patch("xsim.sim.packets.replay.wires_of", return_value=built):
        if expected is None:
            with pytest.raises(SpecError):
                replay(graph, columns(flows), settings)
            return
        found = replay(graph, columns(flows), settings)

    if flow_control == "pause" and headroom_packets == 3 and not muted:
        assert not found.links.drops.any()
    for name in ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs"):
        assert getattr(found, name).tolist() == list(getattr(expected, name)), name
    for name in ("sent_bytes", "packets", "marks", "pauses", "paused_ps", "drops", "lost"):
        assert getattr(found.links, name).tolist() == [getattr(link, name) for link in expected.links], name


def kept_by_ports(graph: Graph, settings: Settings) -> int:
    """Memory that the ports of a switch keep for themselves, at most, and at least what a switch must have."""
    pools = wires_of(graph, settings).switches[:, k.POOL]
    return max(settings.reserve_bytes + settings.largest_bytes, settings.buffer_bytes - int(pools.min()))


def wires(graph: Graph, settings: Settings, mute: frozenset[int], mixed: bool) -> Wires:
    """As they are set; mixed, every other cable works by credit."""
    found = wires_of(graph, settings, mute)
    if mixed:
        links = np.arange(len(found.links))
        give_credit(found.links, links[links % 4 < 2], settings)
    return found


def columns(flows: Sequence[Flow]) -> Flows:
    def ints(values: Sequence[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    sets = {flow.ways: number for number, flow in enumerate(flows)}
    return Flows(
        src=ints([flow.src for flow in flows]),
        dst=ints([flow.dst for flow in flows]),
        size_bytes=ints([flow.size_bytes for flow in flows]),
        start_ps=ints([flow.start_ps for flow in flows]),
        after=ints([flow.after for flow in flows]),
        path_ptr=np.cumsum([0, *(len(flow.path) for flow in flows)]),
        path=ints([link for flow in flows for link in flow.path]),
        back_ptr=np.cumsum([0, *(len(flow.back) for flow in flows)]),
        back=ints([link for flow in flows for link in flow.back]),
        ways=[flow.ways for flow in flows],
        ways_of=ints([sets[flow.ways] for flow in flows]),
        classes=ints([flow.traffic_class for flow in flows]),
    )


def test_switches_that_wait_for_one_another_are_named() -> None:
    graph = ring_of_switches(4)
    flows = columns(two_on_each_cable(4, 2_000_000))

    with pytest.raises(SpecError, match=r"flows = .*packets wait for one another: paused for good are "):
        replay(graph, flows, Settings(buffer_bytes=700_000))


@pytest.mark.parametrize("retry_ps", [None, 100_000_000])
def test_a_lost_tail_is_sent_again_or_is_an_error(retry_ps: int | None) -> None:
    graph = Graph(2, frozenset(), (Cable(0, 1, 10**11, 1_000_000, 0.3),))
    flows = columns([Flow(0, 1, 50_000, 0, -1, (0,), (1,))])

    if retry_ps is None:
        with pytest.raises(SpecError, match="packets were lost that nobody asks for again, on "):
            replay(graph, flows, Settings())
    else:
        outcome = replay(graph, flows, Settings(retry_ps=retry_ps, retries=50))
        assert outcome.go_backs[0] > 0
        assert outcome.links.lost.sum() > 0
        assert outcome.sender_end_ps[0] > outcome.receiver_end_ps[0] > 0
