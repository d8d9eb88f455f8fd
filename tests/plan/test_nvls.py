"""Sums in the scale-up switch: what they take, and whose switch can.

One switch, S bytes, n ranks; between hosts latency L and bandwidth B, inside a host l and b.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import pytest

from tests.plan.test_collective_times import (
    BOTH,
    FLOW,
    HALVES,
    B,
    L,
    S,
    about,
    b,
    graph,
    hosts_of,
    l,
    seconds,
)
from tests.strategies import StandInSite
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.collective.nvls import Nvls
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.noted import NOT_SUMMED
from xsim.sim.contracts import NetworkBackend
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain


class TestNvls:
    """A port has latency l / 2; what is summed or spread crosses one."""

    @BOTH
    @pytest.mark.parametrize("pieces", [2, 10, 64])
    @pytest.mark.parametrize("n", [3, 4, 5, 8, 16])
    def test_all_reduce(self, network: NetworkBackend, pieces: int, n: int) -> None:
        whole, share = l / 2 + S / pieces / b, l / 2 + S / pieces / n / b

        found = seconds(Nvls(pieces), "all_reduce", hosts_of(n), network)

        assert found == about((pieces + 2) * whole + (pieces + 1) * share)

    def test_in_one_piece(self) -> None:
        """Up, fetch, put, down, one after the other."""
        assert seconds(Nvls(1), "all_reduce", hosts_of(8)) == about(2 * l + 2 * (S + S / 8) / b)

    @BOTH
    @pytest.mark.parametrize("n", [3, 4, 8])
    def test_halves(self, network: NetworkBackend, n: int) -> None:
        for kind in HALVES:
            assert seconds(Nvls(), kind, hosts_of(n), network) == about(l + (S + S / n) / b)

    @pytest.mark.parametrize("n", [3, 5, 8])
    def test_a_port_carries_the_tensor_and_a_share_each_way(self, n: int) -> None:
        """S + S / n; a ring has 2 (n - 1) / n S."""
        fabric, session = hosts_of(n), FLOW.open(hosts_of(n), 0)
        session.repeat(graph(Nvls(), "all_reduce", fabric), 1)

        carried = {
            int(sent)
            for link, sent in zip(fabric.links, session.stats().link_bytes, strict=True)
            if link.kind == "scale_up"
        }
        assert carried == {S + S // n}

    @BOTH
    @pytest.mark.parametrize(("hosts", "m"), [(2, 4), (3, 3), (4, 8)])
    def test_over_hosts(self, network: NetworkBackend, hosts: int, m: int) -> None:
        inside, between = l + (S + S / m) / b, 2 * (hosts - 1) * (L + S / m / hosts / B)

        assert seconds(Nvls(), "all_reduce", hosts_of(*[m] * hosts), network) == about(2 * inside + between)

    @pytest.mark.parametrize("fabric", [hosts_of(2), hosts_of(2, 2), hosts_of(1, 2, 1)])
    def test_of_two_ranks_it_is_the_ring(self, fabric: Fabric) -> None:
        for kind in get_args(CollectiveKind):
            assert seconds(Nvls(), kind, fabric) == seconds(Ring(), kind, fabric)

    def test_a_host_of_two_is_a_ring_inside(self) -> None:
        """4 + 2: the switch of the first is done before the ring of the second."""
        inside, between = l + S / 2 / b, L + S / 8 / (B / 2)
        switched = l + (S + S / 4) / b

        assert seconds(Nvls(), "all_reduce", hosts_of(4, 2)) == about(2 * max(inside, switched) + 2 * between)

    @pytest.mark.parametrize(("n", "gain"), [(5, 258.875 / 227.75), (6, 261.36 / 219.06), (8, 270.343 / 208.914)])
    def test_the_gain_measured_on_h200(self, n: int, gain: float) -> None:
        """8 GiB, NVLS on and off: github.com/stas00/ml-engineering/blob/744d01e18b79/network/README.md#L925."""
        fabric, size = hosts_of(n), 2**33

        found = seconds(Ring(), "all_reduce", fabric, size=size) / seconds(Nvls(), "all_reduce", fabric, size=size)

        assert found == pytest.approx(gain, rel=0.015)


@dataclass(frozen=True, slots=True)
class UnlikeHosts(StandInSite):
    """The devices of each host are of another kind."""

    names: tuple[str, ...] = ()

    def device(self, rank: int) -> DeviceSpec:
        return from_plain(DeviceSpec, self.names[self.fabric.hosts[rank]])


def test_it_tells_whose_switch_sums() -> None:
    site = UnlikeHosts(hosts_of(8, 8), names=("h100_80", "a100_80"))
    ranks = {"one": range(8), "other": range(8, 16), "both": range(16), "few": range(2)}
    ways = {name: Nvls().choose(Collective("all_reduce", tuple(own), range(S)), site)[1] for name, own in ranks.items()}

    assert ways == {
        "one": "summed in the switch",
        "other": NOT_SUMMED,
        "both": "summed in the switch of 1 of 2 hosts",
        "few": NOT_SUMMED,
    }


class TestHardwareOfNvls:
    """Switches of Hopper and later sum."""

    @staticmethod
    def rows(*names: str, fabric: Fabric, ranks: Sequence[int]) -> TransferGraph:
        site = UnlikeHosts(fabric, names=names)
        return Nvls().expand(Collective("all_reduce", tuple(ranks), range(S)), site)

    @pytest.mark.parametrize(
        ("fabric", "names", "problem"),
        [
            (hosts_of(8), ("a100_80",), "the scale-up switches of a100_80 do not sum"),
            (hosts_of(4, 4), ("v100_32", "a100_80"), "the scale-up switches of a100_80, v100_32 do not sum"),
            (hosts_of(8, scale_up="pcie"), ("h100_80",), "no host has a scale-up switch"),
            (hosts_of(8, scale_up="full_mesh"), ("b200",), "no host has a scale-up switch"),
        ],
    )
    def test_a_cluster_in_which_nobody_can_sum_is_refused(
        self, fabric: Fabric, names: tuple[str, ...], problem: str
    ) -> None:
        fix = "choose ring or auto; NVSwitch 3 (h100_80) and later can sum"
        with pytest.raises(SpecError, match=re.escape(f"collective = 'nvls': {problem}; {fix}")):
            self.rows(*names, fabric=fabric, ranks=range(8))

    @pytest.mark.parametrize("name", ["h100_80", "h200", "gh200", "b200"])
    def test_those_that_can_do(self, name: str) -> None:
        fabric = hosts_of(8)

        assert self.rows(name, fabric=fabric, ranks=range(8)).dst.max() >= len(
            fabric.hosts
        )  # to a vertex of the switch

    def test_a_host_that_cannot_is_a_ring_beside_one_that_can(self) -> None:
        fabric = hosts_of(8, 8)

        old = self.rows("h100_80", "a100_80", fabric=fabric, ranks=range(8, 16))
        both = self.rows("h100_80", "a100_80", fabric=fabric, ranks=range(16))
        summing = {int(rank) for rank in both.src[both.dst >= len(fabric.hosts)]}
        ring = Ring().expand(Collective("all_reduce", tuple(range(8, 16)), range(S)), StandInSite(fabric))
        assert old.src.tolist() == ring.src.tolist()
        assert summing == set(range(8))
