"""Topologies of many switches: their counts by the published formulas, and which way is taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.toys import NIC, NVLINK, UNLIKE, VARIANTS, cluster, host, link
from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.shortest import ShortestPaths
from xsim.fabric.topology.dragonfly import Dragonfly
from xsim.fabric.topology.fat_tree import FatTree
from xsim.fabric.topology.jellyfish import Jellyfish
from xsim.fabric.topology.torus import Torus
from xsim.fabric.topology.two_datacenters import TwoDatacenters
from xsim.fabric.topology.vl2 import Vl2
from xsim.spec.cluster import ClusterSpec, DeviceSlot


def hosts(count: int, nics: int = 1, per_tor: int = 1, spines: int = 2) -> ClusterSpec:
    """Hosts with so many NICs, each with a device."""
    return cluster(host(DeviceSlot(device=NVLINK, count=nics), count=count), per_tor=per_tor, spines=spines)


def switches(fabric: Fabric) -> int:
    return fabric.vertices.count("switch")


def trunks(fabric: Fabric) -> int:
    return sum(each.kind == "spine" for each in fabric.links) // 2


def hops(fabric: Fabric, src: int, dst: int, choice: int | None = None) -> int:
    """Links between switches on the way."""
    return sum(fabric.links[number].kind == "spine" for number in fabric.route(src, dst, choice))


def graph_of(fabric: Fabric) -> Graph:
    """The switches of the network as a graph of their own."""
    first = fabric.vertices.index("switch")
    ends = zip(fabric.start.tolist(), fabric.end.tolist(), fabric.links, strict=True)
    cables = [Cable(a - first, b - first, 1, 1) for a, b, each in ends if each.kind == "spine"]
    count = switches(fabric)
    return Graph(count, frozenset(range(count)), tuple(cables[::2]))


def distance(graph: Graph, start: int, end: int) -> int:
    steps = 0
    while start != end:
        start, steps = graph.next_hops(start, end)[0].end, steps + 1
    return steps


@VARIANTS
def test_the_way_between_two_switches_is_a_shortest_one(topology: Topology) -> None:
    """Whichever is chosen. A dragonfly's are minimal in another sense: over one link between groups."""
    fabric = topology.build(UNLIKE)
    graph, first = graph_of(fabric), fabric.vertices.index("switch")
    other = "ragonfly" in str(topology)

    for src, dst in product((0, 3, 5, 12, 21, 26, 30), repeat=2):
        if fabric.hosts[src] != fabric.hosts[dst]:
            for choice in (None, *range(fabric.choices(src, dst))):
                route = fabric.route(src, dst, choice)
                out, *_, into = [number for number in route if fabric.links[number].kind == "nic"]
                shortest = distance(graph, int(fabric.end[out]) - first, int(fabric.start[into]) - first)
                assert hops(fabric, src, dst, choice) == shortest or other


@given(
    st.integers(2, 7).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))),
)
def test_the_choices_among_shortest_paths_are_all_of_them(case: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = case
    graph = Graph(count, frozenset(range(count)), tuple(Cable(a, b, 1, 1) for a, b in pairs if a != b))
    paths = ShortestPaths(graph)

    def every(vertex: int, end: int) -> list[tuple[int, ...]]:
        if vertex == end:
            return [()]
        return [(hop.link, *rest) for hop in graph.next_hops(vertex, end) for rest in every(hop.end, end)]

    for start, end in permutations(range(count), 2):
        expected = every(start, end)
        assert [paths.chosen(start, end, choice) for choice in range(paths.choices(start, end))] == expected
        assert not expected or paths.hashed(start, end, 5, 9) in expected


def test_switches_one_behind_another_choose_apart() -> None:
    """Were the second to see the same hash as the first, it would use few of its ways."""
    chosen = Counter((ecmp(src, dst, 4), ecmp(src, dst, 4, 1)) for src, dst in permutations(range(64), 2))

    assert len(chosen) == 16
    assert max(chosen.values()) < 1.25 * 64 * 63 / 16


@pytest.mark.parametrize("k", [2, 4, 6])
def test_a_k_ary_fat_tree_has_the_published_counts(k: int) -> None:
    fabric = FatTree().build(hosts(k**3 // 4))

    assert switches(fabric) == 5 * k**2 // 4
    assert trunks(fabric) == k**3 // 2
    assert fabric.choices(0, k**3 // 4 - 1) == (k // 2) ** 2
    assert [hops(fabric, 0, dst) for dst in (k // 2 - 1, k**2 // 4 - 1, k**3 // 4 - 1)] == (
        [0, 2, 4] if k > 2 else [0, 0, 4]
    )
    used = {fabric.route(0, dst, 0)[3] for dst in range(1, k**3 // 4) if hops(fabric, 0, dst) == 4}
    assert len(used) == 1  # one choice, one core


def test_pods_of_a_fat_tree_of_unlike_counts() -> None:
    tree = FatTree(edge_nics=4, pod_edges=3, pod_aggregations=2, aggregation_cores=5, oversubscription=3)
    fabric = tree.build(hosts(5, nics=5))
    widths = {each.name: float(fabric.bandwidth_bytes_per_s[n]) for n, each in enumerate(fabric.links)}

    assert switches(fabric) == 3 * (3 + 2) + 2 * 5
    assert fabric.choices(0, 24) == 2 * 5
    assert widths["pod0.edge0 -> pod0.aggregation1"] == 4 * 25e9 / 3 / 2
    assert widths["pod2.edge0 -> pod2.aggregation0"] == 25e9 / 3 / 2  # the last NIC of all
    assert widths["core9 -> pod0.aggregation1"] == pytest.approx(12 * 25e9 / 3 / 10)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda sizes: prod(sizes) > 1))
def test_a_torus_goes_the_shorter_way_around_in_each_dimension(sizes: list[int]) -> None:
    fabric = Torus(sizes=tuple(sizes)).build(hosts(prod(sizes)))
    places = [place[::-1] for place in product(*map(range, reversed(sizes)))]
    apart = [
        [min((b - a) % n, (a - b) % n) for a, b, n in zip(p, q, sizes, strict=True)] for p in places for q in places
    ]

    assert trunks(fabric) == sum({1: 0, 2: prod(sizes) // 2}.get(size, prod(sizes)) for size in sizes)
    for (src, dst), steps in zip(product(range(len(places)), repeat=2), apart, strict=True):
        assert hops(fabric, src, dst) == sum(steps)
        assert fabric.choices(src, dst) == 2 ** sum(2 * n == size > 2 for n, size in zip(steps, sizes, strict=True))
    assert max(map(sum, apart)) == sum(size // 2 for size in sizes)  # its diameter


@given(count=st.integers(1, 40), sizes=st.sampled_from(((0,), (0, 0), (3, 0), (0, 0, 0), (0, 2, 0))))
def test_a_torus_is_as_large_as_the_hosts_need(count: int, sizes: tuple[int, ...]) -> None:
    made = Torus(sizes=sizes)._filled(count)

    assert all(size in (0, found) for size, found in zip(sizes, made, strict=True))
    assert prod(made) >= count
    assert max(found for size, found in zip(sizes, made, strict=True) if not size) <= count


@pytest.mark.parametrize(("p", "a", "h"), [(1, 2, 1), (2, 4, 2), (1, 3, 1)])
def test_a_full_dragonfly_has_the_published_counts(p: int, a: int, h: int) -> None:
    groups = a * h + 1
    fabric = Dragonfly(nics=p, routers=a, global_links=h).build(hosts(p * a * groups))
    between = Counter(
        tuple(sorted(end.split(".")[0] for end in each.name.split(" -> ")))
        for each in fabric.links
        if each.kind == "spine"
    )

    assert switches(fabric) == a * groups
    assert trunks(fabric) == groups * a * (a - 1) // 2 + groups * (groups - 1) // 2
    assert all(between[f"group{i}", f"group{j}"] == 2 for i, j in combinations(range(groups), 2) if groups <= 10)
    ends = Counter(int(fabric.start[n]) for n, each in enumerate(fabric.links) if each.kind == "spine")
    assert set(ends.values()) == {a - 1 + h}  # links of each router
    assert max(hops(fabric, 0, dst) for dst in range(p * a * groups)) == 3
    with pytest.raises(SpecError, match=rf"global_links = {h}: there is room for {p * a * groups} NICs, and the"):
        Dragonfly(nics=p, routers=a, global_links=h).build(hosts(p * a * groups + 1))


@given(routers=st.integers(1, 5), links=st.integers(1, 5), groups=st.integers(2, 7), data=st.data())
def test_a_dragonfly_takes_those_links_between_two_groups_that_make_the_fewest_hops(
    routers: int, links: int, groups: int, data: st.DataObject
) -> None:
    groups = min(groups, routers * links + 1)
    fabric = Dragonfly(nics=1, routers=routers, global_links=links).build(hosts(routers * groups))
    src, dst = (data.draw(st.integers(0, routers - 1)) + group * routers for group in (0, groups - 1))
    own, other = (f"group{group}.router" for group in (0, groups - 1))
    between = [each.name.split(" -> ") for each in fabric.links if own in each.name and f"> {other}" in each.name]
    counts = Counter(1 + (f"{own}{src}" != a) + (f"{other}{dst % routers}" != b) for a, b in between)

    assert fabric.choices(src, dst) == counts[min(counts)]
    assert {hops(fabric, src, dst, choice) for choice in range(fabric.choices(src, dst))} == {min(counts)}


def test_valiant_goes_by_way_of_every_third_group() -> None:
    straight = Dragonfly(nics=1, routers=2, global_links=2)
    fabric, shape = replace(straight, routing="valiant").build(hosts(10)), straight.build(hosts(10))

    assert fabric.choices(0, 9) == 3  # five groups, one link between any two
    passed = set()
    for choice in range(3):
        names = [fabric.links[number].name for number in fabric.route(0, 9, choice)]
        passed |= {name.split(".")[0] for name in names if name.startswith("group")}
    assert passed == {f"group{number}" for number in range(5)}
    assert fabric.route(0, 1) == shape.route(0, 1)


def test_vl2_has_the_published_counts() -> None:
    d_a, d_i = 6, 4
    fabric = Vl2(aggregation_ports=d_a, intermediate_ports=d_i).build(hosts(d_a * d_i // 4))

    assert switches(fabric) == d_a * d_i // 4 + d_i + d_a // 2
    assert trunks(fabric) == 2 * d_a * d_i // 4 + d_i * d_a // 2
    ports = Counter(int(fabric.start[n]) for n, each in enumerate(fabric.links) if each.kind == "spine")
    assert sorted(ports.values()) == [2] * 6 + [d_i] * (d_a // 2) + [d_a] * d_i
    assert [(hops(fabric, 0, dst), fabric.choices(0, dst)) for dst in (2, 3)] == [(2, 2), (4, 2 * d_a // 2 * 2)]


@given(count=st.integers(1, 30), degree=st.integers(1, 6), seed=st.integers(0, 5))
def test_jellyfish_is_regular_connected_and_always_the_same(count: int, degree: int, seed: int) -> None:
    possible = count * degree % 2 == 0 and degree < count and (degree > 1 or count == 2)
    if not possible:
        with pytest.raises(SpecError, match=r"topology\.degree = "):
            Jellyfish(degree=degree, seed=seed).build(hosts(count))
        return
    fabric = Jellyfish(degree=degree, seed=seed).build(hosts(count))
    links = np.array([each.kind == "spine" for each in fabric.links])

    assert set(Counter(fabric.start[links].tolist()).values()) == {degree}
    assert len(set(zip(fabric.start[links].tolist(), fabric.end[links].tolist(), strict=True))) == count * degree
    assert all(hops(fabric, 0, dst) for dst in range(1, count))
    again = Jellyfish(degree=degree, seed=seed).build(hosts(count))
    assert np.array_equal(again.start, fabric.start)


def test_another_seed_is_another_jellyfish() -> None:
    one, other = (Jellyfish(degree=3, seed=seed).build(hosts(12)) for seed in range(2))

    assert not np.array_equal(one.end, other.end)


def test_what_crosses_the_wan_pays_for_it() -> None:
    far = TwoDatacenters(hosts=3, wan_bandwidth="8 Gbps", wan_delay="4 ms")
    fabric = far.build(hosts(5, per_tor=2, spines=3))

    assert fabric.path_latency_ps(0, 4) == 4_000_000_000 + 4 * 3000 + 2 * 1000 + 2 * 50
    assert fabric.path_bandwidth_bytes_per_s(0, 4) == 1e9
    assert fabric.path_bandwidth_bytes_per_s(0, 2) == min(25e9, 32e9)
    assert [fabric.choices(0, dst) for dst in (1, 2, 4)] == [1, 3, 9]
    widths = [fabric.bandwidth_bytes_per_s[n] for n, each in enumerate(fabric.links) if "border" in each.name]
    assert widths[:2] == [2 * 50e9] * 2  # all that two ToRs send to a spine
    assert min(widths) == 1e9


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (FatTree(k=2), "topology.k = 2: there is room for 2 NICs, and the cluster has 4; write a larger one"),
        (Torus(sizes=(3,)), r"topology.sizes = \(3,\): there is room for 3 switches, and the hosts need 4"),
        (
            Vl2(aggregation_ports=2, intermediate_ports=4),
            "aggregation_ports = 2: there is room for 2 ToRs, and",
        ),
        (TwoDatacenters(hosts=4), "topology.hosts = 4: the cluster has 4 hosts, and one at least stands in the second"),
        (Jellyfish(degree=1), "topology.degree = 1: 4 switches would fall apart into pairs"),
        (Jellyfish(degree=4), "topology.degree = 4: a switch has but 3 others to be joined to"),
        (Torus(sizes=(10**9, 10**9)), "topology.sizes = .* more than 4194304; choose fewer or smaller switches"),
        (Jellyfish(degree=2**40), "topology.degree = "),
    ],
    ids=str,
)
def test_a_cluster_that_does_not_fit_is_refused(topology: Topology, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        topology.build(hosts(4))


def test_an_impossible_option_is_refused() -> None:
    for make, message in (
        (lambda: FatTree(k=3), "k = 3: half of a switch's ports go up and half down; write 4"),
        (lambda: Torus(sizes=(-1, 2)), r"sizes = \(-1, 2\): a torus has one to eight sizes"),
        (lambda: TwoDatacenters(wan_delay="5"), "wan_delay = '5': a quantity needs its unit"),
        (lambda: TwoDatacenters(wan_bandwidth="1 bps"), "wan_bandwidth = 1 bps: it is not within"),
        (lambda: Vl2(aggregation_ports=5), "aggregation_ports = 5: it must be even; write 6"),
    ):
        with pytest.raises(SpecError, match=message):
            make()


def test_links_between_switches_are_uplinks() -> None:
    spec = cluster(host(DeviceSlot(device=NVLINK, count=2), nic=NIC, count=8))
    for topology in (FatTree(), Torus(), Dragonfly(), Jellyfish(), Vl2()):
        fabric = topology.build(spec)
        own = [n for n, each in enumerate(fabric.links) if each.kind == "spine"]
        assert set(fabric.bandwidth_bytes_per_s[own].tolist()) == {link(50e9, 3000).bandwidth_bytes_per_s}
        assert set(fabric.latency_ps[own].tolist()) == {3000}
