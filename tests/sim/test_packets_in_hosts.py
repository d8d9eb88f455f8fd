"""Packets on the links of a cluster, from device to device: every stage by hand, and what stays in a host."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import load
from tests.fabric.toys import cluster, device, host, link
from tests.sim.traffic import point_to_point
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.file import File
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.families import build, names
from xsim.sim.contracts import NetworkStats
from xsim.sim.network.packet import Packet
from xsim.sim.packets.settings import FLOW_CONTROLS
from xsim.spec.cluster import ClusterSpec, DeviceSlot, NicSpec

Stage = tuple[int, int]  # bit/s, ps

NVLINK, SLOWER = device(link(450e9, 300)), device(link(300e9, 500))
OLD = host(
    DeviceSlot(device=device(), count=1, pcie=link(16e9, 250)),
    nic=NicSpec(bandwidth_bytes_per_s=12.5e9, latency_ps=900),
)
NEW = host(
    DeviceSlot(device=device(), count=1, pcie=link(64e9, 120)),
    nic=NicSpec(bandwidth_bytes_per_s=50e9, latency_ps=400),
)
PAIR = host(DeviceSlot(device=NVLINK, count=1), DeviceSlot(device=SLOWER, count=1))
UNLIKE = """5 3 4
2 3 4
0 2 100Gbps 900ps 0
1 3 400Gbps 400ps 0
2 4 40Gbps 3000ps 0
4 3 200Gbps 1500ps 0
"""
OUT: tuple[Stage, ...] = (
    (128 * 10**9, 250),  # PCIe of the old host
    (100 * 10**9, 900),  # its NIC
    (40 * 10**9, 3000),  # its ToR's uplink
    (200 * 10**9, 1500),  # the other ToR's
    (400 * 10**9, 400),  # NIC of the new host
    (512 * 10**9, 120),  # PCIe there
)


def stored_and_forwarded(sizes: list[int], stages: tuple[Stage, ...]) -> int:
    """When the last of these packets has come, ps: each starts when it is all there and the one before it has gone."""
    there = [0] * len(sizes)
    for bits_per_s, delay_ps in stages:
        gone = 0
        for place, size in enumerate(sizes):
            gone = max(gone, there[place]) + size * 8 * 10**12 // bits_per_s
            there[place] = gone + delay_ps
    return there[-1]


def packets(size_bytes: int, payload_bytes: int, header_bytes: int) -> list[int]:
    whole, rest = divmod(size_bytes, payload_bytes)
    return [payload_bytes + header_bytes] * whole + [rest + header_bytes] * bool(rest)


@pytest.mark.parametrize("flow_control", ["pause", "credit", "none"])
@given(size_bytes=st.integers(1, 120_000), there=st.booleans())
def test_a_transfer_alone_passes_every_stage_between_unlike_hosts(
    flow_control: Literal["pause", "credit", "none"], size_bytes: int, there: bool
) -> None:
    fabric = File(text=UNLIKE).build(cluster(OLD, NEW))
    src, dst, stages = (0, 1, OUT) if there else (1, 0, OUT[::-1])
    network = Packet(payload_bytes=1500, flow_control=flow_control).open(fabric, 0)

    took_ps = network.solo(point_to_point((src, dst, size_bytes)))

    assert took_ps == stored_and_forwarded(packets(size_bytes, 1500, 48), stages)


@given(size_bytes=st.integers(1, 120_000), payload_bytes=st.sampled_from((256, 4096)))
def test_a_transfer_in_a_scale_up_fabric_has_its_packets(size_bytes: int, payload_bytes: int) -> None:
    fabric = OneSwitch().build(cluster(PAIR))
    backend = Packet(scale_up_payload_bytes=payload_bytes, scale_up_header_bytes=payload_bytes // 16)

    took_ps = backend.open(fabric, 0).solo(point_to_point((0, 1, size_bytes)))

    stages = ((3600 * 10**9, 300), (2400 * 10**9, 500))
    assert took_ps == stored_and_forwarded(packets(size_bytes, payload_bytes, payload_bytes // 16), stages)


def played(fabric: Fabric, backend: Packet, *sends: tuple[int, int, int]) -> NetworkStats:
    network = backend.open(fabric, 0)
    handle = network.submit(point_to_point(*sends))
    network.release(handle, 0, 0)
    while network.next_ps is not None:
        network.advance(None)
    return network.stats()


def test_nothing_in_a_host_is_acknowledged() -> None:
    """Links back stay idle in the host, and not between hosts."""
    fabric = OneSwitch().build(cluster(PAIR, PAIR))
    inside, between = played(fabric, Packet(), (0, 1, 10_000)), played(fabric, Packet(), (0, 2, 10_000))

    assert not inside.link_busy_ps[list(fabric.route(1, 0))].any()
    assert between.link_busy_ps[list(fabric.route(2, 0))].all()


@pytest.mark.parametrize("congestion", names("congestion"))
def test_congestion_control_leaves_what_stays_in_a_host_alone(congestion: str) -> None:
    """Three devices send to the fourth by its one link, which never rests."""
    four = host(DeviceSlot(device=NVLINK, count=4))
    fabric = OneSwitch().build(cluster(four, PAIR))
    network = Packet(congestion=build("congestion", {"name": congestion})).open(fabric, 0)

    took_ps = network.solo(point_to_point(*((src, 3, 40_960) for src in range(3))))

    packet_ps = 4352 * 8 * 10**12 // (3600 * 10**9)
    assert took_ps == 31 * packet_ps + 2 * 300


@pytest.mark.parametrize("congestion", names("congestion"))
def test_senders_pace_at_their_nic_and_not_at_the_faster_pcie_before_it(congestion: str) -> None:
    """Else a window waits in the NIC, and with it the acknowledgements of the other direction."""
    nodes = load(ClusterSpec, "nodes_100g")
    fabric = OneSwitch().build(replace(nodes, hosts=(replace(nodes.hosts[0], count=2),)))
    both_ways = point_to_point((0, 1, 4 * 10**6), (1, 0, 4 * 10**6))
    took_ps = [
        Packet(congestion=build("congestion", {"name": name})).open(fabric, 0).solo(both_ways)
        for name in (congestion, "none")
    ]

    assert took_ps[0] <= 1.1 * took_ps[1]


def test_a_buffer_of_one_packet_lets_one_go_per_round_trip() -> None:
    fabric = OneSwitch().build(cluster(PAIR))
    network = Packet(credit_bytes=4352, exact=True).open(fabric, 0)

    first_ps, second_ps = (4352 * 8 * 10**12 // (rate * 10**9) for rate in (3600, 2400))
    round_trip_ps = second_ps + 2 * 500  # of the slower link
    alone_ps = first_ps + 300 + second_ps + 500
    assert network.solo(point_to_point((0, 1, 4096 * 200))) == 199 * round_trip_ps + alone_ps
    with pytest.raises(SpecError, match=r"credit_bytes = 4351: .*; choose at least 4352"):
        Packet(credit_bytes=4351)


def test_without_flow_control_lost_packets_are_sent_again() -> None:
    senders = [host(DeviceSlot(device=device(), count=1)) for _ in range(9)]
    fabric = OneSwitch().build(cluster(*senders))
    sends = [(src, 8, 2_000_000) for src in range(8)]
    paused, lossy = (
        played(fabric, Packet(buffer_bytes=200_000, flow_control=each), *sends) for each in ("pause", "none")
    )

    assert np.array_equal(paused.link_bytes, lossy.link_bytes)
    assert lossy.link_busy_ps.sum() > paused.link_busy_ps.sum()


@pytest.mark.parametrize("flow_control", FLOW_CONTROLS)
@pytest.mark.parametrize("congestion", names("congestion"))
@pytest.mark.parametrize("credit_bytes", [None, 4352])
def test_devices_that_share_nics_empty_all_buffers(
    flow_control: Literal["pause", "credit", "none"], congestion: str, credit_bytes: int | None
) -> None:
    """All send to one device over NVLink, PCIe and one NIC per host, and every byte and all credit arrives."""
    nic = NicSpec(bandwidth_bytes_per_s=25e9, latency_ps=500_000, per_host=1)
    fabric = OneSwitch().build(cluster(*(host(DeviceSlot(device=NVLINK, count=2), nic=nic) for _ in range(4))))
    control = build("congestion", {"name": congestion})
    backend = Packet(
        flow_control=flow_control, congestion=control, credit_bytes=credit_bytes, buffer_bytes=100_000, exact=True
    )
    network = backend.open(fabric, 0)
    network.release(network.submit(point_to_point(*((src, 0, 50_000 + src) for src in range(1, 8)))), 0, 0)
    while network.next_ps is not None:
        network.advance(None)

    network._instances._engine.check_empty()  # type: ignore[attr-defined]
