"""How long each strategy takes where every rank has one full-duplex port, in units of port time, and the bound.

A tensor of E units; a row is (degrees, E, the bound, what each strategy takes). Two groups reach the bound with rings
of chunks or of cut pieces; three or more with unequal degrees do not. Unequal rings that share a port stall each
other: TP 8, 6 and 5 take 32 by equal chunks and 33 by cut pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest

from tests.plan.toy import cluster, device
from tests.strategies import WiredSite
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.families import build
from xsim.plan.bound import move_bound_ps, reduce_bound_ps
from xsim.plan.comm import CommPlan, Transfer
from xsim.plan.layout import Layout
from xsim.plan.reshard.best import Best
from xsim.plan.reshard.blockwise import Blockwise
from xsim.plan.reshard.lcm import Lcm
from xsim.plan.reshard.ntp import Ntp
from xsim.plan.reshard.paramserver import ParamServer
from xsim.plan.reshard.star import Star
from xsim.plan.reshard.tensorwise import Tensorwise
from xsim.spec.cluster import LinkSpec, NicSpec

UNIT = 840 * 10**5  # elements; all pieces of all rows are whole

MOVES: list[tuple[tuple[int, ...], int, float, Mapping[str, float]]] = [
    ((6, 4), 12, 3, {"lcm": 3, "alpacomm": 3, "hetauto": 13, "star": 3, "blockwise": 3}),
    ((8, 1), 8, 8, {"lcm": 8, "alpacomm": 8, "hetauto": 15, "star": 8, "paramserver": 8}),
    ((4, 4), 4, 1, {"lcm": 1, "alpacomm": 1, "hetauto": 1, "star": 1, "ntp": 1}),
]

SYNCS: list[tuple[tuple[int, ...], int, float, Mapping[str, float]]] = [
    ((3, 2), 12, 6, {"lcm": 6, "alpacomm": 6, "hetauto": 28, "blockwise": 8}),
    ((6, 4), 12, 3, {"lcm": 3, "alpacomm": 3, "hetauto": 14}),
    (
        (8, 4, 2),
        8,
        4,
        {"lcm": 16 / 3, "alpacomm": 16 / 3, "hetauto": 34 / 3, "blockwise": 16 / 3, "tensorwise": 16 / 3},
    ),
    ((3, 2, 1), 6, 6, {"lcm": 8, "alpacomm": 8, "hetauto": 16}),
    (
        (8, 8, 1),
        8,
        8,
        {"lcm": 32 / 3, "alpacomm": 32 / 3, "hetauto": 74 / 3, "blockwise": 32 / 3, "tensorwise": 32 / 3},
    ),
    ((4, 4, 4, 1), 4, 4, {"lcm": 6, "alpacomm": 6, "hetauto": 12}),
    ((8, 6, 5), 120, 480 / 19, {"lcm": 32, "alpacomm": 33, "hetauto": 370}),
]


def one_switch(ranks: int, latency_ps: int = 0) -> Fabric:
    """Each rank alone on its host behind a NIC of its own, which has the latency."""
    port = LinkSpec(bandwidth_bytes_per_s=1e11, latency_ps=0)
    hosts = cluster(*(1,) * ranks, devices=(replace(device(), pcie=port),) * ranks).hosts
    nic = NicSpec(bandwidth_bytes_per_s=5e10, latency_ps=latency_ps)
    return OneSwitch().build(replace(cluster(1), hosts=tuple(replace(host, nic=nic) for host in hosts)))


SITE = WiredSite(one_switch(19))
UNIT_PS = UNIT * 20


def layouts(degrees: tuple[int, ...], units: int) -> tuple[Layout, ...]:
    ends = accumulate(degrees, initial=0)
    return tuple(Layout.even(tuple(range(*pair)), units * UNIT) for pair in pairwise(ends))


TP6_TP4 = Layout.even(tuple(range(6)), 12 * UNIT), Layout.even((6, 7, 8, 9), 12 * UNIT)


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


@pytest.mark.parametrize(("degrees", "units", "expected", "_times"), SYNCS)
def test_star_reaches_the_bound(degrees: tuple[int, ...], units: int, expected: float, _times: object) -> None:
    """To the element on the busiest port; the first sums and the last results of 64 pieces have it to themselves."""
    plan = Star(pieces=64).reduce(layouts(degrees, units), SITE)

    assert busiest_port(plan) / UNIT == pytest.approx(expected, rel=1e-6)
    assert expected < SITE.price(plan) / UNIT_PS < 1.02 * expected


NTP = [((3, 2), 12, 8), ((6, 4), 12, 4), ((8, 1), 8, 15), ((4, 4), 4, 1), ((8, 6, 5), 120, 52)]


@pytest.mark.parametrize(("degrees", "units", "expected"), NTP)
def test_ntp_takes_what_its_busiest_core_moves(degrees: tuple[int, ...], units: int, expected: float) -> None:
    """TP 3 and 2: 2 of 12 come to each core of the three, 6 are summed by two, 2 go back: 8 in and 8 out."""
    plan = Ntp(pieces=64).reduce(layouts(degrees, units), SITE)

    assert busiest_port(plan) / UNIT == pytest.approx(expected, rel=1e-6)
    assert expected <= SITE.price(plan) / UNIT_PS < 1.02 * expected


def test_ntp_reshards_before_it_hands_over() -> None:
    """TP 6 to TP 4: rank 1 sends a unit to each of its neighbours, then each core sends 3; in pieces, at once."""
    plan = Ntp(pieces=1).move(*TP6_TP4, SITE)

    inside = [step for step in plan.steps if isinstance(step, Transfer) and step.dst < 6]
    assert {(step.src, step.dst) for step in inside} == {(1, 0), (1, 2), (4, 3), (4, 5)}
    assert {(s.src, s.dst) for s in plan.steps if isinstance(s, Transfer) and s.dst >= 6} == {
        (0, 6),
        (2, 7),
        (3, 8),
        (5, 9),
    }
    assert SITE.price(plan) / UNIT_PS == pytest.approx(2 + 3)
    assert SITE.price(Ntp(pieces=64).move(*TP6_TP4, SITE)) / UNIT_PS < 1.02 * 3


def test_one_server_is_sent_and_sends_all() -> None:
    plan = ParamServer(servers=1).reduce(layouts((4, 2, 2), 8), SITE)

    received = sum(len(step.span) for step in plan.steps if isinstance(step, Transfer) and step.dst == 0)
    assert received == busiest_port(plan) == (3 * 8 - 2) * UNIT


def test_servers_share_the_load() -> None:
    """Each of 12 ranks serves a unit of its 3: 2 pushes and 2 pulls come in, which is the least there can be."""
    plan = ParamServer(servers=12).reduce(layouts((4, 4, 4), 12), SITE)

    assert busiest_port(plan) / UNIT == 2 + 2


@pytest.mark.parametrize("calls", [1, 4, 13])
def test_each_call_of_an_operator_costs_its_latency(calls: int) -> None:
    """Two groups of four: the blocks have no rank in common, and a call is a ring of two rounds."""
    far = WiredSite(one_switch(8, latency_ps=10**6))
    wide = [Layout.even(ranks, 4 * 2 * 13 * 10**6) for ranks in ((0, 1, 2, 3), (4, 5, 6, 7))]

    apart, together = far.price(Tensorwise(calls=calls).reduce(wide, far)), far.price(Blockwise().reduce(wide, far))

    assert apart - together == (calls - 1) * 2 * 2 * 10**6


def test_blocks_that_do_not_fit_may_be_refused() -> None:
    with pytest.raises(SpecError, match=r"reshard\.indivisible = 'refuse': groups of 3, 2 ranks are synchronised"):
        Blockwise(indivisible="refuse").reduce(layouts((3, 2), 12), SITE)
    assert Blockwise(indivisible="refuse").reduce(layouts((8, 4, 2), 8), SITE).steps


@pytest.mark.parametrize(
    ("degrees", "latency_ps", "unit", "chosen"),
    [
        ((8, 4, 2), 0, UNIT, "star"),  # 4 against 16 / 3
        (
            (8, 4, 2),
            10**6,
            840,
            "paramserver",
        ),  # latency counts: to the server and back, a ring of three has four rounds
        ((4, 4), 0, UNIT, "alpacomm"),  # all alike: the first
    ],
)
def test_best_takes_the_fastest(degrees: tuple[int, ...], latency_ps: int, unit: int, chosen: str) -> None:
    site = WiredSite(one_switch(19, latency_ps))
    many = [Layout.even(layout.ranks, 8 * unit) for layout in layouts(degrees, 8)]
    times_ps = {name: site.price(site.reshard(name).reduce(many, site)) for name in site.reshards if name != "best"}

    plan = Best().reduce(many, site)

    assert plan.strategy == chosen
    assert site.price(plan) == times_ps[chosen] == min(times_ps.values())
    assert Best(among=("lcm",)).reduce(many, site).steps == Lcm().reduce(many, site).steps


def test_best_is_not_among_the_others() -> None:
    with pytest.raises(SpecError, match="best chooses among the others"):
        Best(among=("lcm", "best"))


def busiest_port(plan: CommPlan) -> int:
    """Elements that the busiest rank sends, or receives if that is more."""
    sent: Counter[tuple[str, int]] = Counter()
    for step in plan.steps:
        assert isinstance(step, Transfer)
        sent["out", step.src] += len(step.span)
        sent["in", step.dst] += len(step.span)
    return max(sent.values())
