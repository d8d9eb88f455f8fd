"""How long each strategy takes where every rank has one full-duplex port, in units of port time, and the bound.

A tensor of E units; a row is (degrees, E, the bound, what each strategy takes). Two groups reach the bound with rings
of chunks or of cut pieces; three or more with unequal degrees do not. Unequal rings that share a port stall each
other: TP 8, 6 and 5 take 32 by equal chunks and 33 by cut pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest

from tests.plan.toy import cluster, device
from tests.strategies import WiredSite
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.families import build
from xsim.plan.bound import move_bound_ps, reduce_bound_ps
from xsim.plan.layout import Layout
from xsim.spec.cluster import LinkSpec, NicSpec

UNIT = 840 * 10**5  # elements; all pieces of all rows are whole

MOVES: list[tuple[tuple[int, ...], int, float, Mapping[str, float]]] = [
    ((6, 4), 12, 3, {"lcm": 3, "alpacomm": 3, "hetauto": 13}),
    ((8, 1), 8, 8, {"lcm": 8, "alpacomm": 8, "hetauto": 15}),
    ((4, 4), 4, 1, {"lcm": 1, "alpacomm": 1, "hetauto": 1}),
]

SYNCS: list[tuple[tuple[int, ...], int, float, Mapping[str, float]]] = [
    ((3, 2), 12, 6, {"lcm": 6, "alpacomm": 6, "hetauto": 28}),
    ((6, 4), 12, 3, {"lcm": 3, "alpacomm": 3, "hetauto": 14}),
    ((8, 4, 2), 8, 4, {"lcm": 16 / 3, "alpacomm": 16 / 3, "hetauto": 34 / 3}),
    ((3, 2, 1), 6, 6, {"lcm": 8, "alpacomm": 8, "hetauto": 16}),
    ((8, 8, 1), 8, 8, {"lcm": 32 / 3, "alpacomm": 32 / 3, "hetauto": 74 / 3}),
    ((4, 4, 4, 1), 4, 4, {"lcm": 6, "alpacomm": 6, "hetauto": 12}),
    ((8, 6, 5), 120, 480 / 19, {"lcm": 32, "alpacomm": 33, "hetauto": 370}),
]


def one_switch(ranks: int) -> Fabric:
    """Each rank alone on its host behind a NIC of its own; no latency."""
    port = LinkSpec(bandwidth_bytes_per_s=1e11, latency_ps=0)
    hosts = cluster(*(1,) * ranks, devices=(replace(device(), pcie=port),) * ranks).hosts
    nic = NicSpec(bandwidth_bytes_per_s=5e10, latency_ps=0)
    return OneSwitch().build(replace(cluster(1), hosts=tuple(replace(host, nic=nic) for host in hosts)))


SITE = WiredSite(one_switch(19))
UNIT_PS = UNIT * 20


def layouts(degrees: tuple[int, ...], units: int) -> tuple[Layout, ...]:
    ends = accumulate(degrees, initial=0)
    return tuple(Layout.even(tuple(range(*pair)), units * UNIT) for pair in pairwise(ends))


def cases(
    table: list[tuple[tuple[int, ...], int, float, Mapping[str, float]]],
) -> list[tuple[tuple[int, ...], int, str, float]]:
    return [(degrees, units, name, time) for degrees, units, _, times in table for name, time in times.items()]


@pytest.mark.parametrize(("degrees", "units", "strategy", "expected"), cases(MOVES))
def test_moves(degrees: tuple[int, ...], units: int, strategy: str, expected: float) -> None:
    source, target = layouts(degrees, units)
    plan = build("reshard", {"name": strategy}).move(source, target, SITE)

    assert SITE.price(plan) / UNIT_PS == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("degrees", "units", "strategy", "expected"), cases(SYNCS))
def test_syncs(degrees: tuple[int, ...], units: int, strategy: str, expected: float) -> None:
    plan = build("reshard", {"name": strategy}).reduce(layouts(degrees, units), SITE)

    assert SITE.price(plan) / UNIT_PS == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("degrees", "units", "expected", "_times"), MOVES)
def test_the_bound_of_moves(degrees: tuple[int, ...], units: int, expected: float, _times: object) -> None:
    source, target = layouts(degrees, units)
    bound_ps = move_bound_ps(source, target, SITE.fabric)

    assert bound_ps / UNIT_PS == pytest.approx(expected)
    assert expected == max(Fraction(units, degree) for degree in degrees)


@pytest.mark.parametrize(("degrees", "units", "expected", "_times"), SYNCS)
def test_the_bound_of_syncs(degrees: tuple[int, ...], units: int, expected: float, _times: object) -> None:
    bound_ps = reduce_bound_ps(layouts(degrees, units), SITE.fabric)

    assert bound_ps / UNIT_PS == pytest.approx(expected)
    assert expected == pytest.approx(max(units / min(degrees), 2 * (len(degrees) - 1) * units / sum(degrees)))
