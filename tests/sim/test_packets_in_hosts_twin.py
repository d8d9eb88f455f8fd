"""A fabric with links of all kinds and the plain model of it agree on when each transfer is complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import one_way, traffic
from tests.oracles.packet_model import simulate
from tests.oracles.packet_values import Flow, PacketSettings
from tests.sim.traffic import point_to_point
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.graph import Graph
from xsim.sim.kernels import packet_columns as k
from xsim.sim.network.packet import Packet
from xsim.sim.packets.fabric_wires import wires_of_fabric
from xsim.sim.packets.settings import Settings

KINDS = st.lists(st.sampled_from(("scale_up", "scale_up", "pcie", "nic")), min_size=11, max_size=11)  # of each cable


@given(
    traffic=traffic(),
    kinds=KINDS,
    payloads=st.sampled_from(((1000, 1000), (4096, 256), (512, 2048))),
    flow_control=st.sampled_from(("pause", "credit")),
    credit_bytes=st.sampled_from((None, 4400, 9000)),
)
def test_kernel_and_plain_model_agree(
    traffic: tuple[Graph, list[Flow]],
    kinds: list[str],
    payloads: tuple[int, int],
    flow_control: Literal["pause", "credit"],
    credit_bytes: int | None,
) -> None:
    graph, drawn = traffic
    fabric = fabric_of(graph, kinds)
    payload_bytes, scale_up_bytes = payloads
    backend = Packet(
        payload_bytes=payload_bytes,
        scale_up_payload_bytes=scale_up_bytes,
        scale_up_header_bytes=scale_up_bytes // 16,
        flow_control=flow_control,
        credit_bytes=credit_bytes,
    )
    flows = [of_kind(flow, fabric, scale_up_bytes) for flow in drawn if flow.size_bytes]
    usual = Settings(
        payload_bytes=payload_bytes,
        scale_up_payload_bytes=scale_up_bytes,
        scale_up_header_bytes=scale_up_bytes // 16,
        flow_control=flow_control,
        credit_bytes=credit_bytes,
    )
    buffers = wires_of_fabric(fabric, usual).links[:, k.BUFFER].tolist()
    settings = PacketSettings(
        tick_ps=1,
        below_whole=False,
        payload_bytes=payload_bytes,
        credit={link: size for link, size in enumerate(buffers) if size},
        routes_by_start=False,
        completion="receiver",
    )

    found = played(fabric, backend, flows)

    assert found == list(simulate(graph, flows, settings).receiver_end_ps)


def fabric_of(graph: Graph, kinds: list[str]) -> Fabric:
    """The graph, its cables of these kinds and its hosts the ranks."""
    ends = [pair for cable in graph.cables for pair in ((cable.a, cable.b), (cable.b, cable.a))]
    cables = [cable for cable in graph.cables for _ in range(2)]
    return Fabric(
        bandwidth_bytes_per_s=np.array([cable.bandwidth_bits_per_s / 8 for cable in cables]),
        latency_ps=np.array([cable.delay_ps for cable in cables]),
        links=tuple(Link(f"link{number}", kinds[number // 2 % len(kinds)]) for number in range(len(cables))),
        hosts=tuple(graph.hosts),
        router=lambda src, dst: one_way(graph, src, dst),
        start=np.array([start for start, _ in ends]),
        end=np.array([end for _, end in ends]),
    )


def of_kind(flow: Flow, fabric: Fabric, scale_up_bytes: int) -> Flow:
    """The flow from the start on, as it is on the links of its way."""
    way, back = fabric.route(flow.src, flow.dst), fabric.route(flow.dst, flow.src)
    kinds = {fabric.links[link].kind for link in way}
    flow = replace(flow, start_ps=0, after=-1, path=way, back=back, answered="nic" in kinds)
    if kinds == {"scale_up"}:
        return replace(flow, payload_bytes=scale_up_bytes, header_bytes=scale_up_bytes // 16)
    return flow


def played(fabric: Fabric, backend: Packet, flows: list[Flow]) -> list[int]:
    """When each is complete."""
    network = backend.open(fabric, 0)
    handles = [network.submit(point_to_point((flow.src, flow.dst, flow.size_bytes))) for flow in flows]
    for handle in handles:
        network.release(handle, 0, 0)
    ends: dict[int, int] = {}
    while network.next_ps is not None:
        ends |= {handle: at_ps for handle, _, at_ps in network.advance(None)}
    return [ends[handle] for handle in handles]
