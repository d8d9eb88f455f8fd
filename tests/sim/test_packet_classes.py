"""Traffic classes: who goes first where several wait, and who waits for whom."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.oracles.packet_cases import one_way
from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.ndp import Ndp
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

RATE, DELAY_PS = 100 * 10**9, 1_000_000
PACKET_PS = 83_840  # 1048 bytes
PACKETS = 50
Order = Literal["round_robin", "strict"]


def star(hosts: int, slow: int | None = None) -> Graph:
    """Hosts on one switch; one of them may be so much slower."""
    rates = [RATE // 4 if host == slow else RATE for host in range(hosts)]
    return Graph(
        hosts + 1, frozenset({hosts}), tuple(Cable(host, hosts, rates[host], DELAY_PS) for host in range(hosts))
    )


def flow(graph: Graph, src: int, dst: int, traffic_class: int, packets: int = PACKETS) -> Flow:
    there, back = one_way(graph, src, dst), one_way(graph, dst, src)
    return Flow(src, dst, packets * 1000, 0, -1, there, back, traffic_class=traffic_class)


def played(graph: Graph, flows: list[Flow], settings: Settings) -> Outcome:
    return replay(graph, columns(flows), settings)


def arrival_ps(place: int) -> int:
    """Of the n-th packet over the last link of two, if that is busy from the first on."""
    return PACKET_PS + DELAY_PS + place * PACKET_PS + DELAY_PS


def test_in_strict_order_the_first_class_is_as_if_alone() -> None:
    graph = star(3)
    flows = [flow(graph, 0, 2, 1), flow(graph, 1, 2, 4)]

    found = played(graph, flows, Settings(class_order="strict"))

    assert found.receiver_end_ps.tolist() == [arrival_ps(PACKETS), arrival_ps(2 * PACKETS)]
    assert found.sender_end_ps[0] == played(graph, flows[:1], Settings()).sender_end_ps[0]


def test_in_turn_classes_have_equal_shares_however_many_flows_each_has() -> None:
    """Two flows against one: in one class a third each, in two a half for the one."""
    graph = star(4)

    def ends(*classes: int) -> list[int]:
        flows = [flow(graph, src, 3, number) for src, number in enumerate(classes)]
        return [int(end) for end in played(graph, flows, Settings()).receiver_end_ps]

    assert ends(3, 3, 3) == [arrival_ps(3 * PACKETS - 2), arrival_ps(3 * PACKETS - 1), arrival_ps(3 * PACKETS)]
    assert ends(1, 1, 2) == [arrival_ps(3 * PACKETS - 1), arrival_ps(3 * PACKETS), arrival_ps(2 * PACKETS)]
    assert ends(2, 2, 1) == [arrival_ps(3 * PACKETS - 1), arrival_ps(3 * PACKETS), arrival_ps(2 * PACKETS)]


@pytest.mark.parametrize("order", ["round_robin", "strict"])
def test_class_0_is_first_at_a_switch_in_either_order(order: Order) -> None:
    graph = star(3)
    flows = [flow(graph, 0, 2, 3), flow(graph, 1, 2, 0)]

    found = played(graph, flows, Settings(class_order=order)).receiver_end_ps

    assert found.tolist() == [arrival_ps(2 * PACKETS), arrival_ps(PACKETS + 1)], "behind one that was there already"


@pytest.mark.parametrize(("order", "second"), [("round_robin", 2 * PACKETS), ("strict", PACKETS + 1)])
def test_a_host_serves_its_flows_in_turn_or_the_first_class_first(order: Order, second: int) -> None:
    """The first packet of the flow that is listed first has left when the other begins."""
    graph = star(3)
    flows = [flow(graph, 0, 1, 5), flow(graph, 0, 2, 2)]

    found = played(graph, flows, Settings(class_order=order)).receiver_end_ps

    last = 2 * PACKETS - 1 if order == "round_robin" else 2 * PACKETS
    assert found.tolist() == [arrival_ps(last), arrival_ps(second)]


def test_a_class_that_is_paused_holds_up_no_other() -> None:
    """One flow to a slow host fills the switch, which pauses its sender; another flow of that sender goes elsewhere."""
    graph = star(3, slow=1)
    settings = Settings(buffer_bytes=300_000)

    def other_ps(*classes: int) -> tuple[int, int]:
        flows = [flow(graph, 0, dst, number, 1000) for dst, number in zip((1, 2), classes, strict=True)]
        found = played(graph, flows, settings)
        assert found.links.drops.sum() == 0
        assert found.links.pauses[0] > 0
        return int(found.receiver_end_ps[1]), int(found.links.paused_ps[0])

    alone_ps = arrival_ps(1000)
    (together_ps, _), (apart_ps, paused_ps) = other_ps(3, 3), other_ps(3, 4)
    assert together_ps > 3 * alone_ps
    assert alone_ps < apart_ps < 2 * alone_ps
    assert paused_ps > alone_ps


def test_what_is_beyond_the_memory_of_switches_pauses_nobody() -> None:
    graph = star(5)

    def pauses(number: int, order: Order) -> int:
        flows = [flow(graph, src, 4, number, 200) for src in range(4)]
        found = played(graph, flows, Settings(buffer_bytes=350_000, class_order=order))
        assert found.links.drops.sum() == 0
        return int(found.links.pauses.sum())

    assert pauses(0, "round_robin") == 0
    assert pauses(0, "strict") == pauses(3, "strict") == pauses(3, "round_robin") > 0


def test_acknowledgements_go_first_if_they_are_to() -> None:
    """One flow's acknowledgements share the last link with the data of two others, which wait there."""
    graph = star(4)
    flows = [flow(graph, 0, 1, 3), flow(graph, 2, 0, 3, 400), flow(graph, 3, 0, 3, 400)]

    def late_ps(*, first: bool) -> int:
        found = played(graph, flows, Settings(ack_priority=first))
        return int(found.sender_end_ps[0] - found.receiver_end_ps[0])

    alone_ps = 2 * (4_800 + DELAY_PS)
    assert late_ps(first=False) > alone_ps + 20 * PACKET_PS
    assert alone_ps <= late_ps(first=True) <= alone_ps + PACKET_PS + 4_800


def test_classes_that_nobody_can_serve_are_refused() -> None:
    graph = star(3)
    flows = [flow(graph, 0, 2, 1), flow(graph, 1, 2, 4)]

    with pytest.raises(SpecError, match=r"classes = \(1, 4\): switches that cut packets know no classes"):
        played(graph, flows, Settings(congestion=Ndp()))
    with pytest.raises(SpecError, match="ack_priority = True: switches that cut packets know no classes"):
        Settings(congestion=Ndp(), ack_priority=True)
    with pytest.raises(SpecError, match=r"classes = \(8,\): there are no such classes; choose among 0 to 7"):
        Settings(classes=(8,))
    with pytest.raises(SpecError, match=r"class_order = .fair.: classes are served in no such order"):
        Settings(class_order="fair")  # type: ignore[arg-type]
