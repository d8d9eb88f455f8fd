"""``flow``: fair sharing worked out by hand and by plain twins, and shortcuts that change nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.toys import NVLINK, cluster, host
from tests.sim.network_twin import max_min, simulate
from tests.sim.traffic import (
    Timetable,
    all_reduce,
    fabric_of,
    lone_rings,
    play,
    point_to_point,
    same_stats,
    star,
    statistics_at,
    timetables,
)
from xsim.fabric.topology.clos import Clos
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.sim.contracts import Completion
from xsim.sim.kernels import event_columns as k
from xsim.sim.network.flow import Flow
from xsim.sim.traffic.compiled import Compiler
from xsim.sim.traffic.events import Events
from xsim.spec.cluster import DeviceSlot, LinkSpec, NicSpec

REUSE = pytest.mark.parametrize("backend", [Flow(), Flow(reuse=False)], ids=["closed", "events"])


FEW = pytest.mark.parametrize("few", [0, 256], ids=["closed", "events"])  # graphs of more flows are closed


@FEW
@given(timetable=st.one_of(timetables(), lone_rings()))
def test_shortcuts_change_no_bit(few: int, timetable: Timetable) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim.sim.network.flow._FEW", few)
        quick, quick_stats = play(Flow().open(timetable.fabric, 0), timetable)
    plain, plain_stats = play(Flow(reuse=False).open(timetable.fabric, 0), timetable)

    assert quick == plain
    assert same_stats(quick_stats, plain_stats)


@given(st.one_of(timetables(most=4), lone_rings()))
def test_completions_are_those_of_the_plain_twin(timetable: Timetable) -> None:
    found, _ = play(Flow().open(timetable.fabric, 0), timetable)

    assert {(handle, party): at_ps for handle, party, at_ps in found} == simulate(timetable)


@FEW
@given(timetable=lone_rings(), asked_ps=st.lists(st.integers(0, 12_000), min_size=1, max_size=4).map(sorted))
def test_shortcuts_change_no_statistics_under_way(few: int, timetable: Timetable, asked_ps: list[int]) -> None:
    found = []
    for backend in (Flow(), Flow(reuse=False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xsim.sim.network.flow._FEW", few)
            found.append(list(statistics_at(backend.open(timetable.fabric, 0), timetable, asked_ps)))

    assert all(same_stats(quick, plain) for quick, plain in zip(*found, strict=True))


@given(seed=st.integers(0, 10**6), flows=st.integers(1, 12), links=st.integers(1, 6))
def test_rates_are_those_of_the_plain_twin(seed: int, flows: int, links: int) -> None:
    dice = random.Random(seed)
    capacity = [dice.choice((1.0, 2.0, 2.5, 7.0)) for _ in range(links)]
    paths = [tuple(dice.sample(range(links), dice.randint(1, links))) for _ in range(flows)]
    ways = {(flow, flow + flows): path for flow, path in enumerate(paths)}
    fabric = fabric_of([each * 1e12 for each in capacity], [0] * links, ways, 2 * flows)
    events = Events(fabric.bandwidth_bytes_per_s)
    graph = Compiler(fabric)(point_to_point(*((flow, flow + flows, 10**6) for flow in range(flows))))
    base, _ = events.open(0, graph, [0])
    events.run(0)

    found = events._flows[base : base + flows, k.RATE].tolist()
    assert found == pytest.approx(max_min(paths, capacity), rel=1e-12)


@REUSE
def test_max_min_by_hand(backend: Flow) -> None:
    """Link 0 carries 10 bytes/ps for flows 0 and 1, link 1 carries 20 for flows 1 and 2.

    0..10 ps: 5, 5 and 15; flow 0 ends. 10..15 ps: 10 and 10; flow 1 ends. Then flow 2 has 50 bytes left, at 20.
    """
    fabric = fabric_of([10e12, 20e12], [0, 0], {(0, 1): (0,), (2, 3): (0, 1), (4, 5): (1,)}, 6)
    flows = point_to_point((0, 1, 50), (2, 3, 100), (4, 5, 250), parties=[[0, 1], [2, 3], [4, 5]])
    found, stats = play(backend.open(fabric, 0), Timetable(fabric, (flows,), ((0, ((0, 0, 0), (1, 0, 0), (2, 0, 0))),)))

    assert [(party, at_ps) for _, party, at_ps in found] == [(0, 10), (1, 15), (2, 18)]
    assert stats.link_bytes.tolist() == [150, 350]
    assert stats.link_busy_ps.tolist() == [15, 18]


@REUSE
def test_two_rings_that_share_a_nic_take_twice_the_sending_time(backend: Flow) -> None:
    nic = NicSpec(bandwidth_bytes_per_s=1e9, latency_ps=2000, per_host=1)
    fabric = OneSwitch().build(cluster(host(DeviceSlot(device=NVLINK, count=2), nic=nic, count=2)))
    one, other = all_reduce((0, 2), 1000), all_reduce((1, 3), 1000)
    latency_ps = 2 * 2000 + 2 * 50

    network = backend.open(fabric, 0)
    assert network.solo(one) == 2 * (500_000 + latency_ps)
    both = Timetable(fabric, (one, other), ((0, ((0, 0, 0),)), (1, ((0, 0, 0),))))
    found, _ = play(network, both)
    assert [at_ps for _, _, at_ps in found] == [2 * (1_000_000 + latency_ps)] * 2


@REUSE
def test_half_the_spine_bandwidth_lengthens_exactly_what_crosses_it(backend: Flow) -> None:
    spec = cluster(host(DeviceSlot(device=NVLINK, count=2), count=4), per_tor=2, spines=1)
    sends = ((0, 2, 10**6), (0, 1, 10**6), (1, 5, 10**6), (6, 2, 10**6))
    graphs = tuple(point_to_point(send) for send in sends)
    alone = tuple((number, ((0, number * 10**10, number * 10**10),)) for number in range(len(sends)))

    ends = []
    for bandwidth in (25e9, 12.5e9):
        uplink = LinkSpec(bandwidth_bytes_per_s=bandwidth, latency_ps=0)
        fabric = Clos().build(replace(spec, scale_out=replace(spec.scale_out, uplink=uplink)))
        found, _ = play(backend.open(fabric, 0), Timetable(fabric, graphs, alone))
        ends.append([at_ps for _, _, at_ps in found])
    longer_ps = [after - before for before, after in zip(*ends, strict=True)]
    assert longer_ps == [0, 0, 40_000_000, 40_000_000]  # 10^6 bytes: 40 us at 25 GB/s


@FEW
def test_a_ring_is_opened_when_another_transfer_comes_to_its_links(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the other sends, each round of the ring takes longer; before and after it is as if alone."""
    monkeypatch.setattr("xsim.sim.network.flow._FEW", few)
    fabric = star(3, 1e9, 0)
    ring, other = all_reduce((0, 1, 2), 3000), point_to_point((0, 2, 600))
    network = Flow().open(fabric, 0)
    network.release(network.submit(ring), 0, 0)
    assert network.next_ps == 4_000_000

    network.release(network.submit(other), 0, 1_500_000)
    assert network.advance(None) == [Completion(1, 0, 2_700_000)]
    assert network.advance(None) == [Completion(0, 0, 4_600_000)]


def test_the_links_of_a_graph_that_waits_for_a_party_are_free() -> None:
    fabric = star(2, 1e9, 0)
    network = Flow().open(fabric, 0)
    waiting = network.submit(point_to_point((0, 1, 1000), parties=[[0], [1]]))
    network.release(waiting, 0, 0)
    network.release(network.submit(point_to_point((0, 1, 500))), 0, 10)

    assert network.advance(None) == [Completion(1, 0, 500_010)]
    network.release(waiting, 1, 600_000)
    assert network.advance(None) == [Completion(0, 0, 1_600_000), Completion(0, 1, 1_600_000)]


def test_statistics_may_be_read_at_any_time() -> None:
    fabric = star(2, 1e12, 10)
    for backend in (Flow(), Flow(reuse=False)):
        network = backend.open(fabric, 0)
        network.release(network.submit(point_to_point((0, 1, 1000))), 0, 100)
        assert network.advance(600) == []
        assert network.stats().link_busy_ps.tolist() == [500, 0, 0, 500]
        assert network.advance(None) == [Completion(0, 0, 1120)]
        assert network.stats().link_busy_ps.tolist() == [1000, 0, 0, 1000]


def test_a_ring_alone_takes_one_event_per_row_and_one_per_party() -> None:
    events = Events(star(3, 1e9, 0).bandwidth_bytes_per_s)
    events.open(0, Compiler(star(3, 1e9, 0))(all_reduce((0, 1, 2), 3000)), [0])

    assert events.run(0) == []
    assert events._sim[k.QUEUED] == 3
    assert events.run(5_000_000) == [(0, 0, 4_000_000)]


def test_slots_of_finished_graphs_are_used_again() -> None:
    fabric = star(2, 1e12, 10)
    network = Flow(reuse=False).open(fabric, 0)
    graph = point_to_point(*((0, 1, size) for size in range(40)))
    for turn in range(50):
        network.release(network.submit(graph), 0, turn * 10**6)
        assert len(network.advance(None)) == 1

    assert np.count_nonzero(network._events._slots[:, k.HOPS]) <= 41  # type: ignore[attr-defined]
