"""Small clusters for the tests of topologies, and all topologies to try on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st

from tests.topologies import TOPOLOGIES
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.dragonfly import Dragonfly
from xsim.fabric.topology.fat_tree import FatTree
from xsim.fabric.topology.jellyfish import Jellyfish
from xsim.fabric.topology.multi_plane import MultiPlane
from xsim.fabric.topology.rail import Rail
from xsim.fabric.topology.torus import Torus
from xsim.fabric.topology.two_datacenters import TwoDatacenters
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
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
