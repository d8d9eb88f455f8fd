"""What every network backend owes: bounds, completeness, determinism, conservation, and no gift to the crowded."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import Timetable, fabric_of, play, point_to_point, same_stats, timetables, wire_bytes
from xsim.fabric.transfers import concatenate, line
from xsim.families import members
from xsim.sim.contracts import NetworkBackend
from xsim.sim.network.flow import Flow

MEMBERS = [pytest.param(cls(), id=name) for name, cls in members("network")]
EACH = pytest.mark.parametrize("backend", MEMBERS)
EACH_AND_STORED = pytest.mark.parametrize(
    "backend", [*MEMBERS, pytest.param(Flow(payload_bytes=1000), id="flow-with-packets")]
)

EXACT = ("analytic", "flow")


@EACH
@given(size=st.integers(1, 10**7), latency_ps=st.integers(0, 10**6), bandwidth=st.floats(1e8, 1e12))
def test_alone_a_transfer_takes_latency_and_size_over_bandwidth(
    backend: NetworkBackend, size: int, latency_ps: int, bandwidth: float
) -> None:
    wires, ways = [2 * bandwidth, bandwidth, bandwidth], {(0, 1): (0, 1), (1, 0): (2,)}
    fabric = fabric_of(wires, [3, latency_ps, 0], ways, 2)
    took_ps = backend.open(fabric, 0).solo(point_to_point((0, 1, size)))

    bound_ps = int(size / (bandwidth * 1e-12) + 0.5) + latency_ps + 3
    assert took_ps >= bound_ps
    if type(backend).__name__.lower() in EXACT:
        assert took_ps == bound_ps


@EACH_AND_STORED
@given(timetables())
def test_every_party_is_done_once_and_not_before_its_release(backend: NetworkBackend, timetable: Timetable) -> None:
    found, _ = play(backend.open(timetable.fabric, 0), timetable)

    released = {(s, p): at for s, (_, releases) in enumerate(timetable.submissions) for p, _, at in releases}
    assert sorted((handle, party) for handle, party, _ in found) == sorted(released)
    assert all(at_ps >= released[handle, party] for handle, party, at_ps in found)
    assert [at_ps for _, _, at_ps in found] == sorted(at_ps for _, _, at_ps in found)


@EACH_AND_STORED
@given(timetable=timetables(), asked_ps=st.lists(st.integers(0, 15_000), max_size=12))
def test_the_same_input_gives_the_same_output_however_often_one_asks(
    backend: NetworkBackend, timetable: Timetable, asked_ps: list[int]
) -> None:
    once, once_stats = play(backend.open(timetable.fabric, 0), timetable)
    again, again_stats = play(pickle.loads(pickle.dumps(backend)).open(timetable.fabric, 0), timetable, asked_ps)

    assert once == again
    assert same_stats(once_stats, again_stats)


@EACH
@given(
    size=st.integers(0, 10**7),
    delay_ps=st.integers(0, 10**6),
    wire_ppm=st.integers(10**6, 3 * 10**6),
    before_ps=st.integers(0, 10**6),
)
def test_a_protocol_costs_bytes_on_the_wire_and_a_delay(
    backend: NetworkBackend, size: int, delay_ps: int, wire_ppm: int, before_ps: int
) -> None:
    """After a row of rank 0 to itself, which carries nothing and takes ``before_ps``."""
    fabric = fabric_of([1e12, 1e12], [7, 7], {(0, 1): (0,), (1, 0): (1,)}, 2)
    graph = concatenate([(line(0, 0, range(0)), [()]), (line(0, 1, range(size)), [(0,)])], [(0, 1)])
    graph = replace(graph, delay_ps=np.array([before_ps, delay_ps]), wire_ppm=np.array([10**6, wire_ppm]))
    network = backend.open(fabric, 0)
    took_ps = network.solo(graph)
    network.repeat(graph, 3)

    on_wire = (size * wire_ppm + 500_000) // 10**6
    assert on_wire >= size
    assert took_ps >= before_ps + (on_wire + delay_ps + 7 if size else 0)
    if type(backend).__name__.lower() in EXACT:
        assert took_ps == before_ps + (on_wire + delay_ps + 7 if size else 0)
    assert network.stats().link_bytes.tolist() == [3 * on_wire, 0]


@EACH
@given(timetables())
def test_bytes_are_conserved(backend: NetworkBackend, timetable: Timetable) -> None:
    _, stats = play(backend.open(timetable.fabric, 0), timetable)

    expected = np.zeros_like(stats.link_bytes)
    for number, _ in timetable.submissions:
        graph = timetable.graphs[number]
        for src, dst, sent in zip(graph.src, graph.dst, wire_bytes(graph), strict=True):
            expected[list(timetable.fabric.route(int(src), int(dst)))] += sent
    assert np.array_equal(stats.link_bytes, expected)


@EACH_AND_STORED
@given(timetables())
def test_solo_is_a_run_with_all_parties_together_and_leaves_no_trace(
    backend: NetworkBackend, timetable: Timetable
) -> None:
    graph = timetable.graphs[0]
    network = backend.open(timetable.fabric, 0)
    solo_ps = network.solo(graph)
    alone = Timetable(timetable.fabric, (graph,), ((0, tuple((party, 0, 0) for party in range(graph.parties))),))
    found, stats = play(network, alone)

    assert solo_ps == max(at_ps for _, _, at_ps in found)
    network.repeat(graph, 1)
    assert np.array_equal(network.stats().link_bytes, 2 * stats.link_bytes)
    assert np.array_equal(network.stats().link_busy_ps, 2 * stats.link_busy_ps)
    assert np.array_equal(network.stats().flows.counts, 2 * stats.flows.counts)


@EACH_AND_STORED
@given(sends=st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 4000)), min_size=1, max_size=5))
def test_on_one_shared_link_more_traffic_helps_nobody(backend: NetworkBackend, sends: list[tuple[int, int]]) -> None:
    fabric = fabric_of([1e12, 1e12], [7, 7], {(0, 1): (0,), (1, 0): (1,)}, 2)
    graphs = tuple(point_to_point((0, 1, size)) for size, _ in sends)
    submissions = tuple((number, ((0, at_ps, at_ps),)) for number, (_, at_ps) in enumerate(sends))
    fewer, _ = play(backend.open(fabric, 0), Timetable(fabric, graphs, submissions[:-1]))
    more, _ = play(backend.open(fabric, 0), Timetable(fabric, graphs, submissions))

    ends_ps = {handle: at_ps for handle, _, at_ps in more}
    assert all(at_ps <= ends_ps[handle] for handle, _, at_ps in fewer)
