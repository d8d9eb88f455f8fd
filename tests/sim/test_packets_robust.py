"""What no packet simulation may do, whatever it is asked: hang, lose a byte, or depend on how flows are numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import BANDWIDTHS, DELAYS_PS, one_way, ring_of_switches, two_on_each_cable
from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from tests.sim.traffic import point_to_point
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.graph import Cable, Graph
from xsim.families import build, names
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.contracts import Network
from xsim.sim.marking import Marking
from xsim.sim.network.packet import Packet
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

EAGER = {10**11: Marking(1_000, 40_000, 0.5)}
PAUSED = [name for name in names("congestion") if build("congestion", {"name": name}).asking is None]


@pytest.mark.parametrize("control", PAUSED)
def test_pauses_in_a_circle_are_found_under_every_congestion_control(control: str) -> None:
    """Also where alarms go on for ever, as those of DCQCN do; what waits, and where, is named."""
    congestion = build("congestion", {"name": control})
    settings = Settings(buffer_bytes=300_000, congestion=congestion, ecn=EAGER, window="none")

    flows = replace(columns(two_on_each_cable(3, 200_000)), number=np.array([70, 80, 90]))

    with pytest.raises(SpecError) as found:
        replay(ring_of_switches(3), flows, settings)

    error = found.value
    assert (error.field, error.value) == ("flows", (70, 80, 90))
    assert "packets wait for one another: paused for good are 0->3 (" in error.problem
    for a, b in ((3, 4), (4, 5), (5, 3)):
        assert f"{a}->{b} (" in error.problem
    assert error.fix.startswith("give switches more memory, network.buffer_bytes, or")


def test_a_circle_of_pauses_is_found_among_the_transfers_of_an_experiment() -> None:
    sends = point_to_point(*((rank, (rank + 2) % 4, 3_000_000) for rank in range(4)))
    network = Packet(buffer_bytes=100_000, congestion=Dcqcn()).open(ring_of_hosts(4), 0)
    network.release(network.submit(sends), 0, 0)

    with pytest.raises(SpecError) as found:
        network.advance(None)

    error = found.value
    assert (error.field, error.value) == ("network", "packet")
    assert error.problem.startswith("transfers host0 -> host2, host1 -> host3, host2 -> host0, host3 -> host1 cannot")
    assert "switch3 -> switch0 (" in error.problem


def ring_of_hosts(count: int) -> Fabric:
    """Each host on a switch of its own, the switches in a ring; everything goes the same way round."""
    ends = [(f"host{i}", f"switch{i}") for i in range(count)]
    ends += [(f"switch{i}", f"switch{(i + 1) % count}") for i in range(count)]
    links = tuple(Link(f"{a} -> {b}", "nic") for pair in ends for a, b in (pair, pair[::-1]))

    def route(src: int, dst: int) -> tuple[int, ...]:
        around = (2 * (count + (src + step) % count) for step in range((dst - src) % count))
        return () if src == dst else (2 * src, *around, 2 * dst + 1)

    wires = np.full(len(links), 12.5e9), np.full(len(links), 1_000_000)
    return Fabric(*wires, links, tuple(range(count)), route)


@pytest.mark.parametrize(
    ("retry_ps", "message"),
    [
        (None, "packets were lost that nobody asks for again, on 2->3, 3->2; "),
        (10**6, "its sender has gone back 3 times in a row to byte 0"),
    ],
)
def test_what_is_lost_for_good_is_found_though_alarms_go_on(retry_ps: int | None, message: str) -> None:
    """Every packet is marked by the slow port, so that DCQCN has cut its rate and wants to raise it again."""
    cables = (Cable(0, 1, 10**11, 0), Cable(1, 2, 10**10, 0), Cable(2, 3, 10**11, 0, loss=0.5))
    graph = Graph(4, frozenset({1, 2}), cables)
    flow = columns([Flow(0, 3, 60_000, 0, -1, (0, 2, 4), (5, 3, 1))])
    always = {10**9: Marking(0, 0, 1.0)}

    with pytest.raises(SpecError, match=message):
        replay(graph, flow, Settings(congestion=Dcqcn(), ecn=always, retry_ps=retry_ps, retries=3))


@pytest.mark.parametrize("completion", ["sender", "receiver"])
def test_flows_of_nothing_and_of_one_byte_and_to_oneself(completion: Literal["sender", "receiver"]) -> None:
    graph = Graph(3, frozenset({1}), (Cable(0, 1, 8 * 10**9, 1000), Cable(1, 2, 8 * 10**9, 1000)))
    there, back = (0, 2), (3, 1)
    flows = [
        Flow(0, 2, 0, 5_000, -1, there, back),
        Flow(0, 2, 1, 0, -1, there, back),
        Flow(0, 0, 10**6, 7_000, -1, (), ()),
        Flow(0, 2, 1, 0, 2, there, back),
    ]

    found = replay(graph, columns(flows), Settings(completion=completion))

    alone_ps = 2 * (49_000 + 1000)
    assert found.receiver_end_ps.tolist() == [5_000, alone_ps, 7_000, 49_000 + alone_ps]
    assert found.sender_end_ps.tolist()[:3] == [5_000, alone_ps + 2 * (60_000 + 1000), 7_000]


@pytest.mark.parametrize("cable", [(0, 0, 0.0), (10**9, -1, 0.0), (10**9, 0, 1.5)])
def test_a_cable_that_cannot_be_is_refused(cable: tuple[int, int, float]) -> None:
    with pytest.raises(SpecError, match="cable from 3 to 4"):
        Cable(3, 4, *cable)


@given(
    parts=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), BANDWIDTHS, DELAYS_PS), min_size=2, max_size=4),
    dice=st.randoms(use_true_random=False),
    control=st.sampled_from(names("congestion")),
)
def test_how_flows_are_numbered_does_not_matter_between_those_that_share_no_link(
    parts: list[tuple[int, int, int, int]], dice: Random, control: str
) -> None:
    """Each part is a star of its own with some flows to its first host; flows of one part keep their order."""
    graph, flows, part = stars(parts)
    settings = Settings(congestion=build("congestion", {"name": control}), ecn=EAGER)
    order = list(range(len(flows)))
    dice.shuffle(order)
    inside = {own: iter([row for row in range(len(flows)) if part[row] == own]) for own in set(part)}
    order = [next(inside[part[row]]) for row in order]

    expected, found = (replay(graph, columns(listed), settings) for listed in (flows, [flows[row] for row in order]))

    for name in ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs"):
        assert getattr(found, name).tolist() == getattr(expected, name)[order].tolist(), name
    assert (found.links.sent_bytes == expected.links.sent_bytes).all()
    assert (found.links.marks == expected.links.marks).all()


def stars(parts: Sequence[tuple[int, int, int, int]]) -> tuple[Graph, list[Flow], list[int]]:
    """Stars of (senders, flows per sender, bit/s, delay), the flows, and the star of each flow."""
    ends, first = list[tuple[int, int, int, int]](), 0
    switches, sends = list[int](), list[tuple[int, int, int]]()
    for number, (senders, count, bits_per_s, delay_ps) in enumerate(parts):
        switch = first + senders + 1
        switches.append(switch)
        ends += [(host, switch, bits_per_s, delay_ps) for host in range(first, switch)]
        sends += [(number, host, first) for _ in range(count) for host in range(first + 1, switch)]
        first = switch + 1
    graph = Graph(first, frozenset(switches), tuple(Cable(*end) for end in ends))
    flows = [
        Flow(src, dst, 3_000 * (1 + row % 5), 0, -1, one_way(graph, src, dst), one_way(graph, dst, src))
        for row, (_, src, dst) in enumerate(sends)
    ]
    return graph, flows, [number for number, *_ in sends]


@given(order=st.permutations(range(6)), size_bytes=st.integers(1, 40_000), control=st.sampled_from(names("congestion")))
def test_equal_flows_from_equal_hosts_end_at_the_same_instants_however_they_are_numbered(
    order: list[int], size_bytes: int, control: str
) -> None:
    """Who is first among equals is decided by the order in which they are scheduled, that of their list."""
    graph, flows, _ = stars([(6, 1, 10**11, 500_000)])
    equal = [Flow(flow.src, flow.dst, size_bytes, 0, -1, flow.path, flow.back) for flow in flows]
    settings = Settings(congestion=build("congestion", {"name": control}), ecn={10**9: Marking(3000, 3000, 1.0)})

    expected, found = (replay(graph, columns(listed), settings) for listed in (equal, [equal[row] for row in order]))

    assert np.sort(found.receiver_end_ps).tolist() == np.sort(expected.receiver_end_ps).tolist()
    assert found.receiver_end_ps.tolist() == expected.receiver_end_ps.tolist()


def test_windows_that_no_acknowledgement_fits_into_are_told_from_losses() -> None:
    graph = Graph(3, frozenset({2}), (Cable(0, 2, 10**11, 10**6), Cable(1, 2, 10**11, 10**6)))
    flow = columns([Flow(0, 1, 10**6, 0, -1, (0, 3), (2, 1))])

    with pytest.raises(SpecError, match=r"windows are full, and smaller than .* network.ack_every; lower network.ack"):
        replay(graph, flow, Settings(window="bdp", ack_every=900_000))


def test_senders_are_patient_while_a_full_queue_drains() -> None:
    """32 MiB take 27 ms at 10 Gb/s, and half a millisecond lies between two tries."""
    network = into_one_host(10**9 * 10 / 8, 8_000_000, Packet(flow_control="none"))

    ((_, _, at_ps),) = network.advance(None)

    assert at_ps > 8 * 8_000_000 * 800


def test_a_sender_that_gives_up_names_the_full_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes back sooner than the queue of eight to one is through."""
    monkeypatch.setattr("xsim.sim.network.packet.LEAST_RETRIES", 2)
    monkeypatch.setattr("xsim.sim.network.packet.DRAINED", 0)
    network = into_one_host(12.5e9, 10**7, Packet(flow_control="none", buffer_bytes=1_000_000, retry_ps=10**7))

    with pytest.raises(
        SpecError, match="2 times in a row, and queues were too full for packets that came by host1 -> "
    ):
        network.advance(None)


@pytest.mark.parametrize(("congestion", "tries"), [("none", 32), ("dctcp", 100)])
def test_patience_is_as_long_as_a_queue_takes_to_drain(congestion: str, tries: int) -> None:
    """Twice 1 MB at 100 Gb/s, as often as 5 us go into that; where senders slow down it does not matter."""
    found = set[int]()
    control = build("congestion", {"name": congestion})
    backend = Packet(flow_control="none", buffer_bytes=1_000_000, retry_ps=5 * 10**6, congestion=control)
    with pytest.MonkeyPatch.context() as patch:
        opened = Instances.__init__

        def noted(self: Instances, fabric: Fabric, settings: Settings, *rest: Any) -> None:
            found.add(settings.retries)
            opened(self, fabric, settings, *rest)

        patch.setattr(Instances, "__init__", noted)
        into_one_host(12.5e9, 1000, backend)

    assert max(found) == tries


def into_one_host(bytes_per_s: float, size_bytes: int, backend: Packet) -> Network:
    """Eight hosts on a switch begin to send to a ninth."""
    links = tuple(Link(name, "nic") for host in range(9) for name in (f"host{host} -> switch", f"switch -> host{host}"))
    wires = np.full(len(links), bytes_per_s), np.full(len(links), 1_000_000)
    fabric = Fabric(*wires, links, tuple(range(9)), lambda src, dst: () if src == dst else (2 * src, 2 * dst + 1))
    network = backend.open(fabric, 0)
    network.release(network.submit(point_to_point(*((rank, 0, size_bytes) for rank in range(1, 9)))), 0, 0)
    return network
