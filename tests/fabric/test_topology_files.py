"""Topology files of other simulators: what is read, and what is refused."""

from __future__ import annotations

import re

import pytest

from tests.fabric.toys import NVLINK, cluster, host, names
from tests.topologies import hpcc_text
from xsim.errors import SpecError
from xsim.fabric.graph import Cable
from xsim.fabric.text import parse_topology
from xsim.fabric.topology.file import File
from xsim.spec.cluster import DeviceSlot

PAIR = cluster(host(DeviceSlot(device=NVLINK, count=2), count=2))  # NICs of 200 Gbps and 1 ns
STAR = """5 1 4
4
4 0 200Gbps 1ns 0
1 4 200Gbps 0.001us 0
2 4 200Gbps 1ns 0
4 3 200Gbps 0.000001ms 0.0
"""
SIMAI = """9 2 2 3 10 H100
4 5 6 7 8
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 200Gbps 0.000001ms 0
1 7 200Gbps 0.000001ms 0
2 6 200Gbps 0.000001ms 0
3 7 200Gbps 0.000001ms 0
6 8 400Gbps 0.0005ms 0
7 8 400Gbps 0.0005ms 0
"""


def test_an_hpcc_file_is_read() -> None:
    found = parse_topology("3 1 2\n2\n0 2 100Gbps 1000ns 0.01\n1 2 25Gbps 0.001ms 0\n")

    assert list(found.graph.hosts) == [0, 1]
    assert found.graph.cables == (Cable(0, 2, 100 * 10**9, 10**6, 0.01), Cable(1, 2, 25 * 10**9, 10**6))
    assert not found.nvswitches


def test_a_simai_file_is_read() -> None:
    found = parse_topology(SIMAI)

    assert (found.gpus_per_server, found.gpu_type, sorted(found.nvswitches)) == (2, "H100", [4, 5])
    assert found.graph.switches == {4, 5, 6, 7, 8}
    assert found.graph.cables[0] == Cable(0, 4, 2880 * 10**9, 25_000)


def test_hosts_of_the_file_are_nics_in_order() -> None:
    fabric = File(text=STAR).build(PAIR)

    assert names(fabric, 0, 3) == [
        "rank0 -> host0.pcie", "host0.nic0 -> switch4", "switch4 -> host1.nic1", "host1.pcie -> rank3"
    ]  # fmt: skip


def test_what_simai_says_of_nvswitches_is_left_to_the_cluster() -> None:
    fabric = File(text=SIMAI).build(PAIR)

    assert names(fabric, 0, 3)[1:5] == [
        "host0.nic0 -> switch6", "switch6 -> switch8", "switch8 -> switch7", "switch7 -> host1.nic1"
    ]  # fmt: skip
    assert names(fabric, 0, 2)[1:3] == ["host0.nic0 -> switch6", "switch6 -> host1.nic0"]
    assert fabric.path_latency_ps(0, 3) == 2 * (50 + 1000 + 500_000)
    assert names(fabric, 0, 1) == ["rank0 -> host0.domain0", "host0.domain0 -> rank1"]


def test_equal_paths_of_a_file_are_choices() -> None:
    fabric = File(text=hpcc_text(PAIR, leaves=2, spines=5)).build(PAIR)

    assert fabric.choices(0, 3) == 5
    assert fabric.choices(0, 2) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("5 1 4", "5 1", "[line 1] = '5 1': the first line of a topology has 3 words (HPCC) or 6 (SimAI)"),
        ("5 1 4", "5 1 5", "[line 6] = '': the file ends where a node should stand; check the counts"),
        ("5 1 4", "5 1 3", "[line 6] = '4': it comes after the last link; check link_num in the first line"),
        ("4 0 200", "7 0 200", "[line 3] = '7': it is no node; write a whole number up to 4"),
        ("4 0 200", "0 0 200", "[line 3] = 0: a link joins two nodes; write two different numbers"),
        ("200Gbps 1ns", "200 1ns", "[line 3] = '200': a quantity needs its unit; write a number and one of GB/s"),
        ("1ns 0", "1ns 2", "[line 3] = '2': it is no fraction of lost packets; write a number from 0 to 1"),
        ("1ns 0", "1ns nan", "[line 3] = 'nan': it is no fraction of lost packets"),
        ("5 1 4\n4", "6 2 4\n4 4", "[line 2] = 4: this switch is listed twice"),
        ("5 1 4\n4", "6 2 4\n4 5", ""),
        ("1ns 0", "1ns 0.5", "[link 0] = '4 0': it loses a fraction 0.5 of its packets, and the links of a"),
        ("1 4 200", "1 0 200", "[link 1] = '1 0': it joins two hosts, and these do not forward"),
        ("1 4 200", "0 4 200", "[link 1] = '0 4': host 0 has another to a switch, and a NIC has one port"),
        ("5 1 4", "6 1 4", ".host = 5: no link leads from it to a switch; add one, or list it as a switch"),
        ("4 0 200", "4 0 100", "[link 0] = 12.5 GB/s: it is that of host 0, NIC 0 of the cluster's host 0, which"),
        ("1ns 0\n1", "2ns 0\n1", "[link 0] = 2 ns: it is that of host 0, NIC 0 of the cluster's host 0, which has a"),
        (STAR, SIMAI.replace("9 2 2", "9 4 2"), ".gpus_per_server = 4: the hosts of the cluster have 2 devices"),
        (STAR, SIMAI.replace("6 8", "7 8"), ".switch = 7: no path leads from it to switch 6, where other hosts are"),
        (STAR, "3 1 2\n2\n0 2 200Gbps 1ns 0\n1 2 200Gbps 1ns 0", ".hosts = 2: the cluster has 4 NICs, and each"),
        (STAR, "\n", "[line 1] = '': the first line of a topology has 3 words"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(old: str, new: str, message: str) -> None:
    text = STAR.replace(old, new, 1)
    assert text != STAR
    if not message:  # a switch that nothing hangs on harms nobody
        assert len(File(text=text).build(PAIR).hosts) == 4
        return

    with pytest.raises(SpecError, match=re.escape(message)) as found:
        File(text=text).build(PAIR)
    assert found.value.field.removeprefix("topology.").startswith("path")


def test_no_file_is_refused() -> None:
    with pytest.raises(SpecError, match=r"topology\.path = '': it names no topology; name a file that holds one"):
        File().build(PAIR)
