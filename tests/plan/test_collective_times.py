"""How long collectives take where nothing is in their way: the closed forms, within 0.1 %.

One switch, S bytes, n ranks; between hosts latency L and bandwidth B, inside a host l and b.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.strategies import StandInSite
from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.transfers import TransferGraph
from xsim.plan.collective.direct import Direct
from xsim.plan.collective.halving_doubling import HalvingDoubling
from xsim.plan.collective.hierarchical import Hierarchical
from xsim.plan.collective.ring import Ring
from xsim.plan.collective.tree import Tree
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.contracts import CollectiveAlgorithm
from xsim.sim.contracts import NetworkBackend
from xsim.sim.network.analytic import Analytic
from xsim.sim.network.flow import Flow
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    ScaleOutSpec,
    ScaleUpKind,
)

S = 2**6 * 3 * 5 * 7 * 10**4
NIC, PCIE, PORT = (25e9, 900_000), (64e9, 100_000), (300e9, 350_000)  # bytes per second, picoseconds
L, B = 2e-12 * (900_000 + 100_000), 25e9
l, b = 2e-12 * 350_000, 300e9  # noqa: E741
FLOW, ANALYTIC, ONE_SWITCH = Flow(), Analytic(), OneSwitch()
HALVES: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
BOTH = pytest.mark.parametrize("network", [FLOW, ANALYTIC], ids=["flow", "analytic"])


def link(bandwidth: float, latency_ps: int) -> LinkSpec:
    return LinkSpec(bandwidth_bytes_per_s=bandwidth, latency_ps=latency_ps)


@cache
def hosts_of(
    *sizes: int, scale_up: ScaleUpKind = "nvswitch", topology: Topology = ONE_SWITCH, uplink: float = 100e9
) -> Fabric:
    """Hosts of so many devices, each with a NIC of its own."""
    device = DeviceSpec(
        name="toy",
        peak_flops_per_s=(("bf16", 1e14),),
        memory_bytes=10**9,
        memory_bandwidth_bytes_per_s=1e12,
        pcie=link(*PCIE),
        efficiency=EfficiencyCurve(matmul=1, attention=1, memory=1, half_flops=0),
        power_w=1,
        idle_power_w=1,
        price_usd=1,
        price_usd_per_hour=1,
        scale_up=link(*PORT),
    )
    nic = NicSpec(bandwidth_bytes_per_s=NIC[0], latency_ps=NIC[1])
    hosts = [HostSpec(devices=(DeviceSlot(device=device, count=size),), nic=nic, scale_up=scale_up) for size in sizes]
    out = ScaleOutSpec(uplink=link(uplink, 1), hosts_per_tor=len(sizes), spines=2)
    return topology.build(ClusterSpec(name="toy", hosts=tuple(hosts), scale_out=out))


def graph(algorithm: CollectiveAlgorithm, kind: CollectiveKind, fabric: Fabric, size: int = S) -> TransferGraph:
    return algorithm.expand(Collective(kind, tuple(range(len(fabric.hosts))), range(size)), StandInSite(fabric))


def seconds(
    algorithm: CollectiveAlgorithm,
    kind: CollectiveKind,
    fabric: Fabric,
    network: NetworkBackend = FLOW,
    size: int = S,
) -> float:
    return network.open(fabric, 0).solo(graph(algorithm, kind, fabric, size)) * 1e-12


def about(expected: float) -> object:
    return pytest.approx(expected, rel=1e-3)


class TestHalvingDoubling:
    """log2(n) latencies each way; excess ranks add a transfer before and after."""

    @BOTH
    @pytest.mark.parametrize("size", [S, 64 * 50])
    @pytest.mark.parametrize("log_n", [1, 2, 3, 4, 5, 6])
    def test_powers_of_two(self, network: NetworkBackend, size: int, log_n: int) -> None:
        n = 2**log_n
        fabric, half = hosts_of(*[1] * n), log_n * L + (n - 1) / n * size / B

        assert seconds(HalvingDoubling(), "all_reduce", fabric, network, size) == about(2 * half)
        assert seconds(HalvingDoubling(), "broadcast", fabric, network, size) == about(2 * half)
        assert seconds(HalvingDoubling(), "reduce", fabric, network, size) == about(2 * half)
        assert seconds(HalvingDoubling(), "reduce_scatter", fabric, network, size) == about(half)
        assert seconds(HalvingDoubling(), "all_gather", fabric, network, size) == about(half)

    @BOTH
    @pytest.mark.parametrize(("n", "core"), [(3, 2), (5, 4), (7, 4), (12, 8), (15, 8)])
    def test_excess_ranks(self, network: NetworkBackend, n: int, core: int) -> None:
        fabric, log_core = hosts_of(*[1] * n), core.bit_length() - 1
        exchanges = log_core * L + (core - 1) / core * S / B

        assert seconds(HalvingDoubling(), "all_reduce", fabric, network) == about(2 * (exchanges + L + S / B))
        assert seconds(HalvingDoubling(), "broadcast", fabric, network) == about(2 * exchanges + L + S / B)
        assert seconds(HalvingDoubling(), "reduce", fabric, network) == about(2 * exchanges + L + S / B)


class TestDirect:
    """One latency each way."""

    @pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
    def test_transfers_share_the_port(self, n: int) -> None:
        fabric, half = hosts_of(*[1] * n), L + (n - 1) / n * S / B

        assert seconds(Direct(), "all_reduce", fabric) == about(2 * half)
        assert seconds(Direct(), "broadcast", fabric) == about(2 * half)
        assert seconds(Direct(), "reduce", fabric) == about(2 * half)
        assert seconds(Direct(), "reduce_scatter", fabric) == about(half)
        assert seconds(Direct(), "all_gather", fabric) == about(half)
        assert seconds(Direct(), "all_to_all", fabric) == about(L + (n - 1) / n**2 * S / B)

    @BOTH
    @pytest.mark.parametrize("n", [3, 4, 8])
    def test_a_full_mesh_is_its_home(self, network: NetworkBackend, n: int) -> None:
        """Each pair has its own link with a share of b / (n - 1) of the ports."""
        fabric, half = hosts_of(n, scale_up="full_mesh"), l + (S / n) / (b / (n - 1))

        assert seconds(Direct(), "all_reduce", fabric, network) == about(2 * half)
        assert seconds(Direct(), "reduce_scatter", fabric, network) == about(half)
        assert seconds(Direct(), "all_gather", fabric, network) == about(half)
        assert seconds(Direct(), "all_to_all", fabric, network) == about(l + S / n**2 / (b / (n - 1)))

    def test_without_contention_the_port_is_free(self) -> None:
        fabric = hosts_of(*[1] * 8)

        assert seconds(Direct(), "all_reduce", fabric, ANALYTIC) == about(2 * (L + S / 8 / B))


class TestHierarchical:
    """H hosts of m ranks."""

    @BOTH
    @pytest.mark.parametrize(("hosts", "m"), [(2, 4), (3, 2), (4, 8), (1, 8), (5, 1)])
    def test_all_reduce(self, network: NetworkBackend, hosts: int, m: int) -> None:
        inside, between = (m - 1) * (l + S / m / b), (hosts - 1) * (L + S / m / hosts / B)

        found = seconds(Hierarchical(), "all_reduce", hosts_of(*[m] * hosts), network)

        assert found == about(2 * inside + 2 * between)

    @pytest.mark.parametrize(("hosts", "m"), [(2, 4), (3, 2), (4, 8)])
    def test_other_kinds(self, hosts: int, m: int) -> None:
        """The rings of all target hosts run at once: together they take what one over the whole would."""
        fabric, inside = hosts_of(*[m] * hosts), (m - 1) * (l + S / m / b)
        straight = L + (hosts - 1) / hosts * S / m / B
        scatter, ring = l + (m - 1) / m * S / b, (hosts - 1) * (L + S / m / hosts / B)

        assert seconds(Hierarchical(), "reduce_scatter", fabric) == about(inside + straight)
        assert seconds(Hierarchical(), "all_gather", fabric) == about(straight + inside)
        assert seconds(Hierarchical(), "broadcast", fabric) == about(scatter + straight + ring + inside)
        assert seconds(Hierarchical(), "reduce", fabric) == about(inside + ring + straight + scatter)

    def test_unlike_hosts(self) -> None:
        """4 + 2: four shares go between, and a rank of the smaller host is in two of their rings."""
        inside, between = 3 * (l + S / 4 / b), L + S / 8 / (B / 2)

        assert seconds(Hierarchical(), "all_reduce", hosts_of(4, 2)) == about(2 * inside + 2 * between)


class TestTree:
    """A step is L + S / 2 K B; n = 2 ** h; all else is a count of steps."""

    @BOTH
    @pytest.mark.parametrize("pieces", [4, 16, 64])
    @pytest.mark.parametrize("h", [3, 4, 5, 6])
    def test_powers_of_two(self, network: NetworkBackend, pieces: int, h: int) -> None:
        fabric, step = hosts_of(*[1] * 2**h), L + S / (2 * pieces) / B

        broadcast = seconds(Tree(pieces), "broadcast", fabric, network)
        reduce = seconds(Tree(pieces), "reduce", fabric, network)
        all_reduce = seconds(Tree(pieces), "all_reduce", fabric, network)

        assert broadcast == about((2 * pieces + 2 * h - 1) * step)
        assert reduce == about((2 * pieces + 2 * h - 1) * step)
        assert all_reduce == about((4 * pieces + 4 * h - 6 - h % 2) * step)

    @pytest.mark.parametrize("n", range(3, 40))
    def test_any_number_of_ranks_fills_its_ports(self, n: int) -> None:
        """Every port has 2 K pieces each way to carry, and the trees are log2(n) deep."""
        fabric, step, depth = hosts_of(*[1] * n), L + S / 64 / B, (n - 1).bit_length()

        assert 64 * step * 0.999 < seconds(Tree(32), "broadcast", fabric) < (64 + 2 * depth) * step
        assert 64 * step * 0.999 < seconds(Tree(32), "reduce", fabric) < (64 + 2 * depth) * step
        assert 128 * step * 0.999 < seconds(Tree(32), "all_reduce", fabric) < (128 + 4 * depth) * step

    def test_many_pieces_reach_the_bandwidth(self) -> None:
        """2 S / B, which is what a ring of many ranks takes, without its latencies."""
        fabric = hosts_of(*[1] * 32)

        assert seconds(Tree(pieces=512), "all_reduce", fabric, size=10**10) == pytest.approx(2 * 10**10 / B, rel=0.02)
        assert seconds(Tree(pieces=1), "all_reduce", fabric, size=100) < seconds(Ring(), "all_reduce", fabric, size=100)


class TestChain:
    """K pieces follow one another over n - 1 hops."""

    @BOTH
    @pytest.mark.parametrize("kind", ["broadcast", "reduce"])
    @pytest.mark.parametrize("pieces", [1, 8, 64])
    @pytest.mark.parametrize("n", [2, 3, 8, 17])
    def test_from_and_to_a_root(self, network: NetworkBackend, kind: CollectiveKind, pieces: int, n: int) -> None:
        found = seconds(Ring(pieces=pieces), kind, hosts_of(*[1] * n), network)

        assert found == about((pieces + n - 2) * (L + S / pieces / B))


class TestPairs:
    """What every algorithm does alike."""

    @BOTH
    @pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
    def test_an_all_to_all_is_a_step_for_each_other_rank(self, network: NetworkBackend, n: int) -> None:
        fabric = hosts_of(*[1] * n)

        for algorithm in (Ring(), Tree(), HalvingDoubling(), Hierarchical()):
            assert seconds(algorithm, "all_to_all", fabric, network) == about((n - 1) * (L + S / n**2 / B))

    @BOTH
    @pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
    def test_a_send_receive_is_one_step(self, network: NetworkBackend, n: int) -> None:
        fabric = hosts_of(*[1] * n)

        for algorithm in (Ring(), Tree(), HalvingDoubling(), Hierarchical(), Direct()):
            assert seconds(algorithm, "send_recv", fabric, network) == about(L + S / n / B)
