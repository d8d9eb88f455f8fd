"""What every background owes: streams that repeat, never end, never go back, and say beforehand what they send."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import load
from tests.topologies import TOPOLOGIES
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.families import build, members
from xsim.sim.contracts import Background, Burst
from xsim.spec.cluster import ClusterSpec
from xsim.units import PS_PER_S

EACH = pytest.mark.parametrize("background", [pytest.param(cls(), id=name) for name, cls in members("background")])

FIG4 = load(ClusterSpec, "fig4")
FABRICS = {name: topology.build(FIG4) for name, topology in TOPOLOGIES.items()}
Sent = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def sent(background: Background, fabric: Fabric, seed: int, count: int = 50) -> list[list[Sent]]:
    """The first bursts of each stream: instant, sources, targets, bytes."""
    return [[_shown(burst) for burst in islice(s.bursts, count)] for s in background.traffic(fabric, seed)]


def _shown(burst: Burst) -> Sent:
    graph = burst.graph
    return burst.at_ps, tuple(graph.src.tolist()), tuple(graph.dst.tolist()), tuple(graph.sent_bytes().tolist())


@EACH
@given(seed=st.integers(-(2**63), 2**63 - 1), topology=st.sampled_from(sorted(FABRICS)))
def test_the_same_seed_gives_the_same_traffic(background: Background, seed: int, topology: str) -> None:
    fabric = FABRICS[topology]

    assert sent(background, fabric, seed) == sent(pickle.loads(pickle.dumps(background)), fabric, seed)


@EACH
@given(seed=st.integers(0, 1000), topology=st.sampled_from(sorted(FABRICS)))
def test_streams_keep_to_their_contract(background: Background, seed: int, topology: str) -> None:
    for stream in background.traffic(FABRICS[topology], seed):
        bursts = list(islice(stream.bursts, 100))

        assert len(bursts) == 100
        assert all(burst.graph in stream.graphs for burst in bursts)
        assert all(0 <= before.at_ps <= after.at_ps for before, after in pairwise(bursts))
        assert all(graph.parties == 1 and graph.sent_bytes().sum() > 0 for graph in stream.graphs)


@pytest.mark.parametrize("name", ["load", "incast", "job"])
def test_another_seed_gives_other_traffic(name: str) -> None:
    streams = build("background", {"name": name}).traffic
    first, second = (
        [
            (burst.at_ps, burst.graph.delay_ps.tolist())
            for s in streams(FABRICS["clos"], seed)
            for burst in islice(s.bursts, 9)
        ]
        for seed in (0, 1)
    )

    assert first != second


@pytest.mark.parametrize("topology", sorted(FABRICS))
@pytest.mark.parametrize("ranks", [(), (1, 7)])
def test_a_load_is_that_part_of_the_nics(topology: str, ranks: tuple[int, ...]) -> None:
    """NICs of 400 Gbps leave the first host of fig4, and of 200 Gbps the second."""
    background = build("background", {"name": "load", "load": 0.25, "size": "100 KB", "ranks": ranks})
    found = sent(background, FABRICS[topology], 3, count=1500)

    for stream in found:
        rate = sum(sum(sizes) for _, _, _, sizes in stream) / stream[-1][0] * PS_PER_S
        (source,) = {src for _, (src,), _, _ in stream}
        assert rate == pytest.approx(0.25 * (50e9 if source < 5 else 25e9), rel=0.15)
    hosts = FABRICS[topology].hosts
    assert all(hosts[src] != hosts[dst] for stream in found for _, (src,), (dst,), _ in stream)
    assert {src for stream in found for _, (src,), _, _ in stream} == set(ranks or range(10))


def test_ranks_that_share_a_nic_share_its_load() -> None:
    """Five ranks and one NIC of 400 Gbps, or of 200 Gbps."""
    hosts = tuple(replace(host, nic=replace(host.nic, per_host=1)) for host in FIG4.hosts)
    fabric = TOPOLOGIES["clos"].build(replace(FIG4, hosts=hosts))
    found = sent(build("background", {"name": "load", "load": 0.5, "size": "100 KB"}), fabric, 3, count=3000)

    rates = [sum(sum(sizes) for *_, sizes in stream) / stream[-1][0] * PS_PER_S for stream in found]
    assert rates == pytest.approx([0.5 * 50e9 / 5] * 5 + [0.5 * 25e9 / 5] * 5, rel=0.1)


def test_a_job_pauses_and_sums() -> None:
    """Two ranks on two hosts of a NIC each way: 2 (n - 1) / n S / B, and the latencies of two rounds."""
    fabric = FABRICS["clos"]
    (stream,) = build("background", {"name": "job", "size": "1 GB", "pause": "3 ms"}).traffic(fabric, 0)
    first, later = stream.graphs
    network = build("network", {"name": "flow"}).open(fabric, 0)

    rounds_ps = 2 * (500_000_000 * 40 + fabric.path_latency_ps(4, 9))  # 25 GB/s: 40 ps a byte
    assert network.solo(later) == 3 * 10**9 + rounds_ps
    assert rounds_ps < network.solo(first) <= network.solo(later)
    assert later.sent_bytes().tolist() == [0, 10**9, 10**9]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            {"name": "load", "ranks": [0, 4]},
            "background.ranks = [0, 4]: they are all on one host; name ranks of several",
        ),
        ({"name": "load", "ranks": [0, 10]}, "background.ranks = 10: the cluster has no such rank; write 0 to 9"),
        ({"name": "job", "ranks": [3, 3]}, "background.ranks = [3, 3]: a rank is given twice; list each rank once"),
        ({"name": "job", "ranks": [3]}, "background.ranks = [3]: a ring needs two ranks or more; name the ranks"),
        ({"name": "incast", "receiver": -1}, "background.receiver = -1: the cluster has no such rank; write 0 to 9"),
        (
            {"name": "incast", "senders": 6},
            "background.senders = 6: there are 5 ranks on hosts other than that of rank 0;",
        ),
    ],
)
def test_what_the_cluster_does_not_have_is_refused(node: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        build("background", node).traffic(FABRICS["clos"], 0)

    assert str(caught.value).startswith(message)
