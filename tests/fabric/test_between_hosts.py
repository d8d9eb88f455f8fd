"""Paths between hosts: which links they have, how wide they are, and how long it takes."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from tests.examples import load
from tests.fabric.toys import (
    NVLINK,
    UNLIKE,
    cluster,
    device,
    host,
    names,
)
from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.topology.clos import Clos
from xsim.fabric.topology.rail import Rail
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    NicSpec,
)


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


def test_ecmp_spreads_pairs_evenly_and_always_alike() -> None:
    chosen = Counter(ecmp(src, dst, 8) for src in range(64) for dst in range(64) if src != dst)

    assert sorted(chosen) == list(range(8))
    assert max(chosen.values()) < 1.15 * 64 * 63 / 8
    assert [ecmp(0, dst, 4) for dst in range(1, 9)] == [3, 1, 0, 3, 0, 1, 0, 3]


def test_latencies_of_fig4() -> None:
    """Two ports inside a host; two PCIe ports, two NICs and the way over the spine between hosts."""
    fabric = Clos().build(load(ClusterSpec, "fig4"))

    assert fabric.path_latency_ps(0, 1) == 2 * 500_000
    assert fabric.path_latency_ps(0, 5) == 2 * 1_000_000 + 2 * 1_000_000 + 2 * 500_000
