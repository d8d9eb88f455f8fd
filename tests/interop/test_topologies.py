"""Topology files of other simulators, read, and written again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.examples import graphs, parts
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.text import TopologyText
from xsim.interop import hpcc, htsim_topology, simai
from xsim.interop.htsim import Failure

HPCC = """4 1 3
3
0 3 100Gbps 1000ns 0
3 1 25Gbps 0.001ms 0.01
2 3 400Gbps 1us 0
"""
SIMAI = """7 2 2 1 4 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
2 6 400Gbps 0.0005ms 0
"""
TREE = """# two pods of two ToRs of two hosts
Nodes 8
Tiers 3
PODSIZE 4

Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Oversubscribed 1

Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 2000
Switch_Latency_ns 300

Tier 2
Downlink_speed_Gbps 50
Radix_Down 4
Downlink_Latency_ns 3000
Bundle 2
"""


def test_a_topology_of_hpcc_is_a_graph() -> None:
    graph = hpcc.read_topology(HPCC)

    assert list(graph.hosts) == [0, 1, 2]
    assert graph.cables == (
        Cable(0, 3, 100_000_000_000, 1_000_000),
        Cable(3, 1, 25_000_000_000, 1_000_000, 0.01),
        Cable(2, 3, 400_000_000_000, 1_000_000),
    )


@given(graphs())
def test_what_is_written_for_hpcc_reads_the_same(graph: Graph) -> None:
    assert parts(hpcc.read_topology(hpcc.write_topology(graph))) == parts(graph)


def test_a_topology_of_simai_says_what_a_server_is() -> None:
    topology = simai.read_topology(SIMAI)

    assert list(topology.graph.hosts) == [0, 1, 2, 3]
    assert topology.graph.switches == {4, 5, 6}
    assert (topology.gpus_per_server, topology.nvswitches, topology.gpu_type) == (2, frozenset({4, 5}), "H100")
    assert topology.graph.cables[3] == Cable(2, 6, 400_000_000_000, 500_000)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.data())
def test_what_is_written_for_simai_reads_the_same(
    servers: int, each: int, nv_switches: int, data: st.DataObject
) -> None:
    gpus = servers * each
    drawn = data.draw(graphs())
    numbers = tuple(range(gpus, gpus + nv_switches + drawn.vertices))
    cables = tuple(Cable(x.a + gpus, x.b + gpus, x.bandwidth_bits_per_s, x.delay_ps, x.loss) for x in drawn.cables)
    graph = Graph(len(numbers) + gpus, frozenset(numbers), cables)
    topology = TopologyText(graph, frozenset(numbers[:nv_switches]), each, "NONE")

    found = simai.read_topology(simai.write_topology(topology))

    assert parts(found.graph) == parts(graph)
    assert (found.gpus_per_server, found.nvswitches, found.gpu_type) == (each, topology.nvswitches, "NONE")


def test_a_tree_of_htsim_has_its_switches_after_its_hosts() -> None:
    tree = htsim_topology.read_topology(TREE)
    graph = tree.graph()

    assert tree.counts == (4, 4, 4)
    assert list(graph.hosts) == [*range(8)]
    assert [graph.next_hops(host, 7)[0].end for host in range(7)] == [8, 8, 9, 9, 10, 10, 11]
    assert {hop.end for hop in graph.next_hops(8, 7)} == {12, 13}
    assert {hop.end for hop in graph.next_hops(13, 7)} == {17, 19}
    assert len(graph.next_hops(13, 7)) == 4  # bundles of two
    assert {hop.end for hop in graph.next_hops(17, 7)} == {15}


def test_a_way_through_a_switch_takes_its_latency() -> None:
    """Down 1 us, up 2 us, 300 ns in the aggregation switch, and back."""
    graph = htsim_topology.read_topology(TREE).graph()
    delays = {(x.a, x.b): x.delay_ps for x in graph.cables}

    assert 2 * (delays[0, 8] + delays[8, 12]) == 2 * (1_000_000 + 2_000_000) + 300_000
    assert delays[12, 16] == 3_000_000 + 150_000
    assert {x.bandwidth_bits_per_s for x in graph.cables[-16:]} == {50_000_000_000}


def test_a_link_out_of_order_is_not_there() -> None:
    tree = htsim_topology.read_topology(TREE)

    whole, broken = tree.graph(), tree.graph([Failure("AGG", 1, 2), Failure("TOR", 3, 0)])

    assert [x for x in whole.cables if x not in broken.cables] == [Cable(11, 14, 100_000_000_000, 2_150_000)]
    assert len(broken.cables) == len(whole.cables) - 2
    assert len(broken.next_hops(13, 7)) == 3


@pytest.mark.parametrize("failure", [Failure("AGG", 4, 0), Failure("TOR", 0, 2), Failure("CORE", 0, 0)])
def test_a_link_that_is_not_there_cannot_be_out_of_order(failure: Failure) -> None:
    with pytest.raises(SpecError, match="failure = "):
        htsim_topology.read_topology(TREE).graph([failure])


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (HPCC, "100Gbps", "100", "net line 3 = '100': a quantity needs its unit; write a number and one of GB/s"),
        (HPCC, "4 1 3", "4 x 3", "net line 1 = 'x': it is no switch_num; write a whole number up to 4"),
        (HPCC, "4 1 3", "4 1 2", "net line 5 = '2': it comes after the last link; check link_num in the first line"),
        (HPCC, "4 1 3", "4 1 4", "net line 5 = '': the file ends where a node should stand; check the counts"),
        (HPCC, "4 1 3", "4 1 3 2", "net line 1 = '4 1 3 2': the first line of a topology has 3 words (HPCC) or 6"),
        (HPCC, "0 3 1", "0 4 1", "net line 3 = '4': it is no node; write a whole number up to 3"),
        (HPCC, "0.01", "nan", "net line 4 = 'nan': it is no fraction of lost packets; write a number from 0 to 1"),
        (HPCC, "25Gbps", "0Gbps", "net line 4 = 0Gbps: it is no rate of 1 bps to 1 Pbps; write 100Gbps, say"),
        (HPCC, "1us", "2000s", "net line 5 = 2000s: it is no delay of up to 1000 s; write 1000ns, say"),
        (SIMAI, "4 5 6", "4 5 4", "net line 2 = 4: this switch is listed twice; list each once"),
        (SIMAI, "7 2 2 1", "7 3 2 1", "net line 1 = 3: it does not divide the 4 GPUs; write how many GPUs each"),
        (SIMAI, "7 2 2 1", "7 0 2 1", "net line 1 = 0: servers have no GPUs, or it is not of SimAI"),
        (SIMAI, "4 5 6", "4 5 3", "net line 2 = 3: the numbers below 4 are those of GPUs; number switches after them"),
        (TREE, "Nodes 8", "", "net Nodes = None: it is missing; write it above the first Tier"),
        (TREE, "Tiers 3", "Tiers 2", "net line 3 = 2: two or three tiers can be, and 3 are described"),
        (TREE, "Tier 2", "Tier 1", "net line 20 = 1: tiers come in order, from 0 to 2 at most"),
        (TREE, "Radix_Up 4", "Radix_Up 0", "net Tier 1 = None: its radix_up is missing"),
        (TREE, "Radix_Up 4", "Radix_Up four", "net line 16 = 'four': Radix_Up is a whole number"),
        (TREE, "Radix_Up 4", "Radix_Up 3", "net Tier 2 = 2: it does not divide the 3 links; correct the Bundle"),
        (TREE, "Bundle 2", "Bundle 1", "net Tier 2 = 4: its Radix_Down has to be 2; correct it, or the Bundle"),
        (TREE, "Bundle 2", "Queue_Down 5", "net line 24 = 'Queue_Down': buffers are no part of a topology here"),
        (TREE, "Bundle 2", "Bundles 2", "net line 24 = 'Bundles': there is no such key here; write one of "),
        (TREE, "Bundle 2", "Bundle 2 2", "net line 24 = 'Bundle 2 2': a line is a key and a number"),
        (TREE, "Bundle 2", "Radix_Down 4", "net line 24 = 'Radix_Down': it stands in net line 22 too; write it once"),
        (TREE, "Oversubscribed 1", "Oversubscribed 2", "net line 11 = 2: radixes and speeds make it 1"),
        (TREE, "Radix_Up 4", "Radix_Up 90000000", "net = 8 nodes: it has more than 1048576 hosts and switches"),
        (TREE, "Nodes 8", "Nodes 80000000", "net = 80000000 nodes: it has more than 1048576 hosts and switches"),
        (TREE, "PODSIZE 4", "PODSIZE 3", "net Podsize = 3: pods, or the ToRs in them, are not whole"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, old: str, new: str, message: str) -> None:
    reader = {HPCC: hpcc.read_topology, SIMAI: simai.read_topology, TREE: htsim_topology.read_topology}[text]
    assert old in text

    with pytest.raises(SpecError) as caught:
        reader(text.replace(old, new, 1), "net")

    assert str(caught.value).startswith(message)


def test_the_reference_topologies_are_read(reference_data: Path) -> None:
    folder = reference_data / "netref" / "scenarios"

    for name, hosts, switches, cables in [("star9", 9, 1, 9), ("ft16", 16, 20, 48), ("ft128", 128, 80, 384)]:
        graph = hpcc.read_topology((folder / f"{name}.hpcc").read_text(), name)
        servers = simai.read_topology((folder / f"{name}.simai").read_text(), name)
        assert (len([*graph.hosts]), len(graph.switches), len(graph.cables)) == (hosts, switches, cables)
        assert parts(servers.graph) == parts(graph)
    rails = simai.read_topology((folder / "Spectrum-X_16g_8gps_400Gbps_H100").read_text(), "Spectrum-X")
    assert (len([*rails.graph.hosts]), rails.gpus_per_server, rails.nvswitches) == (16, 8, frozenset({16, 17}))
    star = htsim_topology.read_topology((folder / "star17.topo").read_text(), "star17.topo").graph()
    assert [star.next_hops(host, 16)[0].end for host in range(16)] == [34] * 16
