"""Networks side by side: what is for another plane passes through a host."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.fabric.toys import NIC, NVLINK, cluster, device, host, names
from xsim.errors import SpecError
from xsim.fabric.topology.multi_plane import MultiPlane
from xsim.fabric.topology.rail_only import RailOnly
from xsim.spec.cluster import DeviceSlot

FOUR = host(DeviceSlot(device=NVLINK, count=4), count=2)
PCIE = host(DeviceSlot(device=device(), count=4), scale_up="pcie", tree=(2,), count=2)


def test_another_rail_is_reached_over_the_scale_up_fabric() -> None:
    fabric = RailOnly().build(cluster(FOUR))

    assert fabric.vertices.count("switch") == 4
    assert not any(each.kind == "spine" for each in fabric.links)
    assert names(fabric, 1, 7) == [
        "rank1 -> host0.domain0",
        "host0.domain0 -> rank3",
        "rank3 -> host0.pcie",
        "host0.nic3 -> rail3",
        "rail3 -> host1.nic3",
        "host1.pcie -> rank7",
    ]
    assert names(fabric, 1, 5)[:2] == ["rank1 -> host0.pcie", "host0.nic1 -> rail1"]


def test_without_a_scale_up_fabric_pcie_leads_to_the_nic_of_the_rail() -> None:
    fabric = RailOnly().build(cluster(PCIE))

    assert names(fabric, 1, 7) == [
        "rank1 -> host0.pcie0.0",
        "host0.pcie0.0 -> host0.pcie",
        "host0.pcie -> host0.pcie0.1",
        "host0.nic3 -> rail3",
        "rail3 -> host1.nic3",
        "host1.pcie0.1 -> rank7",
    ]
    assert names(fabric, 0, 5)[:2] == ["rank0 -> host0.pcie0.0", "host0.nic1 -> rail1"]  # under one switch


@pytest.mark.parametrize("scale_up", ["nvswitch", "pcie"])
def test_a_rail_that_the_sender_lacks_is_reached_inside_the_other_host(scale_up: str) -> None:
    small, large = (
        host(DeviceSlot(device=NVLINK, count=count), scale_up="nvswitch" if scale_up == "nvswitch" else "pcie")
        for count in (1, 3)
    )
    fabric = RailOnly().build(cluster(small, large))
    last = {
        "nvswitch": ["host1.pcie -> rank1", "rank1 -> host1.domain0", "host1.domain0 -> rank3"],
        "pcie": ["host1.pcie -> rank3"],
    }

    there = ["rank0 -> host0.pcie", "host0.nic0 -> rail0", "rail0 -> host1.nic0", *last[scale_up]]
    assert names(fabric, 0, 3) == there
    assert names(fabric, 3, 0) == [" -> ".join(name.split(" -> ")[::-1]) for name in there[::-1]]


def test_a_plane_has_tors_and_spines_of_its_own() -> None:
    spec = cluster(host(DeviceSlot(device=NVLINK, count=4), count=6), per_tor=2, spines=3)
    fabric = MultiPlane(planes=2).build(spec)
    planes = [{end.split(".")[0] for end in each.name.split(" -> ")} for each in fabric.links if each.kind == "spine"]

    assert fabric.vertices.count("switch") == 2 * (3 + 3)
    assert len(planes) == 2 * 2 * 3 * 3
    assert all(len(ends) == 1 for ends in planes)
    for src, dst in product(range(4), range(20, 24)):
        assert fabric.choices(src, dst) == 3
        (nic,) = [name for name in names(fabric, src, dst) if name.startswith("host0.nic")]
        assert int(nic[len("host0.nic")]) % 2 == dst % 2
    assert {names(fabric, 0, dst)[-4].split(".")[0] for dst in (20, 22)} == {"plane0"}


def test_ranks_of_the_nics_of_a_plane_take_turns_as_relays() -> None:
    shared = host(DeviceSlot(device=NVLINK, count=8), nic=replace(NIC, per_host=4), count=2)
    fabric = MultiPlane(planes=2).build(cluster(shared, per_tor=2))

    relays = [names(fabric, 0, dst)[2] for dst in (10, 11, 14, 15)]  # of the NICs 1 and 3 of the other host
    assert relays == ["rank2 -> host0.pcie", "rank7 -> host0.pcie"] * 2


def test_an_empty_plane_is_refused() -> None:
    with pytest.raises(SpecError, match=r"planes = 5: no host has more than 4 NICs: a plane would be empty; write 4"):
        MultiPlane(planes=5).build(cluster(FOUR))
