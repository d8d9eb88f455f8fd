"""Both backends against what can be said without simulating."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import Timetable, all_gather, all_reduce, fabric_of, play, point_to_point, star, timetables
from xsim.fabric.transfers import concatenate, line, ring
from xsim.sim.contracts import Completion, NetworkBackend
from xsim.sim.network.analytic import Analytic
from xsim.sim.network.flow import Flow

BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(Analytic(), id="analytic"),
        pytest.param(Flow(), id="flow"),
        pytest.param(Flow(reuse=False), id="events"),
    ],
)

sizes = st.one_of(st.integers(0, 9), st.integers(1, 10**7))
ranks = st.integers(2, 9)


@BACKENDS
@pytest.mark.parametrize("n", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("piece", [1, 1000, 333_333])
def test_ring_all_reduce_on_equal_links(backend: NetworkBackend, n: int, piece: int) -> None:
    bandwidth, latency_ps = 12.5e9, 750
    network = backend.open(star(n, bandwidth, latency_ps), 0)

    exact_ps = 2 * (n - 1) * (piece / bandwidth * 1e12 + 2 * latency_ps)
    assert abs(network.solo(all_reduce(range(n), n * piece)) - exact_ps) <= 2 * (n - 1)


@BACKENDS
@given(size=sizes, latency_ps=st.integers(0, 10**6), bandwidth=st.floats(1e8, 1e12))
def test_a_lone_transfer_takes_its_size_over_the_bandwidth_and_the_latency(
    backend: NetworkBackend, size: int, latency_ps: int, bandwidth: float
) -> None:
    fabric = fabric_of([bandwidth, 3 * bandwidth], [latency_ps, 5], {(0, 1): (0, 1)}, 2)

    expected_ps = int(size / (bandwidth * 1e-12) + 0.5) + latency_ps + 5 if size else 0
    assert backend.open(fabric, 0).solo(point_to_point((0, 1, size))) == expected_ps


@BACKENDS
@given(size=sizes, more=st.integers(0, 1000), bandwidth=st.floats(1e8, 1e12), faster=st.floats(1, 10))
def test_more_bandwidth_or_fewer_bytes_never_slow_a_lone_transfer(
    backend: NetworkBackend, size: int, more: int, bandwidth: float, faster: float
) -> None:
    slow, fast = (backend.open(star(2, rate), 0) for rate in (bandwidth, faster * bandwidth))

    assert fast.solo(point_to_point((0, 1, size))) <= slow.solo(point_to_point((0, 1, size)))
    assert slow.solo(point_to_point((0, 1, size))) <= slow.solo(point_to_point((0, 1, size + more)))


@BACKENDS
@given(n=ranks, size=sizes)
def test_all_reduce_takes_at_least_as_long_as_all_gather(backend: NetworkBackend, n: int, size: int) -> None:
    network = backend.open(star(n), 0)

    assert network.solo(all_reduce(range(n), size)) >= network.solo(all_gather(range(n), size))


@BACKENDS
@given(n=ranks, size=sizes)
def test_all_reduce_grows_smoothly_with_its_size(backend: NetworkBackend, n: int, size: int) -> None:
    network = backend.open(star(n, latency_ps=0), 0)
    before, after = (network.solo(all_reduce(range(n), each)) for each in (size, size + 1))

    byte_ps = 1000
    assert before <= after <= before + 2 * (n - 1) * (byte_ps + 1)


@BACKENDS
@given(n=st.integers(2, 8), size=st.integers(1, 10**6))
def test_all_reduce_grows_with_its_ranks(backend: NetworkBackend, n: int, size: int) -> None:
    network = backend.open(star(9), 0)

    assert network.solo(all_reduce(range(n), size)) <= network.solo(all_reduce(range(n + 1), size))


@BACKENDS
@given(timetables())
def test_no_link_carries_more_than_its_bandwidth_allows(backend: NetworkBackend, timetable: Timetable) -> None:
    _, stats = play(backend.open(timetable.fabric, 0), timetable)

    # each flow's last picosecond may be rounded down by half
    least_ps = stats.link_bytes / (timetable.fabric.bandwidth_bytes_per_s * 1e-12)
    flows = int(stats.flows.counts.sum())
    assert np.all(stats.link_busy_ps >= least_ps - flows)


def test_flow_alone_on_its_links_equals_analytic() -> None:
    fabric = star(8)
    graph = all_reduce(range(8), 1_000_003, parties=[range(4), range(4, 8)])
    timetable = Timetable(fabric, (graph,), ((0, ((0, 7, 7), (1, 5000, 9000))),))

    exact, exact_stats = play(Analytic().open(fabric, 0), timetable)
    fair, fair_stats = play(Flow().open(fabric, 0), timetable)
    assert exact == fair
    assert np.array_equal(exact_stats.link_busy_ps, fair_stats.link_busy_ps)
    assert np.array_equal(exact_stats.flows.counts, fair_stats.flows.counts)


@BACKENDS
def test_a_row_waits_for_its_predecessors_and_for_both_of_its_parties(backend: NetworkBackend) -> None:
    first, second = line(0, 1, range(100)), line(1, 2, range(100))
    graph = concatenate([(first, [()]), (second, [(0,)])], [[0, 1], [2], [3]])
    network = backend.open(star(4, 1e12, 10), 0)
    handle = network.submit(graph)

    network.release(handle, 2, 5)  # no row touches rank 3
    assert network.advance(5) == [Completion(handle, 2, 5)]
    network.release(handle, 0, 50)
    assert network.advance(None) == []
    network.release(handle, 1, 1000)
    assert network.advance(1119) == []
    assert network.next_ps == 1120
    assert network.advance(None) == [Completion(handle, 0, 1120), Completion(handle, 1, 1120)]
    assert network.next_ps is None


@BACKENDS
def test_parties_that_need_no_other_are_done_in_time(backend: NetworkBackend) -> None:
    graph = point_to_point((0, 1, 100), (1, 0, 300), (2, 3, 50), parties=[[0, 1], [2], [3]])
    network = backend.open(star(4, 1e12, 0), 0)
    handle = network.submit(graph)

    network.release(handle, 1, 0)
    network.release(handle, 0, 10)
    assert network.advance(None) == [Completion(handle, 0, 310)]
    network.release(handle, 2, 400)
    assert network.advance(None) == [Completion(handle, 1, 450), Completion(handle, 2, 450)]


@BACKENDS
def test_an_empty_transfer_is_free(backend: NetworkBackend) -> None:
    rows = ring((0, 1, 2), (range(1), range(1, 1), range(1, 1)), rounds=4, add_rounds=2)
    network = backend.open(star(3, 1e12, 0), 0)

    assert network.solo(point_to_point((0, 1, 0))) == 0
    assert network.solo(point_to_point((1, 1, 10**9))) == 0
    assert network.solo(concatenate([(rows, [()] * 3)], [[0, 1, 2]])) == 4  # one byte, passed on four times


@BACKENDS
def test_statistics_count_every_byte_on_every_link_of_its_way(backend: NetworkBackend) -> None:
    network = backend.open(star(3, 1e12, 10), 0)
    graph = all_reduce((0, 1, 2), 10)
    handle = network.submit(graph)
    network.release(handle, 0, 0)
    assert network.advance(None)
    network.repeat(graph, 2)

    stats = network.stats()
    sent = graph.sent_bytes()
    expected = np.zeros(6, dtype=np.int64)
    for row, count in enumerate(sent.tolist()):
        expected[[2 * row, 2 * ((row + 1) % 3) + 1]] = 3 * count
    assert np.array_equal(stats.link_bytes, expected)
    assert np.array_equal(stats.link_busy_ps, expected)  # a byte takes a picosecond
    assert dict(zip(stats.flows.durations_ps.tolist(), stats.flows.counts.tolist(), strict=True)) == {23: 24, 24: 12}
