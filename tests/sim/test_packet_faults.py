"""Links that fail while packets are on them."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.plan.test_collective_times import S, graph, hosts_of
from tests.sim.traffic import Timetable, play, point_to_point
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.rail import Rail
from xsim.plan.collective.direct import Direct
from xsim.sim.congestion.ndp import Ndp
from xsim.sim.contracts import Completion, Fault, NetworkStats, Purpose
from xsim.sim.network.analytic import Analytic
from xsim.sim.network.flow import Flow
from xsim.sim.network.packet import Packet

Rule = Literal["hash", "round_robin", "rail", "spray", "adaptive"]
SOME = pytest.mark.parametrize("routing", ["hash", "round_robin", "spray", "adaptive"])
CONTROLS = pytest.mark.parametrize("flow_control", ["pause", "credit", "none"])
US = 10**6


def fabric_of_rails() -> Fabric:
    """Two hosts of four on four rails, under two spines."""
    return hosts_of(4, 4, topology=Rail(), uplink=12.5e9)


def run(fabric: Fabric, *faults: Fault, **options: Any) -> tuple[list[Completion], NetworkStats]:
    """An all-to-all; each sender goes back after 100 us."""
    network = Packet(retry_ps=100 * US, **options).open(fabric, 0, faults)
    everything = graph(Direct(), "all_to_all", fabric, S // 10)
    releases = tuple((party, 0, 0) for party in range(everything.parties))
    return play(network, Timetable(fabric, (everything,), ((0, releases),)))


@SOME
@CONTROLS
@pytest.mark.parametrize("until_ps", [None, 60 * US])
def test_what_is_lost_is_sent_another_way_and_all_comes(routing: Rule, flow_control: str, until_ps: int | None) -> None:
    fabric = fabric_of_rails()
    link = "segment0.rail1 -> spine0"
    options = {"routing": routing, "flow_control": flow_control}

    (whole,), straight = run(fabric, **options)
    (broken,), stats = run(fabric, Fault(20 * US, link, until_ps), **options)

    number = [each.name for each in fabric.links].index(link)
    assert broken.at_ps > whole.at_ps
    assert stats.link_bytes.sum() == straight.link_bytes.sum()
    if until_ps is None:
        assert stats.link_bytes[number] < straight.link_bytes[number]
    assert stats.packets is not None
    assert stats.packets.lost.sum() > 0


@pytest.mark.parametrize("routing", ["hash", "spray"])
@pytest.mark.parametrize("until_ps", [None, 60 * US])
def test_what_receivers_have_asked_for_comes_another_way(routing: Rule, until_ps: int | None) -> None:
    fabric = fabric_of_rails()
    options = {"routing": routing, "congestion": Ndp(queue_packets=2)}

    (whole,), straight = run(fabric, **options)
    (broken,), stats = run(fabric, Fault(20 * US, "segment0.rail1 -> spine0", until_ps), **options)

    assert broken.at_ps > whole.at_ps
    assert stats.link_bytes.sum() == straight.link_bytes.sum()
    assert stats.packets is not None
    assert stats.packets.lost.sum() > 0


@pytest.mark.parametrize("flow_control", ["pause", "credit"])
@pytest.mark.parametrize("order", ["round_robin", "strict"])
@pytest.mark.parametrize("until_ps", [None, 60 * US])
def test_every_class_goes_on_when_a_link_fails(
    flow_control: Literal["pause", "credit"], order: Literal["round_robin", "strict"], until_ps: int | None
) -> None:
    fabric = fabric_of_rails()
    classes = Packet(
        retry_ps=100 * US,
        flow_control=flow_control,
        sync_class=1,
        background_class=6,
        class_order=order,
        ack_priority=True,
    )
    purposes: tuple[Purpose, ...] = ("collective", "sync", "background")

    def ends(*faults: Fault) -> tuple[list[int], NetworkStats]:
        network = classes.open(fabric, 0, faults)
        for purpose in purposes:
            everything = graph(Direct(), "all_to_all", fabric, S // 30)
            handle = network.submit(everything, purpose)
            for party in range(everything.parties):
                network.release(handle, party, 0)
        found: list[int] = []
        while completions := network.advance(None):
            found += [completion.at_ps for completion in completions]
        return found, network.stats()

    (whole, straight), (broken, stats) = ends(), ends(Fault(20 * US, "segment0.rail1 -> spine0", until_ps))
    assert len(whole) == len(broken) >= len(purposes)
    assert broken[-1] > whole[-1]
    assert stats.link_bytes.sum() == straight.link_bytes.sum()
    assert stats.packets is not None
    assert stats.packets.lost.sum() > 0


def test_a_fault_that_comes_when_all_is_over_changes_nothing() -> None:
    fabric = fabric_of_rails()

    (whole,), _ = run(fabric)
    (late,), _ = run(fabric, Fault(10**12, "segment0.rail1 -> spine0"))

    assert late == whole


def test_a_host_waits_for_its_only_link_or_the_run_ends() -> None:
    fabric = fabric_of_rails()
    link = next(each.name for each in fabric.links if each.kind == "nic")

    for until_ps in (500 * US, 5000 * US):  # 50 times as long as senders wait before they go back
        (found,), _ = run(fabric, Fault(20 * US, link, until_ps))
        assert until_ps < found.at_ps < until_ps + 200 * US
    with pytest.raises(
        SpecError, match=r"faults = '.*nic0.*': at 20 us no way is left from rank \d to rank \d; let it"
    ):
        run(fabric, Fault(20 * US, link))


def test_faults_overlap() -> None:
    fabric = fabric_of_rails()
    link, other = "segment0.rail1 -> spine0", "spine0 -> segment0.rail1"

    (found,), _ = run(fabric, Fault(0, link, 50 * US), Fault(20 * US, other, 90 * US), Fault(90 * US, link, 91 * US))

    (one,), _ = run(fabric, Fault(0, link, 91 * US))
    assert found == one, "a fault of one direction is a fault of both"


def test_mistakes_are_named() -> None:
    fabric = fabric_of_rails()
    inside = next(each.name for each in fabric.links if each.kind == "scale_up")

    for link, message in (("spine7", "there is no such link; name a link between"), (inside, "it is inside a host")):
        with pytest.raises(SpecError, match=rf"faults\[0\].link = '.*': {message}"):
            Packet().open(fabric, 0, [Fault(0, link)])
    for backend in (Flow(), Analytic()):
        with pytest.raises(SpecError, match=r"faults = \('spine0',\): links of network=\w+ do not fail"):
            backend.open(fabric, 0, [Fault(0, "spine0")])
    with pytest.raises(SpecError, match="until = 5: it is no later than the failure"):
        Fault(5, "spine0", 5)
    with pytest.raises(SpecError, match="at = -1: nothing is before the beginning"):
        Fault(-1, "spine0")


def test_transfers_alone_are_priced_on_whole_links() -> None:
    fabric = fabric_of_rails()
    send = point_to_point((0, 4, S))

    broken = [Fault(0, "segment0.rail1 -> spine0")]
    networks = [Packet(exact=True).open(fabric, 0, faults) for faults in ((), broken)]

    assert networks[0].solo(send) == networks[1].solo(send)
