"""Topologies: which links a path has, how wide they are, and how long it takes."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from itertools import groupby, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import load
from tests.sim.traffic import point_to_point
from tests.topologies import TOPOLOGIES
from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.scale_out import nics_of
from xsim.fabric.topology.clos import Clos
from xsim.fabric.topology.dragonfly import Dragonfly
from xsim.fabric.topology.fat_tree import FatTree
from xsim.fabric.topology.jellyfish import Jellyfish
from xsim.fabric.topology.multi_plane import MultiPlane
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.topology.rail import Rail
from xsim.fabric.topology.torus import Torus
from xsim.fabric.topology.two_datacenters import TwoDatacenters
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    DomainSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    PcieLevel,
    ScaleOutSpec,
    ScaleUpKind,
)

EACH = pytest.mark.parametrize("topology", [pytest.param(each, id=name) for name, each in TOPOLOGIES.items()])
VARIANTS = pytest.mark.parametrize(
    "topology",
    [
        *TOPOLOGIES.values(),
        Rail(pxn=True),
        FatTree(k=8, pod_aggregations=3, aggregation_cores=1, oversubscription=2),
        Torus(sizes=(2, 0, 2)),
        Dragonfly(nics=1, routers=3, global_links=3),
        Dragonfly(nics=1, routers=2, global_links=6, routing="valiant"),
        Jellyfish(seed=3),
        TwoDatacenters(hosts=1),
        MultiPlane(planes=1),
    ],
    ids=str,
)


def link(bandwidth: float, latency_ps: int) -> LinkSpec:
    return LinkSpec(bandwidth_bytes_per_s=bandwidth, latency_ps=latency_ps)


def device(scale_up: LinkSpec | None = None) -> DeviceSpec:
    return DeviceSpec(
        name="toy",
        peak_flops_per_s=(("bf16", 1e14),),
        memory_bytes=10**9,
        memory_bandwidth_bytes_per_s=1e12,
        pcie=link(32e9, 50),
        efficiency=EfficiencyCurve(matmul=1, attention=1, memory=1, half_flops=0),
        power_w=1,
        idle_power_w=1,
        price_usd=1,
        price_usd_per_hour=1,
        scale_up=scale_up,
    )


NVLINK = device(link(300e9, 701))
SLOWER = device(link(200e9, 500))
NIC = NicSpec(bandwidth_bytes_per_s=25e9, latency_ps=1000)


UPLINKS = {
    2: link(20e9, 7),
    3: link(18e9, 9),
    4: link(10e9, 11),
    6: link(8e9, 13),
    8: link(7e9, 15),
}  # by devices under it


def host(
    *slots: DeviceSlot,
    nic: NicSpec = NIC,
    scale_up: ScaleUpKind = "nvswitch",
    count: int = 1,
    tree: tuple[int, ...] = (),
) -> HostSpec:
    levels = tuple(PcieLevel(devices=devices, uplink=UPLINKS[devices]) for devices in tree)
    return HostSpec(devices=slots, nic=nic, scale_up=scale_up, count=count, pcie_tree=levels)


def cluster(*hosts: HostSpec, per_tor: int = 1, spines: int = 2) -> ClusterSpec:
    out = ScaleOutSpec(uplink=link(50e9, 3000), hosts_per_tor=per_tor, spines=spines)
    return ClusterSpec(name="toy", hosts=hosts, scale_out=out)


def names(fabric: Fabric, src: int, dst: int) -> list[str]:
    return [fabric.links[number].name for number in fabric.route(src, dst)]


UNLIKE = cluster(
    host(DeviceSlot(device=NVLINK, count=5)),
    host(DeviceSlot(device=NVLINK, count=4), DeviceSlot(device=SLOWER, count=4), count=2),
    host(DeviceSlot(device=device(), count=4), nic=NicSpec(bandwidth_bytes_per_s=1e9, latency_ps=9, per_host=3),
         scale_up="pcie"),
    host(DeviceSlot(device=device(), count=8), nic=replace(NIC, per_host=2), scale_up="pcie", tree=(2, 4)),
    per_tor=2,
)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    """Two to four hosts of one to five devices, wired inside and out in any way."""
    hosts = [
        host(
            DeviceSlot(device=NVLINK, count=draw(st.integers(1, 4))),
            *(
                (DeviceSlot(device=SLOWER, domain=draw(st.sampled_from(("own", "0"))), count=1),)
                * draw(st.integers(0, 1))
            ),
            scale_up=draw(st.sampled_from(("nvswitch", "full_mesh", "pcie"))),
            nic=replace(NIC, per_host=draw(st.sampled_from((None, 1)))),
        )
        for _ in range(draw(st.integers(2, 4)))
    ]
    return cluster(*hosts, per_tor=draw(st.integers(1, 2)))


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


def test_a_scale_up_path_passes_both_ports_and_the_slower_is_the_limit() -> None:
    fabric = OneSwitch().build(UNLIKE)

    assert fabric.path_latency_ps(0, 1) == 2 * 701
    assert fabric.path_latency_ps(5, 9) == fabric.path_latency_ps(9, 5) == 701 + 500
    assert fabric.path_bandwidth_bytes_per_s(5, 9) == 200e9


def test_a_full_mesh_divides_a_port_over_its_peers() -> None:
    fabric = OneSwitch().build(cluster(host(DeviceSlot(device=NVLINK, count=4), scale_up="full_mesh")))

    assert names(fabric, 2, 0) == ["rank2 -> rank0"]
    assert fabric.path_bandwidth_bytes_per_s(2, 0) == 100e9
    assert fabric.path_latency_ps(2, 0) == 2 * 701
    assert len({fabric.route(src, dst) for src in range(4) for dst in range(4) if src != dst}) == 12


def test_domains_of_one_host_and_lone_devices_talk_over_pcie() -> None:
    slots = (
        DeviceSlot(device=NVLINK, count=2, domain="left"),
        DeviceSlot(device=NVLINK, count=2, domain="right"),
        DeviceSlot(device=device(), count=1, domain="alone"),
    )
    fabric = OneSwitch().build(cluster(host(*slots)))

    assert names(fabric, 0, 1) == ["rank0 -> host0.domainleft", "host0.domainleft -> rank1"]
    assert names(fabric, 1, 2) == ["rank1 -> host0.pcie", "host0.pcie -> rank2"]
    assert names(fabric, 4, 0) == ["rank4 -> host0.pcie", "host0.pcie -> rank0"]
    assert fabric.path_latency_ps(1, 2) == 2 * 50


def test_each_domain_of_a_host_has_its_own_fabric() -> None:
    slots = tuple(DeviceSlot(device=NVLINK, count=3, domain=name) for name in ("switch", "mesh", "tree"))
    kinds = (DomainSpec(name="mesh", scale_up="full_mesh"), DomainSpec(name="tree", scale_up="pcie"))
    fabric = OneSwitch().build(cluster(replace(host(*slots), domains=kinds)))

    assert names(fabric, 0, 1) == ["rank0 -> host0.domainswitch", "host0.domainswitch -> rank1"]
    assert names(fabric, 3, 4) == ["rank3 -> rank4"]
    assert names(fabric, 6, 7) == ["rank6 -> host0.pcie", "host0.pcie -> rank7"]


def of_eight(per_host: int | None, *tree: int) -> Fabric:
    """Two hosts of 8 devices with a PCIe tree."""
    nic = replace(NIC, per_host=per_host)
    return OneSwitch().build(
        cluster(host(DeviceSlot(device=device(), count=8), nic=nic, scale_up="pcie", tree=tree, count=2))
    )


def test_a_path_goes_up_to_the_smallest_block_with_both_and_down() -> None:
    fabric = of_eight(None, 2, 4)

    assert names(fabric, 0, 1) == ["rank0 -> host0.pcie0.0", "host0.pcie0.0 -> rank1"]
    assert names(fabric, 1, 2) == [
        "rank1 -> host0.pcie0.0",
        "host0.pcie0.0 -> host0.pcie1.0",
        "host0.pcie1.0 -> host0.pcie0.1",
        "host0.pcie0.1 -> rank2",
    ]
    assert names(fabric, 7, 3) == [
        "rank7 -> host0.pcie0.3",
        "host0.pcie0.3 -> host0.pcie1.1",
        "host0.pcie1.1 -> host0.pcie",
        "host0.pcie -> host0.pcie1.0",
        "host0.pcie1.0 -> host0.pcie0.1",
        "host0.pcie0.1 -> rank3",
    ]
    assert [fabric.path_bandwidth_bytes_per_s(0, dst) for dst in (1, 2, 4)] == [32e9, 20e9, 10e9]
    assert [fabric.path_latency_ps(0, dst) for dst in (1, 2, 4)] == [2 * 50, 2 * (50 + 7), 2 * (50 + 7 + 11)]


@pytest.mark.parametrize(
    ("per_host", "above"),
    [
        (None, []),  # beside each device
        (4, []),  # of a pair: under its switch
        (2, ["host0.pcie0.3 -> host0.pcie1.1"]),  # of a four
        (1, ["host0.pcie0.3 -> host0.pcie1.1", "host0.pcie1.1 -> host0.pcie"]),  # of the host: at the root
    ],
)
def test_a_nic_hangs_in_the_smallest_block_with_all_that_share_it(per_host: int | None, above: list[str]) -> None:
    fabric = of_eight(per_host, 2, 4)
    nic = f"host0.nic{(per_host or 8) - 1} -> switch"
    expected = ["rank7 -> host0.pcie0.3", *above, nic]

    assert names(fabric, 7, 8)[: len(expected)] == expected
    back = [" -> ".join(name.split(" -> ")[::-1]) for name in reversed(expected)]
    assert names(fabric, 8, 7)[-len(expected) :] == back


@given(
    tree=st.sampled_from(((), (2,), (3,), (4,), (6,), (2, 4), (2, 6), (3, 6))),
    per_host=st.none() | st.integers(1, 12),
    data=st.data(),
)
def test_an_uplink_is_on_the_way_of_who_leaves_its_block(
    tree: tuple[int, ...], per_host: int | None, data: st.DataObject
) -> None:
    spec = host(
        DeviceSlot(device=device(), count=12), nic=replace(NIC, per_host=per_host), scale_up="pcie", tree=tree, count=2
    )
    fabric = OneSwitch().build(cluster(spec))
    src, dst = data.draw(st.sampled_from([pair for pair in product(range(12), repeat=2) if pair[0] != pair[1]]))
    sharing = [device for device, nic in enumerate(nics_of(spec)) if nic == nics_of(spec)[src]]
    climbs = [depth for depth, devices in enumerate(tree) if src // devices != dst // devices]
    leaves = [depth for depth, devices in enumerate(tree) if len({device // devices for device in sharing}) > 1]

    there, back, outside = names(fabric, src, dst), names(fabric, dst, src), names(fabric, src, 12)
    assert len(there) == len(back) == 2 + 2 * len(climbs)
    for place, depth in enumerate(climbs, start=1):
        block = f"host0.pcie{depth}.{src // tree[depth]}"
        assert there[place].startswith(f"{block} -> ")
        assert back[-1 - place].endswith(f" -> {block}")
    assert [name.split(" -> ")[0] for name in outside[1 : 1 + len(leaves)]] == [
        f"host0.pcie{depth}.{src // tree[depth]}" for depth in leaves
    ]
    assert outside[1 + len(leaves)].startswith("host0.nic")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ((3,), r"pcie_tree\[0\].devices = 3: it must divide the host's 8 devices into two blocks or more; "
               "choose one of 2, 4"),
        ((8,), r"pcie_tree\[0\].devices = 8: it must divide .*; choose one of 2, 4"),
        ((2, 6), r"pcie_tree\[1\].devices = 6: it must be whole blocks of 2 and divide the host's 8 devices into two "
                 "blocks or more; choose one of 4"),
        ((4, 2), r"pcie_tree\[1\].devices = 2: it must be whole blocks of 4 and divide .*; leave the level out"),
    ],
)  # fmt: skip
def test_a_tree_of_other_blocks_is_refused(tree: tuple[int, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        of_eight(None, *tree)


def test_devices_share_nics_in_contiguous_blocks() -> None:
    nic = NicSpec(bandwidth_bytes_per_s=25e9, latency_ps=1000, per_host=2)
    fabric = OneSwitch().build(cluster(host(DeviceSlot(device=NVLINK, count=5), nic=nic, count=2)))

    used = [names(fabric, rank, 9)[1] for rank in range(5)]
    assert used == ["host0.nic0 -> switch"] * 3 + ["host0.nic1 -> switch"] * 2


def test_clos_crosses_a_spine_only_between_tors() -> None:
    spec = cluster(host(DeviceSlot(device=NVLINK, count=2), count=4), per_tor=2)
    fabric = Clos().build(spec)

    assert names(fabric, 0, 2) == ["rank0 -> host0.pcie", "host0.nic0 -> tor0", "tor0 -> host1.nic0",
                                   "host1.pcie -> rank2"]  # fmt: skip
    spine = names(fabric, 0, 4)[2].removeprefix("tor0 -> ")
    assert names(fabric, 0, 4)[2:4] == [f"tor0 -> {spine}", f"{spine} -> tor1"]
    assert fabric.path_latency_ps(0, 2) == 2 * 50 + 2 * 1000
    assert fabric.path_latency_ps(0, 4) == 2 * 50 + 2 * 1000 + 2 * 3000


def test_oversubscription_sets_the_uplinks_by_the_nics_below() -> None:
    fabric = Clos(oversubscription=4).build(
        cluster(host(DeviceSlot(device=NVLINK, count=8)), host(DeviceSlot(device=NVLINK, count=2)), spines=5)
    )

    widths = {
        each.name: float(width)
        for each, width in zip(fabric.links, fabric.bandwidth_bytes_per_s, strict=True)
        if each.kind == "spine"
    }
    assert widths["tor0 -> spine3"] == widths["spine3 -> tor0"] == 8 * 25e9 / 4 / 5
    assert widths["tor1 -> spine0"] == 2 * 25e9 / 4 / 5


def test_an_impossible_oversubscription_is_refused() -> None:
    with pytest.raises(SpecError, match=r"oversubscription = 0: it is not within 0\.001 to 1e6"):
        Clos(oversubscription=0)


def test_a_rail_joins_the_same_nic_of_each_host() -> None:
    spec = cluster(
        host(DeviceSlot(device=NVLINK, count=5)), host(DeviceSlot(device=NVLINK, count=8), count=3), per_tor=2
    )
    fabric = Rail().build(spec)

    assert names(fabric, 1, 6)[1:3] == ["host0.nic1 -> segment0.rail1", "segment0.rail1 -> host1.nic1"]
    assert "spine" in names(fabric, 1, 7)[2]  # another rail
    assert names(fabric, 12, 20)[1::3] == ["host1.nic7 -> segment0.rail7", "segment1.rail7 -> host2.nic7"]


def test_a_relay_is_on_the_rail_of_the_target() -> None:
    spec = cluster(host(DeviceSlot(device=NVLINK, count=4), count=4), per_tor=2)
    straight, relayed = Rail().build(spec), Rail(pxn=True).build(spec)

    assert names(relayed, 1, 7) == [
        "rank1 -> host0.domain0",
        "host0.domain0 -> rank3",
        "rank3 -> host0.pcie",
        "host0.nic3 -> segment0.rail3",
        "segment0.rail3 -> host1.nic3",
        "host1.pcie -> rank7",
    ]
    assert names(relayed, 1, 15) == [*names(relayed, 1, 3), *names(straight, 3, 15)]  # another segment: over its spine
    for dst in (0, 3, 5, 9):  # of its own host, or of its own rail
        assert relayed.route(1, dst) == straight.route(1, dst)


def test_ranks_of_one_nic_take_turns_as_relays() -> None:
    nic = NicSpec(bandwidth_bytes_per_s=25e9, latency_ps=1000, per_host=2)
    fabric = Rail(pxn=True).build(cluster(host(DeviceSlot(device=NVLINK, count=8), nic=nic, count=2), per_tor=2))

    assert [names(fabric, 0, dst)[2] for dst in (12, 13, 14, 15)] == [
        f"rank{relay} -> host0.pcie" for relay in (4, 5, 6, 7)
    ]


def test_without_a_way_to_a_relay_the_path_is_straight() -> None:
    """PCIe hosts, a rail that the own host lacks, and a relay in another scale-up domain."""
    pcie = host(DeviceSlot(device=device(), count=4), scale_up="pcie", count=2)
    domains = (DeviceSlot(device=NVLINK, count=2, domain="left"), DeviceSlot(device=NVLINK, count=2, domain="right"))
    for spec, pairs in (
        (cluster(pcie, per_tor=2), [(0, 5), (3, 4)]),
        (
            cluster(host(DeviceSlot(device=NVLINK, count=2)), host(DeviceSlot(device=NVLINK, count=4)), per_tor=2),
            [(0, 5)],
        ),
        (cluster(host(*domains, count=2), per_tor=2), [(0, 6), (3, 5)]),
    ):
        straight, relayed = Rail().build(spec), Rail(pxn=True).build(spec)
        for pair in pairs:
            assert relayed.route(*pair) == straight.route(*pair)


def test_a_fabric_with_relays_survives_pickling() -> None:
    fabric = Rail(pxn=True).build(UNLIKE)

    assert pickle.loads(pickle.dumps(fabric)).route(0, 20) == fabric.route(0, 20)


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


def test_a_full_mesh_and_other_domains_have_no_switch() -> None:
    mesh = OneSwitch().build(cluster(host(DeviceSlot(device=NVLINK, count=4), scale_up="full_mesh")))
    domains = (DeviceSlot(device=NVLINK, count=2, domain="left"), DeviceSlot(device=NVLINK, count=2, domain="right"))
    two = OneSwitch().build(cluster(host(*domains)))

    assert mesh.switch_for((0, 1, 2)) is None
    assert two.switch_for((0, 1, 2)) is None
    assert two.switch_for((2, 3)) == 4 + 2


def test_ecmp_spreads_pairs_evenly_and_always_alike() -> None:
    chosen = Counter(ecmp(src, dst, 8) for src in range(64) for dst in range(64) if src != dst)

    assert sorted(chosen) == list(range(8))
    assert max(chosen.values()) < 1.15 * 64 * 63 / 8
    assert [ecmp(0, dst, 4) for dst in range(1, 9)] == [3, 1, 0, 3, 0, 1, 0, 3]


def test_links_of_a_graph_are_those_of_its_rows() -> None:
    fabric = OneSwitch().build(UNLIKE)
    assert fabric.links_of(point_to_point((0, 1, 5), (1, 20, 5), (3, 3, 5))) == {
        *fabric.route(0, 1),
        *fabric.route(1, 20),
    }


def test_latencies_of_fig4() -> None:
    """Two ports inside a host; two PCIe ports, two NICs and the way over the spine between hosts."""
    fabric = Clos().build(load(ClusterSpec, "fig4"))

    assert fabric.path_latency_ps(0, 1) == 2 * 500_000
    assert fabric.path_latency_ps(0, 5) == 2 * 1_000_000 + 2 * 1_000_000 + 2 * 500_000
