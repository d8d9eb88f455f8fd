"""Links that work by credit: what a buffer is worth, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import line, one_way, ring_of_switches, two_on_each_cable
from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.marking import Marking
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

BITS_PER_S, DELAY_PS = 10**11, 1_000_000
PACKET_BYTES = 1048
PACKET_PS = PACKET_BYTES * 80  # at 100 Gb/s


def alone(graph: Graph, size_bytes: int, settings: Settings) -> Outcome:
    src, dst = 0, graph.vertices - 1
    flow = Flow(src, dst, size_bytes, 0, -1, one_way(graph, src, dst), one_way(graph, dst, src))
    return replay(graph, columns([flow]), settings)


@given(
    rates=st.lists(st.sampled_from([25 * 10**9, BITS_PER_S, 400 * 10**9]), min_size=1, max_size=4),
    delay_ps=st.integers(0, 5_000_000),
    packets=st.integers(1, 400),
    payload_bytes=st.sampled_from((256, 1000, 9000)),
)
def test_the_usual_buffer_lets_a_flow_alone_run_as_if_there_were_no_credit(
    rates: list[int], delay_ps: int, packets: int, payload_bytes: int
) -> None:
    graph = line([(rate, delay_ps) for rate in rates])
    free, credited = (
        alone(graph, packets * payload_bytes, Settings(payload_bytes=payload_bytes, flow_control=each))
        for each in ("none", "credit")
    )

    assert credited.receiver_end_ps == free.receiver_end_ps
    assert credited.links.pauses.sum() == credited.links.drops.sum() == 0


@given(
    hops=st.integers(1, 3), room=st.integers(1, 40), rest=st.integers(0, PACKET_BYTES - 1), packets=st.integers(1, 99)
)
def test_a_small_buffer_is_filled_once_per_round_trip(hops: int, room: int, rest: int, packets: int) -> None:
    """A packet's room is free again when it has been sent, has come, has gone on at once, and the word is back."""
    settings = Settings(flow_control="credit", credit_bytes=room * PACKET_BYTES + rest)

    outcome = alone(line([(BITS_PER_S, DELAY_PS)] * hops), packets * 1000, settings)

    trips, place = divmod(packets - 1, room)
    round_trip_ps = max(PACKET_PS + 2 * DELAY_PS, room * PACKET_PS)
    last_starts_ps = trips * round_trip_ps + place * PACKET_PS
    assert outcome.receiver_end_ps.tolist() == [last_starts_ps + hops * (PACKET_PS + DELAY_PS)]


def incast(senders: int, size_bytes: int) -> tuple[Graph, Flows]:
    """All on one switch, the last of the vertices, and to the host before it."""
    cables = tuple(Cable(host, senders + 1, BITS_PER_S, DELAY_PS) for host in range(senders + 1))
    star = Graph(senders + 2, frozenset({senders + 1}), cables)
    ways = [(one_way(star, src, senders), one_way(star, senders, src)) for src in range(senders)]
    return star, columns([Flow(src, senders, size_bytes, 0, -1, *both) for src, both in enumerate(ways)])


def test_an_incast_is_neither_paused_nor_loses_anything() -> None:
    outcome = replay(*incast(8, 200_000), Settings(flow_control="credit", ecn={}))

    counts = outcome.links
    assert counts.pauses.sum() == counts.drops.sum() == counts.marks.sum() == outcome.go_backs.sum() == 0
    busy_ps = 8 * 200 * PACKET_PS  # the last link never rests
    assert outcome.receiver_end_ps.max() == busy_ps + PACKET_PS + 2 * DELAY_PS


def test_a_switch_that_is_mute_neither_pauses_nor_marks() -> None:
    """As the NVSwitches of SimAI: what has no room is lost."""
    graph, flows = incast(8, 500_000)
    settings = Settings(buffer_bytes=700_000, ecn={10**9: Marking(0, 0, 1.0)}, retry_ps=10**9)

    talking, mute = replay(graph, flows, settings).links, replay(graph, flows, settings, mute=graph.switches).links

    assert talking.pauses.sum() > 0 < talking.marks.sum()
    assert not talking.drops.any()
    assert mute.pauses.sum() == mute.marks.sum() == 0
    assert mute.drops.sum() > 0


def test_switches_that_wait_for_one_another_s_credit_are_named() -> None:
    flows = columns(two_on_each_cable(4, 2_000_000))

    with pytest.raises(SpecError, match=r"another: without credit for good are 0->4 .* network.credit_bytes, or"):
        replay(ring_of_switches(4), flows, Settings(flow_control="credit", credit_bytes=2 * PACKET_BYTES))


def test_the_credit_of_lost_packets_comes_back() -> None:
    graph = Graph(3, frozenset({1}), tuple(Cable(a, a + 1, BITS_PER_S, DELAY_PS, 0.05) for a in range(2)))
    settings = Settings(
        flow_control="credit",
        credit_bytes=4 * PACKET_BYTES,
        retry_ps=50_000_000,
        nack_interval_ps=1_000_000,
        retries=50,
    )

    outcome = alone(graph, 300_000, settings)  # the replay checks that all credit is there at the end

    assert outcome.links.lost.sum() > 10


def test_a_buffer_holds_a_packet() -> None:
    with pytest.raises(SpecError, match=r"credit_bytes = 1047: .*; choose at least 1048, a packet"):
        Settings(credit_bytes=PACKET_BYTES - 1)
    with pytest.raises(SpecError, match="flow_control = 'pfc': there is no such flow control"):
        Settings(flow_control="pfc")  # type: ignore[arg-type]
