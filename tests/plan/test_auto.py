"""Auto is never far behind the fastest of those that it chooses among, and its forecasts are those of the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.plan.test_collective_times import hosts_of
from tests.plan.toy import cluster as toy_cluster
from tests.plan.toy import with_trees
from tests.strategies import StandInSite
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.topology.rail import Rail
from xsim.fabric.transfers import TransferGraph
from xsim.plan.collective.auto import Auto
from xsim.plan.collective.hierarchical import Hierarchical
from xsim.plan.collective.ring import Ring
from xsim.plan.collective.tree import Tree
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.contracts import CollectiveAlgorithm
from xsim.plan.forecast import Forecast
from xsim.plan.protocol import ProtocolChoice, row_costs, under, with_costs
from xsim.sim.network.flow import Flow
from xsim.spec.cluster import ClusterSpec
from xsim.spec.codec import from_plain
from xsim.spec.protocols import PROTOCOLS, Protocol

HOSTS = ((2,), (3,), (4,), (8,), (16,), (2, 2), (8, 8), (1,) * 8, (4, 4, 4), (8,) * 4, (8,) * 8)
KINDS: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
ROOTED = ("broadcast", "reduce")
SIZES = [2**power for power in range(10, 31)]
EXAMPLES = settings().max_examples
SAMPLE = settings(max_examples=EXAMPLES if EXAMPLES > 100 else 15)  # each simulates up to 19 collectives; all in soak


@dataclass(frozen=True, slots=True)
class AskedSite(StandInSite):
    """A site that notes which collectives it was asked for."""

    asked: list[str] = field(default_factory=list)

    def collective(self, name: str, **options: object) -> CollectiveAlgorithm:
        self.asked.append(name)
        found: CollectiveAlgorithm = StandInSite.collective(self, name, **options)
        return found


def others(collective: Collective, site: StandInSite) -> Iterator[TransferGraph]:
    """Whoever auto chooses among, in every protocol, asked for by hand."""
    if collective.kind in {"all_to_all", "send_recv"}:
        pairs = site.collective("direct").expand(collective, site)
        yield from (with_costs(pairs, costs) for costs in row_costs(pairs, site, ("pairs_ll", "pairs_simple")))
        return
    hosts = len(set(site.fabric.hosts))
    for protocol in PROTOCOLS:
        choice: ProtocolChoice = protocol
        yield Ring(protocol=choice).expand(collective, site)
        if hosts > 1:
            yield Ring(channels=len(collective.ranks) // hosts, protocol=choice).expand(collective, site)
            if hosts < len(collective.ranks):
                yield under(choice, Hierarchical().expand(collective, site), site)
            for pieces in (1, 4, 16):
                yield Tree(pieces=pieces, protocol=choice).expand(collective, site)
    if hosts == 1 and collective.kind == "all_reduce" and len(collective.ranks) >= 5:
        summed = site.collective("nvls").expand(collective, site)
        yield with_costs(summed, row_costs(summed, site, ("in_switch",))[0])


@SAMPLE
@given(hosts=st.sampled_from(HOSTS), kind=st.sampled_from(KINDS), size=st.sampled_from(SIZES), rails=st.booleans())
@example(hosts=(8,) * 4, kind="broadcast", size=2**30, rails=False)
@example(hosts=(8,) * 4, kind="reduce", size=2**26, rails=False)
def test_within_a_twentieth_of_the_fastest(
    hosts: tuple[int, ...], kind: CollectiveKind, size: int, rails: bool
) -> None:
    fabric = hosts_of(*hosts, topology=Rail()) if rails else hosts_of(*hosts)
    site = StandInSite(fabric)
    collective = Collective(kind, tuple(range(sum(hosts))), range(size), root=0 if kind in ROOTED else None)
    network = Flow().open(fabric, 0)
    fastest_ps = min(network.solo(graph) for graph in others(collective, site))

    assert network.solo(Auto().expand(collective, site)) <= 1.05 * fastest_ps


@SAMPLE
@given(hosts=st.sampled_from(HOSTS), size=st.sampled_from(SIZES), protocol=st.sampled_from(PROTOCOLS))
def test_a_forecast_of_rings_is_what_the_network_takes(hosts: tuple[int, ...], size: int, protocol: Protocol) -> None:
    fabric = hosts_of(*hosts)
    collective = Collective("all_reduce", tuple(range(sum(hosts))), range(size))
    graph = Ring(channels=2, protocol=protocol).expand(collective, StandInSite(fabric))

    forecast_ps = Forecast.of(graph, fabric).time_ps(graph.delay_ps, graph.wire_ppm)
    assert forecast_ps == pytest.approx(Flow().open(fabric, 0).solo(graph), rel=1e-2)


@pytest.mark.parametrize("pieces", [1, 4, 64])
def test_a_forecast_of_many_levels_is_what_the_network_takes(pieces: int) -> None:
    """A chain of pieces, each behind the one before and behind the hop before."""
    fabric = hosts_of(*[1] * 8)
    collective = Collective("broadcast", tuple(range(8)), range(2**26), root=0)
    graph = Ring(pieces=pieces, protocol="simple").expand(collective, StandInSite(fabric))

    forecast = Forecast.of(graph, fabric)
    assert forecast.level.max() == pieces + 6  # behind the launch, one for each piece and each further hop
    forecast_ps = forecast.time_ps(graph.delay_ps, graph.wire_ppm)
    assert forecast_ps == pytest.approx(Flow().open(fabric, 0).solo(graph), rel=1e-2)


@pytest.mark.parametrize(
    ("kind", "crossings"), [("all_reduce", 14 / 8), ("all_gather", 7 / 8), ("all_to_all", 16 / 64)]
)
@pytest.mark.parametrize("size", [2**16, 2**28])
def test_uplinks_of_a_pcie_tree_are_in_the_forecast(kind: CollectiveKind, crossings: float, size: int) -> None:
    """Of 8 devices the fours share 4 GB/s: each way one transfer of the ring, or 16 of all 64 blocks."""
    fabric = OneSwitch().build(with_trees(toy_cluster(8)))
    site = StandInSite(fabric)
    found = Auto().expand(Collective(kind, tuple(range(8)), range(size)), site)

    forecast_ps = Forecast.of(found, fabric).time_ps(found.delay_ps, found.wire_ppm)
    assert forecast_ps == pytest.approx(Flow().open(fabric, 0).solo(found), rel=1e-2)
    assert forecast_ps > crossings * size / 4e9 * 1e12


@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize(("hosts", "size"), [((8, 8), 2**30), ((8,) * 4, 2**26), ((4, 4, 4), 2**22), ((8, 8), 2**12)])
def test_chains_that_cross_at_unlike_places_lie_between_their_bounds(
    kind: CollectiveKind, hosts: tuple[int, ...], size: int
) -> None:
    """Their rows of a level do not start together, so that they share links less than the level says."""
    fabric = hosts_of(*hosts)
    collective = Collective(kind, tuple(range(sum(hosts))), range(size), root=0)

    for channels in (1, hosts[0]):
        graph = Ring(channels=channels, protocol="ll128").expand(collective, StandInSite(fabric))
        least_ps, most_ps = Forecast.of(graph, fabric).bounds_ps(graph.delay_ps, graph.wire_ppm)
        assert 0.999 * least_ps <= Flow().open(fabric, 0).solo(graph) <= 1.001 * most_ps
        assert (least_ps < most_ps) is (channels > 1)


def test_a_broadcast_over_hosts_takes_all_nics_if_that_is_faster() -> None:
    """Whatever the elements are: 32 ranks, 1 GiB, on eight rings."""
    for size, element_bytes in ((2**30, 1), (2**28, 4)):
        site = StandInSite(hosts_of(8, 8, 8, 8), element_bytes)
        collective = Collective("broadcast", tuple(range(32)), range(size), root=0)

        found, rings = Auto().expand(collective, site), Ring(channels=8, protocol="simple").expand(collective, site)
        assert found.src.tolist() == rings.src.tolist()


def test_a_forecast_counts_elements() -> None:
    fabric = hosts_of(4)
    bytewise, elements = (
        Ring().expand(Collective("all_reduce", (0, 1, 2, 3), range(size)), StandInSite(fabric)) for size in (4000, 1000)
    )

    found = [
        Forecast.of(graph, fabric, element_bytes).time_ps(graph.delay_ps, graph.wire_ppm)
        for graph, element_bytes in ((bytewise, 1), (elements, 4))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("hosts", "size", "chosen"),
    [((8,), 2**16, "ll"), ((4,), 2**28, "simple")],
)
def test_few_bytes_want_few_delays_and_many_want_wide_wires(hosts: tuple[int, ...], size: int, chosen: str) -> None:
    site = StandInSite(hosts_of(*hosts))
    collective = Collective("all_gather", tuple(range(sum(hosts))), range(size))
    expected = Ring(protocol=chosen).expand(collective, site)  # type: ignore[arg-type]

    found = Auto().expand(collective, site)
    assert found.wire_ppm.tolist() == expected.wire_ppm.tolist()
    assert found.delay_ps.tolist() == expected.delay_ps.tolist()


def two_domains() -> Fabric:
    """A host of five and five ranks, each five on a switch of their own."""
    slots = [{"device": "h100_80", "count": 5, "domain": name} for name in ("left", "right")]
    nic = {"bandwidth": "200 Gbps", "latency": "1 us"}
    text = {"name": "toy", "hosts": [{"devices": slots, "nic": nic}], "scale_out": {"uplink": nic}}
    return OneSwitch().build(from_plain(ClusterSpec, text))


@pytest.mark.parametrize("fabric", [hosts_of(8, scale_up="full_mesh"), two_domains()], ids=["mesh", "domains"])
@pytest.mark.parametrize("size", [2**16, 2**22, 2**28])
def test_without_a_switch_for_all_a_ring_is_priced_as_a_ring(fabric: Fabric, size: int) -> None:
    site, collective = StandInSite(fabric), Collective("all_reduce", tuple(range(len(fabric.hosts))), range(size))
    rings = [Ring(protocol=choice).expand(collective, site) for choice in PROTOCOLS]

    found = Auto().expand(collective, site)
    costs = [(ring.delay_ps.tolist(), ring.wire_ppm.tolist()) for ring in rings]
    assert (found.delay_ps.tolist(), found.wire_ppm.tolist()) in costs


@pytest.mark.parametrize(
    ("fabric", "sums"),
    [
        (hosts_of(8), True),
        (hosts_of(5, 6), True),
        (hosts_of(4), False),
        (hosts_of(8, 4), False),
        (hosts_of(8, scale_up="full_mesh"), False),
        (hosts_of(8, scale_up="pcie"), False),
        (two_domains(), False),
    ],
)
def test_sums_in_the_switch_need_one_for_all_of_each_host(fabric: Fabric, sums: bool) -> None:
    site = AskedSite(fabric)
    Auto().expand(Collective("all_reduce", tuple(range(len(fabric.hosts))), range(2**22)), site)

    assert ("nvls" in site.asked) is sums


@pytest.mark.parametrize(
    ("hosts", "kind", "size", "way"),
    [
        ((8,), "all_gather", 2**16, "ring, ll"),
        ((8,), "all_gather", 2**28, "ring, simple"),
        ((8,), "all_reduce", 2**28, "nvls, simple"),
        ((8,) * 4, "broadcast", 2**30, "8 rings, simple"),
        ((8,) * 8, "all_reduce", 2**16, "hierarchical, ll"),
        ((1,) * 48, "reduce_scatter", 2**27, "ring, ll128"),  # everybody to everybody at once would take less
        ((8,), "all_to_all", 2**12, "pairs, ll"),
    ],
)
def test_it_tells_what_it_took(hosts: tuple[int, ...], kind: CollectiveKind, size: int, way: str) -> None:
    site = StandInSite(hosts_of(*hosts))
    collective = Collective(kind, tuple(range(sum(hosts))), range(size), root=0 if kind in ROOTED else None)

    assert Auto().choose(collective, site)[1] == way


def test_unlike_nics_are_judged_by_the_slowest() -> None:
    """One of six has a tenth of the rate: as a leaf of both trees it would carry less than in a ring."""
    fast = hosts_of(*[1] * 6)
    slow = np.where(["host5.nic" in link.name for link in fast.links], 0.1, 1.0)
    fabric = replace(fast, bandwidth_bytes_per_s=fast.bandwidth_bytes_per_s * slow)
    site, collective = StandInSite(fabric), Collective("all_reduce", tuple(range(6)), range(2**28))
    network = Flow().open(fabric, 0)
    tree = Tree(pieces=16, protocol="simple").expand(collective, site)

    graph, way = Auto().choose(collective, site)

    assert way == "ring, simple"
    assert network.solo(tree) < network.solo(graph)


def test_what_may_not_be_tried_is_not() -> None:
    site = StandInSite(hosts_of(8))
    collective = Collective("all_gather", tuple(range(8)), range(2**28))

    only_ll = Auto(protocols=("ll",)).expand(collective, site)
    assert only_ll.wire_ppm.max() >= 2 * 10**6
    assert Auto().expand(collective, site).wire_ppm.max() < 2 * 10**6
    with pytest.raises(SpecError, match="there is nothing to choose from"):
        Auto(protocols=())
