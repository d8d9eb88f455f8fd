"""Packets that are stored on their way, in closed form, against the packets themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import (
    Timetable,
    all_reduce,
    fabric_of,
    lone_rings,
    play,
    point_to_point,
    same_stats,
    star,
    timetables,
    wire_bytes,
)
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import TransferGraph
from xsim.sim.contracts import Network
from xsim.sim.network.analytic import Analytic
from xsim.sim.network.flow import Flow
from xsim.sim.network.packet import Packet

RATES = st.sampled_from([1e9, 3.125e9, 12.5e9, 25e9, 50e9, 300e9, 900e9])
KINDS = st.sampled_from(["nic", "spine", "pcie", "scale_up"])
HOPS = st.lists(st.tuples(RATES, st.integers(0, 10**6), KINDS), min_size=1, max_size=6)
PIECES = st.sampled_from([977, 8999, 9001, 62_500, 125_000])
SIZES = st.one_of(st.integers(0, 3), st.integers(1, 40_000), st.integers(100_000, 300_000))


def line_of(hops: Sequence[tuple[float, int, str]]) -> Fabric:
    """Links from rank 0 to rank 1, and as many back."""
    there, back = tuple(range(len(hops))), tuple(range(len(hops), 2 * len(hops)))
    rates, delays_ps, kinds = zip(*hops, *reversed(hops), strict=True)
    fabric = fabric_of(rates, delays_ps, {(0, 1): there, (1, 0): back}, 2)
    ends = [*(f"{n} -> {n + 1}" for n in there), *(f"{len(hops) - n} -> {len(hops) - n - 1}" for n in there)]
    return replace(fabric, links=tuple(map(Link, ends, kinds)))


def alike(payload_bytes: int, header_bytes: int = 48) -> tuple[Flow, Packet]:
    """The two networks with the same packets."""
    flow = Flow(payload_bytes=payload_bytes, header_bytes=header_bytes)
    return flow, Packet(payload_bytes=payload_bytes, header_bytes=header_bytes, exact=True)


def protocol(graph: TransferGraph, delay_ps: int, wire_ppm: int) -> TransferGraph:
    """The same rows with the costs of a protocol."""
    return replace(graph, delay_ps=np.array([delay_ps]), wire_ppm=np.array([wire_ppm]))


@given(
    hops=HOPS,
    size=SIZES,
    payload=st.sampled_from([1000, 4096, 9000]),
    header=st.sampled_from([1, 48, 256]),
    costs=st.sampled_from([(0, 10**6), (333, 1_066_667), (0, 2 * 10**6)]),
)
def test_a_lone_transfer_takes_as_long_as_its_packets(
    hops: list[tuple[float, int, str]], size: int, payload: int, header: int, costs: tuple[int, int]
) -> None:
    """To the picosecond; over one link alone each packet's time is rounded down among packets."""
    fabric, graph = line_of(hops), protocol(point_to_point((0, 1, size)), *costs)

    flow_ps, packet_ps = (backend.open(fabric, 0).solo(graph) for backend in alike(payload, header))

    packets = -(-2 * size // 1000)
    assert 0 <= flow_ps - packet_ps <= (packets if len({rate for rate, _, _ in hops}) == len(hops) == 1 else 0)
    assert Analytic().open(fabric, 0).solo(graph) <= flow_ps


@pytest.mark.parametrize(
    ("size", "rates", "expected_ps"),
    [
        (4000, [1e12], 4 * 1010),
        (4000, [1e12, 1e12, 1e12], 4 * 1010 + 2 * 1010),
        (4000, [1e12, 0.5e12], 1010 + 4 * 2020),  # the first packet before the slowest link
        (4000, [0.5e12, 1e12], 4 * 2020 + 1010),  # the last behind it
        (3180, [0.5e12, 1e12], 3 * 2020 + 1010 + 190),  # the last, of 190 bytes, waits for the one before it
        (3900, [0.5e12, 1e12], 3 * 2020 + 2 * 910 + 910),
        (180, [1e12, 0.5e12, 1e12], 190 + 380 + 190),
    ],
)
def test_before_the_slowest_link_the_first_packet_counts_and_behind_it_the_last(
    size: int, rates: list[float], expected_ps: int
) -> None:
    """Packets of 1000 bytes and headers of 10."""
    fabric = fabric_of(rates, [0] * len(rates), {(0, 1): tuple(range(len(rates)))}, 2)

    network = Flow(payload_bytes=1000, header_bytes=10).open(fabric, 0)
    assert network.solo(point_to_point((0, 1, size))) == expected_ps


def chain_ps(sizes: Sequence[int], rates: Sequence[float]) -> float:
    """When the last of these packets is through, link by link, packet by packet."""
    at = [0.0] * len(sizes)
    for rate in rates:
        free = 0.0
        for packet, size in enumerate(sizes):
            free = at[packet] = max(free, at[packet]) + size / rate * 1e12
    return at[-1]


@given(rates=st.lists(RATES, min_size=1, max_size=6), size=st.integers(1, 100_000))
def test_the_closed_form_is_the_slowest_chain_of_sendings(rates: list[float], size: int) -> None:
    whole, rest = divmod(size, 9000)
    sizes = [9048] * whole + [rest + 48] * bool(rest)
    fabric = fabric_of(rates, [0] * len(rates), {(0, 1): tuple(range(len(rates)))}, 2)

    took_ps = Flow(payload_bytes=9000).open(fabric, 0).solo(point_to_point((0, 1, size)))

    assert took_ps == pytest.approx(chain_ps(sizes, rates), abs=len(sizes) * len(rates))


@given(rates=st.lists(RATES, min_size=2, max_size=8), piece=PIECES, reuse=st.booleans())
def test_rings_differ_by_their_acknowledgements(rates: list[float], piece: int, reuse: bool) -> None:
    """60 bytes that come the other way for each packet, over links of unlike rates, and wait at most for one."""
    n = len(rates)
    ways = {(a, b): (2 * a, 2 * b + 1) for a in range(n) for b in range(n) if a != b}
    fabric = fabric_of(np.repeat(rates, 2).tolist(), [1_000_000] * 2 * n, ways, n)
    graph = all_reduce(range(n), n * piece + n // 2)
    flow, packet = alike(9000)

    flow_ps = replace(flow, reuse=reuse).open(fabric, 0).solo(graph)
    packet_ps = packet.open(fabric, 0).solo(graph)

    assert 0.98 * packet_ps <= flow_ps <= 1.001 * packet_ps


@given(timetable=st.one_of(timetables(), lone_rings()), payload=st.sampled_from([7, 1000, 4096]))
def test_shortcuts_leave_the_numbers_as_they_are(timetable: Timetable, payload: int) -> None:
    """Graphs without events, rings alone on their links, and the same from event to event."""
    (once, once_stats), (again, again_stats) = (
        play(Flow(payload_bytes=payload, reuse=reuse).open(timetable.fabric, 0), timetable) for reuse in (True, False)
    )

    assert once == again
    assert same_stats(once_stats, again_stats)


def test_links_carry_headers() -> None:
    """Of a scale-up fabric those of its own packets."""
    graph = point_to_point((0, 1, 40_000))
    for kind, expected in (("nic", 40_000 + 5 * 48), ("scale_up", 40_000 + 10 * 256)):
        fabric = line_of([(1e12, 0, kind)] * 2)
        network: Network = Flow(payload_bytes=9000).open(fabric, 0)
        network.repeat(graph, 2)

        assert network.stats().link_bytes.tolist() == [2 * expected] * 2 + [0, 0]


def test_without_packets_nothing_is_added() -> None:
    fabric, graph = star(4, 12.5e9, 100), all_reduce(range(4), 1_000_003)
    network = Flow().open(fabric, 0)
    network.repeat(graph, 1)

    assert network.solo(graph) == Analytic().open(fabric, 0).solo(graph)
    assert network.stats().link_bytes.sum() == 2 * sum(wire_bytes(graph))


def test_sizes_that_no_packet_has_are_refused() -> None:
    with pytest.raises(SpecError, match="payload_bytes = -1: packets are not of that size; choose 1 to 1048576"):
        Flow(payload_bytes=-1)
    with pytest.raises(SpecError, match="header_bytes = 131072: packets are not of that size; choose 0 to 65536"):
        Flow(payload_bytes=1000, header_bytes=1 << 17)


def test_sizes_of_packets_that_there_are_none_of_are_refused() -> None:
    with pytest.raises(SpecError, match="header_bytes = 52: transfers have no packets; set payload_bytes too"):
        Flow(header_bytes=52)


def test_slow_links_have_an_end() -> None:
    fabric = fabric_of([1e-3, 1e-3], [0, 0], {(0, 1): (0, 1)}, 2)

    assert Flow(payload_bytes=9000).open(fabric, 0).solo(point_to_point((0, 1, 10**12))) <= 2 << 59
