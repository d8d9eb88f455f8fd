"""Paths inside of a host: scale-up fabrics, PCIe trees, and the way to a NIC."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.toys import (
    NIC,
    NVLINK,
    UNLIKE,
    cluster,
    device,
    host,
    names,
)
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import nics_of
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.spec.cluster import (
    DeviceSlot,
    DomainSpec,
    NicSpec,
)


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


def test_a_full_mesh_and_other_domains_have_no_switch() -> None:
    mesh = OneSwitch().build(cluster(host(DeviceSlot(device=NVLINK, count=4), scale_up="full_mesh")))
    domains = (DeviceSlot(device=NVLINK, count=2, domain="left"), DeviceSlot(device=NVLINK, count=2, domain="right"))
    two = OneSwitch().build(cluster(host(*domains)))

    assert mesh.switch_for((0, 1, 2)) is None
    assert two.switch_for((0, 1, 2)) is None
    assert two.switch_for((2, 3)) == 4 + 2
