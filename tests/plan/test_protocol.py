"""Protocols: a time to launch, a delay in every step, and bytes on the wire; without one, nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_collective_times import BOTH, PORT, hosts_of
from tests.strategies import SITE, StandInSite, collectives
from xsim.plan.collective.nvls import Nvls
from xsim.plan.collective.ring import Ring
from xsim.plan.collective.tree import Tree
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.judge import verify_collective
from xsim.plan.protocol import FILL_STEPS, ProtocolChoice, row_costs, under, with_costs
from xsim.sim.contracts import NetworkBackend
from xsim.spec.protocols import PROTOCOLS, Protocol, generation

HOPPER = generation("h100_80")
EACH = pytest.mark.parametrize("protocol", PROTOCOLS)


def about(expected: float) -> object:
    return pytest.approx(expected, rel=1e-4)


@given(collective=collectives(), protocol=st.sampled_from(("none", *PROTOCOLS)), channels=st.integers(1, 3))
def test_whatever_the_protocol_the_result_is_right(
    collective: Collective, protocol: ProtocolChoice, channels: int
) -> None:
    for algorithm in (Ring(channels=channels, protocol=protocol), Tree(pieces=channels, protocol=protocol)):
        verify_collective(algorithm.expand(collective, SITE), collective)


@given(collectives())
def test_without_a_protocol_wires_are_ideal(collective: Collective) -> None:
    graph = Ring().expand(collective, SITE)

    assert under("none", graph, SITE) is graph
    assert not graph.delay_ps.any()
    assert (graph.wire_ppm == 10**6).all()


@BOTH
@EACH
@pytest.mark.parametrize(("kind", "halves"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize("count", [2, 5, 8])
def test_a_ring_in_a_host(
    network: NetworkBackend, protocol: Protocol, kind: CollectiveKind, halves: int, count: int
) -> None:
    fabric, size, rounds = hosts_of(count), 8 * 5 * 10**6, halves * (count - 1)
    collective = Collective(kind, tuple(range(count)), range(size))
    took_ps = network.open(fabric, 0).solo(Ring(protocol=protocol).expand(collective, StandInSite(fabric)))

    cost = HOPPER.cost("scale_up", protocol)
    bandwidth, latency_ps = PORT
    sent_ps = (rounds + FILL_STEPS) * size / count / cost.share / bandwidth * 1e12
    assert took_ps == about(HOPPER.base_ps + rounds * (2 * latency_ps + cost.delay_ps) + sent_ps)


@EACH
def test_each_row_pays_for_the_slowest_links_on_its_way(protocol: Protocol) -> None:
    fabric = hosts_of(2, 2)
    graph = Ring().expand(Collective("all_reduce", (0, 1, 2, 3), range(400)), StandInSite(fabric))
    (costs,) = row_costs(graph, StandInSite(fabric), (protocol,))

    inside, between = HOPPER.cost("scale_up", protocol), HOPPER.cost("network", protocol)
    crosses = np.array(fabric.hosts)[graph.src] != np.array(fabric.hosts)[graph.dst]
    assert crosses.tolist() == [False, True, False, True]
    assert costs.delay_ps.tolist() == [inside.delay_ps, between.delay_ps] * 2
    assert costs.wire_ppm[1] == about(1e6 / between.share)
    assert costs.wire_ppm[0] == about((6 + FILL_STEPS) / 6 * 1e6 / inside.share)


def test_only_transfers_with_a_switch_have_the_costs_of_sums_in_it() -> None:
    """5 + 2 ranks: those of the second host are too few for their switch, and a ring."""
    fabric = hosts_of(5, 2)
    graph = Nvls().expand(Collective("all_reduce", tuple(range(7)), range(700)), StandInSite(fabric))
    in_switch, simple = row_costs(graph, StandInSite(fabric), ("in_switch", "simple"))
    summed = (graph.src >= 7) | (graph.dst >= 7)

    assert HOPPER.in_switch is not None
    assert set(in_switch.delay_ps[summed]) == {HOPPER.in_switch.delay_ps}
    assert in_switch.delay_ps[~summed].tolist() == simple.delay_ps[~summed].tolist()
    assert in_switch.wire_ppm[~summed].tolist() == simple.wire_ppm[~summed].tolist()
    assert HOPPER.scale_up.simple.delay_ps in in_switch.delay_ps


@EACH
def test_over_pcie_copies_hide_behind_the_wire(protocol: Protocol) -> None:
    fabric = hosts_of(4, scale_up="pcie")
    graph = Ring().expand(Collective("all_reduce", (0, 1, 2, 3), range(400)), StandInSite(fabric))
    (costs,) = row_costs(graph, StandInSite(fabric), (protocol,))

    pcie = HOPPER.cost("pcie", protocol)
    assert costs.delay_ps.tolist() == [pcie.delay_ps] * 4
    assert costs.wire_ppm[0] == about(1e6 / pcie.share)


@given(collectives())
def test_a_launch_comes_before_everything_and_moves_nothing(collective: Collective) -> None:
    graph = Ring().expand(collective, SITE)
    if not graph.rows:
        return
    (costs,) = row_costs(graph, SITE, ("ll",))
    later = with_costs(graph, costs)
    count = len(graph.ranks)

    assert later.rows == graph.rows + count
    assert later.src[:count].tolist() == later.dst[:count].tolist() == graph.ranks.tolist()
    assert (later.delay_ps[:count] == HOPPER.base_ps).all()
    assert later.sent_bytes()[count:].tolist() == graph.sent_bytes().tolist()
    assert not later.sent_bytes()[:count].any()
    assert all(len(later.predecessors(row)) for row in range(count, later.rows))
