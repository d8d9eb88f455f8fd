"""The bound sees NICs that hosts share, racks, replicas and latency."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import GB_PER_S, US, cluster, with_trees
from tests.strategies import FABRIC, RANKS, WiredSite, disjoint_layouts, overlapping_layouts
from tests.topologies import TOPOLOGIES
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.clos import Clos
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.topology.rail import Rail
from xsim.plan.bound import Bounds, move_bound_ps, reduce_bound_ps
from xsim.plan.collective.nvls import Nvls
from xsim.plan.comm import Collective
from xsim.plan.layout import Layout
from xsim.plan.reshard.lcm import Lcm
from xsim.sim.network.flow import Flow

SIZE = 64 * 10**9
LATENCY_PS = 4 * US  # PCIe out, NIC out, NIC in, PCIe in


def hosts_of_four(nics: int | None) -> Fabric:
    hardware = cluster(4, 4)
    hosts = tuple(replace(host, nic=replace(host.nic, per_host=nics)) for host in hardware.hosts)
    return OneSwitch().build(replace(hardware, hosts=hosts))


def seconds(size: int, gb_per_s: float) -> float:
    return size / (gb_per_s * GB_PER_S)


@pytest.mark.parametrize(("nics", "gb_per_s"), [(None, 4 * 32), (2, 2 * 50), (1, 50)])
def test_all_that_leaves_a_host_shares_its_nics(nics: int | None, gb_per_s: float) -> None:
    source, target = Layout.even((0, 1, 2, 3), SIZE), Layout.even((4, 5, 6, 7), SIZE)
    expected = pytest.approx(seconds(SIZE, gb_per_s) * 1e12 + LATENCY_PS)

    assert move_bound_ps(source, target, hosts_of_four(nics)) == expected
    assert reduce_bound_ps((source, target), hosts_of_four(nics)) == expected


def test_replicas_come_over_once_and_are_copied_inside() -> None:
    source, target = (Layout.even(ranks, SIZE, replicated=True) for ranks in ((0, 1, 2, 3), (4, 5, 6, 7)))

    over = seconds(SIZE, 50) * 1e12 + LATENCY_PS
    assert move_bound_ps(source, target, hosts_of_four(1)) == pytest.approx(over)
    assert move_bound_ps(source, source, hosts_of_four(1)) == 0


def test_each_receives_what_it_lacks() -> None:
    """All of a replica comes into each rank, over scale-up and PCIe at once; a quarter is there already."""
    source, target = Layout.even((0, 1, 2, 3), SIZE), Layout.even((0, 1, 2, 3), SIZE, replicated=True)

    found = move_bound_ps(source, target, hosts_of_four(None))

    assert found == pytest.approx(seconds(SIZE * 3 // 4, 300) * 1e12 + 2 * US)


def test_a_rack_is_cut_at_its_uplinks() -> None:
    hardware = cluster(4, 4, 4, 4)
    hardware = replace(hardware, scale_out=replace(hardware.scale_out, hosts_per_tor=2, spines=1))
    narrow = Clos(oversubscription=8.0).build(hardware)
    source, target = Layout.even(tuple(range(8)), SIZE), Layout.even(tuple(range(8, 16)), SIZE)

    assert move_bound_ps(source, target, narrow) == pytest.approx(
        seconds(SIZE, 8 * 50 / 8) * 1e12 + LATENCY_PS + 2 * US
    )


def test_three_hosts_send_four_messages_between_them() -> None:
    """Of each element the sum needs 2 (3 - 1) crossings; three NICs carry them."""
    hardware = cluster(2, 2, 2)
    hosts = tuple(replace(host, nic=replace(host.nic, per_host=1)) for host in hardware.hosts)
    fabric = OneSwitch().build(replace(hardware, hosts=hosts))
    layouts = [Layout.even((2 * i, 2 * i + 1), SIZE) for i in range(3)]

    expected = seconds(4 * SIZE, 3 * 50) * 1e12 + LATENCY_PS
    assert reduce_bound_ps(layouts, fabric) == pytest.approx(expected)


def test_a_host_without_scale_up_has_one_port_per_device() -> None:
    """What comes from the same host and from others shares the PCIe link of each rank."""
    hardware = cluster(2, 1)
    fabric = OneSwitch().build(replace(hardware, hosts=tuple(replace(x, scale_up="pcie") for x in hardware.hosts)))

    found = move_bound_ps(Layout.even((1, 2), SIZE), Layout.even((0,), SIZE), fabric)

    assert found == pytest.approx(seconds(SIZE, 32) * 1e12 + 2 * US)


@pytest.mark.parametrize(
    ("sources", "targets", "gb_per_s", "latency_us"),
    [
        ((0,), (1,), 32, 2),  # under one switch: its port
        ((0, 1), (2, 3), 16, 4),  # the uplink of a pair
        ((0, 1, 2, 3), (4, 5, 6, 7), 4, 6),  # that of a four
        ((0, 1), (2, 3, 4, 5, 6, 7), 16, 4),  # whatever way all of it goes
        ((1, 3, 5, 7), (0, 2, 4, 6), 4 * 32, 2),  # each may have it from the next
    ],
)
def test_what_leaves_a_block_shares_its_uplink(
    sources: tuple[int, ...], targets: tuple[int, ...], gb_per_s: float, latency_us: int
) -> None:
    fabric = OneSwitch().build(with_trees(cluster(8)))

    found = move_bound_ps(Layout.even(sources, SIZE), Layout.even(targets, SIZE), fabric)

    assert found == pytest.approx(seconds(SIZE, gb_per_s) * 1e12 + latency_us * US)


def test_a_nic_of_two_blocks_is_above_their_uplinks() -> None:
    hardware = with_trees(cluster(4, 4))
    hosts = tuple(replace(host, nic=replace(host.nic, per_host=1)) for host in hardware.hosts)
    fabric = OneSwitch().build(replace(hardware, hosts=hosts))
    source, target = Layout.even((0, 1, 2, 3), SIZE), Layout.even((4, 5, 6, 7), SIZE)

    assert move_bound_ps(source, target, fabric) == pytest.approx(seconds(SIZE, 2 * 16) * 1e12 + LATENCY_PS + 2 * US)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_switch_that_sums_is_not_faster_than_the_bound(count: int) -> None:
    """Each port carries its rank's own copy to the switch, and the sum from it: V / B, and not 2 (k - 1) / k of it."""
    site = WiredSite(OneSwitch().build(cluster(count)))
    ranks = tuple(range(count))

    bound_ps = reduce_bound_ps([Layout.even((rank,), SIZE) for rank in ranks], site.fabric)
    graph = Nvls().expand(Collective("all_reduce", ranks, range(SIZE)), site)

    assert bound_ps <= Flow().open(site.fabric, 0).solo(graph)
    assert bound_ps == pytest.approx(seconds(SIZE, 300) * 1e12, rel=1e-2)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_halves_of_a_sum_on_one_switch(count: int) -> None:
    """Each of k lone ranks lacks (k - 1) / k of what the others have of its shard, and of what it needs of theirs."""
    size = SIZE // count * count
    fabric = OneSwitch().build(cluster(*(1,) * count))
    layouts = [Layout.even((rank,), size) for rank in range(count)]
    bounds, shards = Bounds(fabric, 1), Layout.even(tuple(range(count)), size)

    expected = pytest.approx(seconds(size * (count - 1) // count, 32) * 1e12 + LATENCY_PS)
    assert bounds.reduce_scatter_ps(layouts, shards) == expected
    assert bounds.gather_ps(shards, layouts) == expected


def test_a_half_has_its_largest_shard_at_the_narrowest_port() -> None:
    """All of the tensor on one of two ranks: the other sends everything, and gets everything back."""
    fabric = OneSwitch().build(cluster(1, 1))
    layouts, shards = [Layout.even((0,), SIZE), Layout.even((1,), SIZE)], Layout((0, 1), (0, SIZE, SIZE))

    expected = pytest.approx(seconds(SIZE, 32) * 1e12 + LATENCY_PS)
    assert Bounds(fabric, 1).reduce_scatter_ps(layouts, shards) == expected
    assert Bounds(fabric, 1).gather_ps(shards, layouts) == expected


def test_relays_lend_a_rank_the_nics_of_its_host() -> None:
    """Eight NICs carry what one rank sends to eight; each of these receives over its own PCIe link."""
    fabric = Rail(pxn=True).build(cluster(8, 8))
    source, target = Layout.even((0,), SIZE), Layout.even(tuple(range(8, 16)), SIZE)

    bound_ps = move_bound_ps(source, target, fabric)

    assert bound_ps == pytest.approx(seconds(SIZE, 8 * 32) * 1e12 + 2 * US)
    assert bound_ps <= WiredSite(fabric).price(Lcm().move(source, target, WiredSite(fabric)))


def test_wires_that_promise_nothing_bound_nothing_between_hosts() -> None:
    """The stand-in has one link for all, four ranks a host, and no gates."""
    assert move_bound_ps(Layout.even((0,), SIZE), Layout.even((4, 8), SIZE), FABRIC) == 0
    assert move_bound_ps(Layout.even((0,), SIZE), Layout.even((1, 2), SIZE), FABRIC) == SIZE * 10**12


HOSTS = (4, 4, 4, 4, 8, 8, 1, 1, 1, 5)
ALIKE = {name: each.build(cluster(*HOSTS)) for name, each in TOPOLOGIES.items()} | {
    "trees": OneSwitch().build(with_trees(cluster(*HOSTS))),
    "relayed": Rail(pxn=True).build(cluster(*HOSTS)),
}
assert sum(HOSTS) == RANKS
KNOWN = {name: Bounds(fabric, 2) for name, fabric in ALIKE.items()}


@given(many=disjoint_layouts(2, 4), topology=st.sampled_from(sorted(ALIKE)))
def test_equal_shapes_have_equal_bounds(many: tuple[Layout, ...], topology: str) -> None:
    """What an earlier example has left behind, on other ranks perhaps, is what would be found anew."""
    fabric, known = ALIKE[topology], KNOWN[topology]

    assert known.move_ps(many[0], many[1]) == move_bound_ps(many[0], many[1], fabric, 2)
    assert known.reduce_ps(many) == reduce_bound_ps(many, fabric, 2)


@given(pair=overlapping_layouts(), topology=st.sampled_from(sorted(ALIKE)))
def test_equal_shapes_have_equal_bounds_where_a_rank_is_in_both(pair: tuple[Layout, Layout], topology: str) -> None:
    assert KNOWN[topology].move_ps(*pair) == move_bound_ps(*pair, ALIKE[topology], 2)


@pytest.mark.parametrize(("here", "there"), [((0, 1, 4, 5), (8, 9, 12, 13)), ((0, 1, 2, 3), (15, 14, 13, 12))])
def test_what_is_alike_is_worked_out_once(here: tuple[int, ...], there: tuple[int, ...]) -> None:
    bounds = Bounds(ALIKE["one_switch"], 2)
    first = bounds.move_ps(Layout.even(here[:2], SIZE), Layout.even(here[2:], SIZE))
    bounds._fabric = None  # type: ignore[assignment]  # nothing can be worked out any more

    assert bounds.move_ps(Layout.even(there[:2], SIZE), Layout.even(there[2:], SIZE)) == first
