"""Topologies: what every one of them owes."""

from __future__ import annotations

import pickle
from itertools import groupby, product

from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.toys import (
    EACH,
    UNLIKE,
    VARIANTS,
    clusters,
    names,
)
from tests.sim.traffic import point_to_point
from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.topology.one_switch import OneSwitch


@EACH
def test_every_pair_has_a_path_that_leaves_and_arrives(topology: Topology) -> None:
    fabric = topology.build(UNLIKE)

    assert len(fabric.hosts) == UNLIKE.ranks
    for src in range(UNLIKE.ranks):
        assert fabric.route(src, src) == ()
        for dst in set(range(UNLIKE.ranks)) - {src}:
            route = fabric.route(src, dst)
            kinds = [kind for kind, _ in groupby(fabric.links[number].kind for number in route)]
            assert len(set(route)) == len(route)
            assert names(fabric, src, dst)[0].startswith(f"rank{src} ->")
            assert names(fabric, src, dst)[-1].endswith(f"-> rank{dst}")
            if fabric.hosts[src] != fabric.hosts[dst]:
                while kinds[0] == "scale_up":
                    kinds.pop(0)
                while kinds[-1] == "scale_up":
                    kinds.pop()
                assert kinds in (["pcie", "nic", "pcie"], ["pcie", "nic", "spine", "nic", "pcie"])
            else:
                assert kinds in (["scale_up"], ["pcie"])


def ways(fabric: Fabric, src: int, dst: int) -> list[tuple[int, ...]]:
    """The route of a pair and all that may be chosen instead of it."""
    return [fabric.route(src, dst), *(fabric.route(src, dst, n) for n in range(fabric.choices(src, dst)))]


@VARIANTS
@given(draw=st.data())
def test_every_choice_is_a_way_that_comes_by_no_vertex_twice(topology: Topology, draw: st.DataObject) -> None:
    """And a hash takes one of them. A NIC is in its PCIe switch: between the two there is no link."""
    hardware = draw.draw(clusters())
    fabric = topology.build(hardware)
    kinds, pcie = fabric.vertices, ("pcie", "nic")

    for src, dst in product(range(hardware.ranks), repeat=2):
        route, *choices = ways(fabric, src, dst)
        assert route in choices
        assert len(set(choices)) == len(choices) == fabric.choices(src, dst)
        for way in choices:
            starts, ends = fabric.start[list(way)].tolist(), fabric.end[list(way)].tolist()
            assert [src, *ends][-1] == dst
            assert [*starts, dst][0] == src
            assert len(set(starts)) == len(starts)
            for end, start in zip(ends, starts[1:], strict=False):
                assert end == start or {kinds[end], kinds[start]} == set(pcie)
    for number, link in enumerate(fabric.links):
        between = {kinds[fabric.start[number]], kinds[fabric.end[number]]}
        assert (link.kind == "nic") == (between == {"nic", "switch"})
        assert (link.kind == "spine") == (between == {"switch"})
        assert link.kind != "scale_up" or between <= {"device", "scale_up"}
        assert link.kind != "pcie" or between <= {"device", "pcie"}


@VARIANTS
def test_a_group_of_a_switch_hangs_on_the_switch(topology: Topology) -> None:
    fabric = topology.build(UNLIKE)
    group = fabric.switch_for((6, 7, 12))
    assert group is not None
    (up,), (down,) = fabric.route(7, group), fabric.route(group, 12)

    assert fabric.vertices[group] == "multicast"
    assert fabric.vertices[fabric.end[up]] == "scale_up"
    assert fabric.end[up] == fabric.start[down]


@VARIANTS
@given(draw=st.data())
def test_a_gate_is_what_all_routes_to_other_hosts_have_in_common(topology: Topology, draw: st.DataObject) -> None:
    hardware = draw.draw(clusters())
    fabric = topology.build(hardware)

    for src, dst in product(range(hardware.ranks), repeat=2):
        if fabric.hosts[src] != fabric.hosts[dst]:
            start, end = fabric.gate(src), fabric.gate(dst)
            route = fabric.route(src, dst)
            between = route[len(start.out) : len(route) - len(end.into)]
            assert route == (*start.out, *between, *end.into)
            if start.up or start.leaf != end.leaf:
                assert len(between) >= 2 if start.leaf != end.leaf else not between
                assert not between or (between[0] in start.up and between[-1] in end.down)


@EACH
def test_a_fabric_survives_pickling(topology: Topology) -> None:
    fabric = topology.build(UNLIKE)
    again = pickle.loads(pickle.dumps(fabric))

    assert names(again, 0, 20) == names(fabric, 0, 20)


@EACH
def test_a_switch_has_a_link_from_and_to_each_of_its_ranks(topology: Topology) -> None:
    fabric = topology.build(UNLIKE)
    switch = fabric.switch_for((6, 7, 12))

    assert switch == UNLIKE.ranks + 6
    assert names(fabric, 7, switch) == ["rank7 -> host1.domain0"]
    assert names(fabric, switch, 12) == ["host1.domain0 -> rank12"]
    assert fabric.switch_for((5, 8)) == UNLIKE.ranks + 5  # two groups at once do not meet
    assert fabric.switch_for((4, 5)) is None  # two hosts
    assert fabric.switch_for((21, 22)) is None  # PCIe


def test_links_of_a_graph_are_those_of_its_rows() -> None:
    fabric = OneSwitch().build(UNLIKE)
    assert fabric.links_of(point_to_point((0, 1, 5), (1, 20, 5), (3, 3, 5))) == {
        *fabric.route(0, 1),
        *fabric.route(1, 20),
    }
