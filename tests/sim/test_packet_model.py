"""The plain packet model against the reference, closed forms, and what no packet network may do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import (
    BANDWIDTHS,
    DELAYS_PS,
    line,
    one_way,
    ring_of_switches,
    traffic,
    two_on_each_cable,
)
from tests.oracles.packet_clock import Clock, Dice
from tests.oracles.packet_congestion import DCQCN, DCTCP, HPCC, TIMELY, Timely
from tests.oracles.packet_host import Congestion, GaveUpError
from tests.oracles.packet_model import StuckError, simulate
from tests.oracles.packet_port import Kind, Packet
from tests.oracles.packet_values import Flow, Marking, Outcome, PacketSettings
from tests.oracles.reference import completions, durations_ns, murmur3_32, scenario, set_up
from xsim.fabric.graph import Cable, Graph

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
QUICK = [
    (
        "hpcc",
        "nocc9000",
        "single_2hop_1M single_4hop_1M single_6hop_10K star17_incast16_1M ft16_perm_1M ft16_ring16_1M",
    ),
    ("hpcc", "nocc9000", "ft128_incast16_1M"),  # the one with pause frames
    ("hpcc", "nocc1000", "single_6hop_1M star3_incast2_1M"),
    ("hpcc", "dcqcn9000", "ft16_perm_1M ft16_ring8_1M"),  # windows of each path; no marks
    ("sai", "nocc9000", "single_6hop_1M star3_incast2_1M ft16_ring8_4M"),
    ("sai", "dcqcn9000", "ft16_perm_1M"),  # no marks
    ("hpcc", "rp_dctcp", "single_6hop_1M star3_incast2_1M ft16_perm_1M"),
    ("hpcc", "rp_timely", "single_6hop_1M star3_incast2_1M"),
    ("hpcc", "rp_hpcc", "single_6hop_1M star3_incast2_1M"),
]
LONG = [
    ("hpcc", "nocc9000", "single_6hop_10M ft16_ring8_4M ft16_ring16_4M ft128_perm_1M"),
    (
        "hpcc",
        "nocc1000",
        "star17_incast16_1M ft16_perm_1M ft16_ring8_4M ft16_ring16_4M ft128_incast16_1M ft128_perm_1M",
    ),
    ("hpcc", "dcqcn1000", "ft16_perm_1M ft16_ring8_1M ft16_ring16_1M"),
    ("sai", "nocc1000", "star17_incast16_1M ft16_perm_1M ft16_ring16_4M ft128_perm_1M"),
    ("sai", "dcqcn1000", "ft16_perm_1M ft16_ring8_1M ft16_ring16_1M"),
    ("hpcc", "rp_dctcp", "star17_incast16_1M ft16_ring16_4M"),
    ("hpcc", "rp_hpcc", "star17_incast16_1M ft16_perm_1M ft128_incast16_1M"),
]
CASES = [(*case[:2], name) for case in QUICK + LONG * SOAK for name in case[2].split()]

EAGER = Marking(1_000, 40_000, 0.5)
SMALL = PacketSettings(
    marking={25 * 10**9: EAGER},
    window_bytes="path",
    window_follows_rate=True,
    round_trip_ps=10_000_000,
    retransmit_ps=100_000_000,
    retries=1000,
)
CONTROLS = {"none": Congestion(), "dctcp": DCTCP, "timely": TIMELY, "hpcc": HPCC, "dcqcn": DCQCN}


@pytest.mark.parametrize(("simulator", "setting", "name"), CASES)
def test_every_flow_ends_when_it_does_in_the_reference(
    reference_data: Path, simulator: str, setting: str, name: str
) -> None:
    folder = reference_data / "netref"
    graph, flows, names = scenario(folder, name)

    found = dict(zip(names, durations_ns(simulate(graph, flows, *set_up(simulator, setting, graph))), strict=True))
    expected = completions(folder, simulator, setting, name)
    assert {flow: found[flow] for flow in expected} == expected
    assert expected


def test_dcqcn_is_random_as_in_the_reference(reference_data: Path) -> None:
    folder, name = reference_data / "netref", "star3_incast2_1M"
    graph, flows, _ = scenario(folder, name)

    means = []
    for seed in range(200 if SOAK else 8):
        outcome = simulate(graph, flows, *set_up("hpcc", "rp_dcqcn", graph, seed))
        means.append(fmean(duration for _, duration in durations_ns(outcome)))
    expected = fmean(duration for _, duration in completions(folder, "hpcc", "rp_dcqcn", name).values())
    assert abs(expected - fmean(means)) < min(2 * stdev(means), expected / 4)


@pytest.mark.parametrize(("links", "expected_ns"), [(2, 87_091), (4, 91_265), (6, 95_439)])
def test_one_flow_alone_takes_as_long_as_in_ns_3(links: int, expected_ns: int) -> None:
    """1 MB in 1000 B at 100 Gb/s over links of 1 us: measured with HPCC's public ns-3 model."""
    outcome = alone([(10**11, 1_000_000)] * links, 1_000_000, PacketSettings())

    assert outcome.sender_end_ps == (expected_ns * 1000,)
    s, a = 83, 4
    assert expected_ns == 1000 * s + (links - 1) * s + links * 1000 + links * a + links * 1000


def test_a_time_that_is_a_whole_number_of_nanoseconds_is_one_less_in_ns_3() -> None:
    """It shows in its HPCC runs whose flows reach the least rate, 1 Gb/s: 1090 B last 8719 ns."""
    settings = PacketSettings()

    assert settings.serialisation(1090, 10**9) == 8719
    assert settings.serialisation(1048, 10**11) == 83
    assert replace(settings, below_whole=False).serialisation(1090, 10**9) == 8720


@given(
    cables=st.lists(st.tuples(BANDWIDTHS, DELAYS_PS), min_size=1, max_size=5),
    size_bytes=st.integers(1, 30_000),
    payload_bytes=st.sampled_from([100, 1000, 9000]),
    tick_ps=st.sampled_from([1, 1000]),
)
def test_one_flow_alone_over_unlike_links(
    cables: list[tuple[int, int]], size_bytes: int, payload_bytes: int, tick_ps: int
) -> None:
    settings = PacketSettings(payload_bytes=payload_bytes, tick_ps=tick_ps, below_whole=tick_ps == 1000)
    outcome = alone(cables, size_bytes, settings)

    sizes = [min(payload_bytes, size_bytes - first) + 48 for first in range(0, size_bytes, payload_bytes)]
    received = over(cables, [0] * len(sizes), sizes, settings)
    acknowledged = over(cables[::-1], received, [60] * len(sizes), settings)
    assert outcome.receiver_end_ps == (received[-1] * tick_ps,)
    assert outcome.sender_end_ps == (acknowledged[-1] * tick_ps,)


def alone(cables: list[tuple[int, int]], size_bytes: int, settings: PacketSettings) -> Outcome:
    graph, last = line(cables), len(cables)
    flow = Flow(0, last, size_bytes, 0, -1, one_way(graph, 0, last), one_way(graph, last, 0))
    return simulate(graph, [flow], settings)


def over(
    cables: Sequence[tuple[int, int]], ready: Sequence[int], sizes: Sequence[int], settings: PacketSettings
) -> list[int]:
    """Ticks at which packets that are ready at these have been received behind the last cable."""
    arrivals = list(ready)
    for bits_per_s, delay_ps in cables:
        free = 0
        for number, size in enumerate(sizes):
            free = max(free, arrivals[number]) + settings.serialisation(size, bits_per_s)
            arrivals[number] = free + settings.ticks(delay_ps)
    return arrivals


@pytest.mark.parametrize("control", CONTROLS)
@given(
    case=traffic(),
    tick_ps=st.sampled_from([1, 1000]),
    pool_bytes=st.sampled_from([30_000, 32 << 20]),
    completion=st.sampled_from(["sender", "receiver"]),
)
def test_every_byte_arrives_once_and_the_same_run_is_the_same_again(
    control: str,
    case: tuple[Graph, list[Flow]],
    tick_ps: int,
    pool_bytes: int,
    completion: Literal["sender", "receiver"],
) -> None:
    """Simulation itself asserts at its end that every byte has come and that every buffer is empty."""
    graph, flows = case
    buffer_bytes = kept_for_ports(graph) + pool_bytes
    settings = replace(SMALL, tick_ps=tick_ps, buffer_bytes=buffer_bytes, completion=completion)
    outcome = simulate(graph, flows, settings, CONTROLS[control])

    assert simulate(graph, flows, settings, CONTROLS[control]) == outcome
    for number, flow in enumerate(flows):
        earliest = flow.start_ps // tick_ps * tick_ps
        ends = outcome.sender_end_ps if completion == "sender" else outcome.receiver_end_ps
        begun = ends[flow.after] + earliest if flow.after >= 0 else earliest
        assert outcome.start_ps[number] == begun <= outcome.receiver_end_ps[number] <= outcome.sender_end_ps[number]


def kept_for_ports(graph: Graph) -> int:
    """Bytes of memory that the neediest switch keeps as reserves and headroom."""
    needs = (
        sum(
            4096 + cable.bandwidth_bits_per_s * cable.delay_ps // (8 * 10**12) * 3
            for cable in graph.cables
            if switch in (cable.a, cable.b)
        )
        for switch in graph.switches
    )
    return max(needs)


@given(case=traffic())
def test_links_count_what_flows_put_on_them(case: tuple[Graph, list[Flow]]) -> None:
    graph, flows = case
    outcome = simulate(graph, flows, PacketSettings(routes_by_start=False))

    expected = [[0, 0] for _ in outcome.links]
    for flow in flows:
        packets = -(-flow.size_bytes // 1000)
        for link in flow.path:
            expected[link][0] += packets
            expected[link][1] += flow.size_bytes + 48 * packets
        for link in flow.back:
            expected[link][0] += packets
            expected[link][1] += 60 * packets
    assert [[link.packets, link.sent_bytes] for link in outcome.links] == expected


@given(case=traffic(), loss=st.sampled_from([0.01, 0.1]), seed=st.integers(0, 9))
def test_what_is_lost_is_sent_again(case: tuple[Graph, list[Flow]], loss: float, seed: int) -> None:
    graph, flows = case
    lossy = Graph(graph.vertices, graph.switches, tuple(replace(cable, loss=loss) for cable in graph.cables))
    outcome = simulate(lossy, flows, replace(SMALL, seed=seed))

    for flow, start_ps, end_ps, go_backs in zip(
        flows, outcome.start_ps, outcome.receiver_end_ps, outcome.go_backs, strict=True
    ):
        assert (end_ps > start_ps) == (flow.size_bytes > 0)
        assert not go_backs or any(outcome.links[link].lost for link in flow.path + flow.back)


def test_a_dead_cable_is_an_error_with_a_timer_and_without() -> None:
    graph = Graph(3, frozenset({1}), (Cable(0, 1, 10**11, 0), Cable(1, 2, 10**11, 0, loss=1.0)))
    flow = Flow(0, 2, 5_000, 0, -1, (0, 2), (3, 1))

    with pytest.raises(StuckError) as stuck:
        simulate(graph, [flow], PacketSettings())
    assert (stuck.value.flows, stuck.value.paused) == ((0,), ())
    with pytest.raises(GaveUpError, match="flow 0 has gone back 3 times to byte 0"):
        simulate(graph, [flow], PacketSettings(retransmit_ps=1_000_000, retries=3))


@pytest.mark.parametrize(("count", "congestion"), [(3, Congestion()), (4, DCQCN), (5, TIMELY)])
def test_pauses_deadlock_on_a_ring_whose_buffers_are_small(count: int, congestion: Congestion) -> None:
    """Which is found although the timers of DCQCN would go on for ever."""
    graph, flows = ring_of_switches(count), two_on_each_cable(count, 200_000)

    with pytest.raises(StuckError) as stuck:
        simulate(graph, flows, PacketSettings(buffer_bytes=300_000, marking={10**11: EAGER}), congestion)
    assert stuck.value.flows == tuple(range(count))
    assert set(stuck.value.paused) == {2 * cable for cable in range(2 * count)}


def test_without_pauses_or_with_memory_the_ring_drains() -> None:
    graph, flows = ring_of_switches(3), two_on_each_cable(3, 200_000)

    roomy = simulate(graph, flows, PacketSettings())
    assert sum(link.pauses for link in roomy.links) == 0
    dropping = simulate(graph, flows, PacketSettings(buffer_bytes=200_000, pfc=False, retransmit_ps=100_000_000))
    assert sum(link.drops for link in dropping.links) > 0
    assert min(dropping.go_backs) > 0
    assert max(dropping.sender_end_ps) > max(roomy.sender_end_ps)


def test_flows_of_a_host_take_turns() -> None:
    graph, there, back = line([(10**11, 0), (10**11, 0)]), (0, 2), (3, 1)
    flows = [Flow(0, 2, size_bytes, 0, -1, there, back) for size_bytes in (3000, 2000, 3000)]

    outcome = simulate(graph, flows, PacketSettings())
    in_turn = [0, 1, 2, 0, 1, 2, 0, 2]
    last = [max(place for place, flow in enumerate(in_turn) if flow == number) for number in range(3)]
    assert outcome.receiver_end_ps == tuple((place + 2) * 83_000 for place in last)


def test_timely_steps_up_while_trips_are_short_and_down_with_their_length_or_growth() -> None:
    clock = Clock()
    sender = Mock(clock=clock, settings=PacketSettings(), line_rate=100 * 10**9, rate=50 * 10**9, next_byte=0)
    control = Timely(sender)

    def after(trip_ns: int) -> float:
        sender.next_byte += 1000
        clock.now = trip_ns
        control.acknowledged(Packet(Kind.ACK, 60, number=sender.next_byte - 500))
        return float(sender.rate) / 10**9

    assert after(40_000) == 50  # nothing to compare it with
    assert [after(40_000) for _ in range(6)] == pytest.approx([50.1, 50.2, 50.3, 50.4, 50.5, 51.0])
    assert after(60_000) == pytest.approx(51.0 * (1 - 0.8 * 0.875))
    assert after(60_000) == pytest.approx(51.0 * 0.3 * (1 - 0.8 * 0.125 * 0.875))
    assert after(55_000) == pytest.approx(51.0 * 0.3 * 0.9125 + 0.1)
    assert after(1_000_000) == pytest.approx((51.0 * 0.3 * 0.9125 + 0.1) * 0.6)


def test_flows_of_a_pair_take_their_paths_in_the_order_of_their_starts() -> None:
    two_cables = Graph(2, frozenset(), (Cable(0, 1, 10**11, 0), Cable(0, 1, 10**11, 9_000)))
    late = Flow(0, 1, 1000, 10_000_000, -1, (0,), (1,))
    early = Flow(0, 1, 1000, 0, -1, (2,), (3,))

    by_start = simulate(two_cables, [late, early], PacketSettings())
    as_listed = simulate(two_cables, [late, early], PacketSettings(routes_by_start=False))
    assert [end - start for start, end in durations_ps(by_start)] == [83_000 + 4_000 + 18_000, 83_000 + 4_000]
    assert [end - start for start, end in durations_ps(as_listed)] == [83_000 + 4_000, 83_000 + 4_000 + 18_000]


def durations_ps(outcome: Outcome) -> list[tuple[int, int]]:
    return list(zip(outcome.start_ps, outcome.sender_end_ps, strict=True))


@pytest.mark.parametrize(("key", "seed", "expected"), [(b"test", 0, 0xBA6BD213), (b"aaaa", 0x9747B28C, 0x5A97808A)])
def test_the_hash_is_murmur3(key: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(key, seed) == expected


def test_the_dice_are_splitmix64() -> None:
    assert Dice(0).throw() == (0xE220A8397B1DCDAF >> 11) / 2**53
