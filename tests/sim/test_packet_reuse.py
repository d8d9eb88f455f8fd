"""Collectives that are alike are simulated once, and no number changes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import Timetable, all_reduce, point_to_point, same_stats, star, timetables
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.network.packet import Packet
from xsim.sim.packets import alone
from xsim.sim.packets.instances import Instances


@given(timetable=timetables(), times=st.integers(1, 3))
def test_reuse_changes_no_number(timetable: Timetable, times: int) -> None:
    networks = [Packet(exact=exact).open(timetable.fabric, 0) for exact in (False, True)]
    found = [[network.solo(graph) for graph in timetable.graphs] for network in networks]
    for network in networks:
        for graph in timetable.graphs:
            network.repeat(graph, times)

    assert found[0] == found[1]
    assert same_stats(networks[0].stats(), networks[1].stats())


@pytest.mark.parametrize(("exact", "expected"), [(False, 1), (True, 3)])
def test_alike_parts_are_simulated_once(monkeypatch: pytest.MonkeyPatch, exact: bool, expected: int) -> None:
    simulated: list[Any] = []

    def counted(*args: Any) -> Instances:
        simulated.append(args)
        return Instances(*args)

    monkeypatch.setattr(alone, "Instances", counted)
    network = Packet(exact=exact).open(star(6), 0)
    for ranks in ((0, 1), (2, 3), (5, 4)):
        network.repeat(all_reduce(ranks, 100_000), 2)
    stats = network.stats()

    assert len(simulated) == expected
    assert np.unique(stats.link_bytes).tolist() == [2 * 100_000]


def test_parts_that_differ_are_told_apart() -> None:
    """By the size, by who shares a link, by which way round."""
    network = Packet().open(star(6), 0)
    sends = [((0, 1, 50_000), (2, 3, 50_000)), ((0, 1, 50_000), (2, 1, 50_000)), ((0, 1, 50_000), (2, 3, 60_000))]

    apart, shared, longer = [network.solo(point_to_point(*pair)) for pair in sends]
    assert apart < longer < shared


def test_where_chance_has_a_say_each_has_its_own_run() -> None:
    """Two senders at one receiver are marked by dice, which differ from port to port."""
    incasts = [
        point_to_point((0, 1, 2_000_000), (2, 1, 2_000_000)),
        point_to_point((3, 4, 2_000_000), (5, 4, 2_000_000)),
    ]
    found = [
        [network.solo(graph) for graph in incasts]
        for network in (Packet(exact=exact, congestion=Dcqcn()).open(star(6), 0) for exact in (False, True))
    ]

    assert found[0] == found[1]
    assert found[1][0] != found[1][1], "the dice differ, or this shows nothing"
