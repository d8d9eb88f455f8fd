"""How long collectives take between hosts with a NIC for each device: several rings, and relays inside a host.

S bytes; between hosts latency L and bandwidth B, inside a host l and b.
"""

from __future__ import annotations

import pytest

from tests.plan.test_collective_times import BOTH, FLOW, PORT, B, L, S, about, graph, hosts_of, l, seconds
from tests.sim.traffic import point_to_point
from xsim.fabric.topology.rail import Rail
from xsim.plan.collective.direct import Direct
from xsim.plan.collective.ring import Ring
from xsim.sim.contracts import NetworkBackend


class TestPxn:
    """Two hosts of four on four rails."""

    STRAIGHT, RELAYED = Rail(), Rail(pxn=True)

    def test_an_all_to_all_leaves_the_spines_alone(self) -> None:
        carried = {}
        for topology in (self.STRAIGHT, self.RELAYED):
            fabric = hosts_of(4, 4, topology=topology)
            session = FLOW.open(fabric, 0)
            session.repeat(graph(Direct(), "all_to_all", fabric), 1)
            sent = zip(fabric.links, session.stats().link_bytes.tolist(), strict=True)
            carried[topology] = sum(size for link, size in sent if link.kind == "spine")

        assert carried == {self.STRAIGHT: 2 * 24 * S // 64, self.RELAYED: 0}  # up and down; 24 of 56 pairs change rails

    @BOTH
    def test_a_relay_costs_two_ports_instead_of_two_uplinks(self, network: NetworkBackend) -> None:
        """The hop over the spine takes 1 ps a link, that over the scale-up fabric the latency of its two ports."""
        straight, relayed = (
            network.open(hosts_of(4, 4, topology=topology), 0).solo(point_to_point((0, 5, S)))
            for topology in (self.STRAIGHT, self.RELAYED)
        )

        assert straight * 1e-12 == about(L + S / B)
        assert relayed * 1e-12 == about(L + l + S / B)
        assert relayed - straight == 2 * PORT[1] - 2

    def test_narrow_spines_hold_up_only_what_crosses_them(self) -> None:
        """Both spines of a rail switch have 1 GB/s; an all-to-all has 12 of 16 blocks of S / 64 cross them each way."""
        slow, fast = (
            seconds(Direct(), "all_to_all", hosts_of(4, 4, topology=topology, uplink=1e9))
            for topology in (Rail(), Rail(pxn=True))
        )

        assert slow > 3 * fast
        assert fast == about(L + l + 4 * S / 64 / B)


class TestRingChannels:
    """Two hosts of four: a ring crosses on one NIC each way, four rings on all."""

    @pytest.mark.parametrize(("channels", "nics"), [(1, 1), (2, 2), (4, 4)])
    def test_more_rings_use_more_nics(self, channels: int, nics: int) -> None:
        fabric = hosts_of(4, 4)
        rings = graph(Ring(channels=channels), "all_reduce", fabric)
        leaving = [fabric.links[number].name for number in fabric.links_of(rings) if fabric.links[number].kind == "nic"]

        assert sum(name.startswith("host0.nic") for name in leaving) == nics
        assert seconds(Ring(channels=channels), "all_reduce", fabric) == about(14 * (L + S / 8 / nics / B))

    def test_broadcasts_too(self) -> None:
        fabric = hosts_of(4, 4)

        one, four = (seconds(Ring(channels=count, pieces=64), "broadcast", fabric) for count in (1, 4))
        assert four < one / 2.5

    @pytest.mark.parametrize("hosts", [2, 4])
    def test_every_crossing_is_on_its_rail(self, hosts: int) -> None:
        fabric = hosts_of(*[4] * hosts, topology=Rail())
        rings = graph(Ring(channels=4), "all_reduce", fabric)

        assert "spine" not in {fabric.links[number].kind for number in fabric.links_of(rings)}
