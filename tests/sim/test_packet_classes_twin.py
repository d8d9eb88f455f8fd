"""HPCC, whose packets see the queues of all classes: the kernel and its plain twin agree on several of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import traffic
from tests.oracles.packet_congestion import HPCC
from tests.oracles.packet_host import GaveUpError
from tests.oracles.packet_model import StuckError, simulate
from tests.oracles.packet_values import Flow, PacketSettings
from tests.sim.test_packets_twin import columns, kept_by_ports
from xsim.errors import SpecError
from xsim.fabric.graph import Graph
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import wires_of

RATE = 10**11  # of all cables: one window for all flows, whole ticks for a packet


@given(
    traffic=traffic(losses=(0.0, 0.0, 0.0, 0.02)),
    tick_ps=st.sampled_from((1, 1000)),
    payload_bytes=st.sampled_from((1000, 4000)),
    pool_bytes=st.sampled_from((100_000, 300_000, 32 << 20)),
    flow_control=st.sampled_from(("pause", "credit", "none")),
    receiver=st.sampled_from(("in_order", "selective")),
    completion=st.sampled_from(("sender", "receiver")),
    classes=st.sampled_from(((3,), (2, 5), (0, 1), (1, 3, 4), (0, 2, 7))),
    class_order=st.sampled_from(("round_robin", "strict")),
    ack_priority=st.booleans(),
)
def test_kernel_and_plain_model_agree(
    traffic: tuple[Graph, list[Flow]],
    tick_ps: int,
    payload_bytes: int,
    pool_bytes: int,
    flow_control: Literal["pause", "credit", "none"],
    receiver: Literal["in_order", "selective"],
    completion: Literal["sender", "receiver"],
    classes: tuple[int, ...],
    class_order: Literal["round_robin", "strict"],
    ack_priority: bool,
) -> None:
    cables = tuple(replace(cable, bandwidth_bits_per_s=RATE) for cable in traffic[0].cables)
    graph = replace(traffic[0], cables=cables)
    flows = [replace(flow, traffic_class=classes[number % len(classes)]) for number, flow in enumerate(traffic[1])]
    settings = Settings(
        tick_ps=tick_ps,
        payload_bytes=payload_bytes,
        flow_control=flow_control,
        buffer_bytes=1 << 40,
        headroom_packets=3,
        congestion=Hpcc(),
        class_order=class_order,
        ack_priority=ack_priority,
        receiver=receiver,
        retry_ps=40_000_000,
        retries=20,
        completion=completion,
    )
    settings = replace(settings, buffer_bytes=pool_bytes + kept_by_ports(graph, settings))
    trip = max(trip_of(graph, flow, tick_ps, payload_bytes) for flow in flows)
    plain = PacketSettings(
        tick_ps=tick_ps,
        below_whole=tick_ps == 1000,
        payload_bytes=payload_bytes,
        pfc=flow_control == "pause",
        credit={link: size for link, size in enumerate(wires_of(graph, settings).links[:, k.BUFFER].tolist()) if size},
        buffer_bytes=settings.buffer_bytes,
        headroom_bytes=3 * settings.largest_bytes,
        window_bytes=trip * RATE // (8 * 10**12 // tick_ps),
        window_follows_rate=True,
        round_trip_ps=trip * tick_ps,
        routes_by_start=False,
        selective=receiver == "selective",
        class_order=class_order,
        ack_priority=ack_priority,
        retransmit_ps=40_000_000,
        retries=20,
        completion=completion,
    )
    try:
        expected = simulate(graph, flows, plain, HPCC)
    except (StuckError, GaveUpError):
        with pytest.raises(SpecError):
            replay(graph, columns(flows), settings)
        return

    found = replay(graph, columns(flows), settings)

    for name in ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs"):
        assert getattr(found, name).tolist() == list(getattr(expected, name)), name
    for name in ("sent_bytes", "packets", "marks", "pauses", "paused_ps", "drops", "lost"):
        assert getattr(found.links, name).tolist() == [getattr(link, name) for link in expected.links], name


def trip_of(graph: Graph, flow: Flow, tick_ps: int, payload_bytes: int) -> int:
    """Ticks of its undisturbed round trip."""
    packet = payload_bytes * 8 * (10**12 // tick_ps) // RATE
    return sum(2 * (graph.cables[link // 2].delay_ps // tick_ps) + packet for link in flow.path)
