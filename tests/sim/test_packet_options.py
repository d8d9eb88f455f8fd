"""What can be set of packets: each option changes something, and one that could not is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracles.packet_cases import one_way
from tests.oracles.packet_values import Flow
from tests.sim.test_packet_classes import DELAY_PS, RATE, arrival_ps, star
from tests.sim.test_packets_in_hosts_twin import fabric_of
from tests.sim.test_packets_twin import columns
from tests.sim.traffic import point_to_point
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.families import build
from xsim.sim.contracts import Purpose
from xsim.sim.marking import Marking, markings_of
from xsim.sim.network.packet import Packet
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

HOSTS = 5
SIZE = 300_000
CROWDED = {"payload_bytes": 1000, "buffer_bytes": 600_000, "exact": True}


def incast(purposes: tuple[Purpose, ...] = ("collective",) * 4, **options: Any) -> tuple[list[int], dict[str, int]]:
    """When each of four hosts has sent its bytes to a fifth, and what links counted."""
    network = Packet(**{**CROWDED, **options}).open(fabric_of(star(HOSTS), ["nic"]), 0)
    handles = [network.submit(point_to_point((src, 4, SIZE)), purpose) for src, purpose in enumerate(purposes)]
    for handle in handles:
        network.release(handle, 0, 0)
    ends: dict[int, int] = {}
    while network.next_ps is not None:
        ends |= {handle: at_ps for handle, _, at_ps in network.advance(None)}
    packets = network.stats().packets
    assert packets is not None
    names = ("packets", "marks", "pauses", "paused_ps", "drops", "go_backs")
    return [ends[handle] for handle in handles], {name: int(getattr(packets, name).sum()) for name in names}


@pytest.mark.parametrize(
    ("option", "value", "counter"),
    [
        ("reserve_bytes", 0, "paused_ps"),
        ("headroom", 1, "paused_ps"),
        ("headroom_packets", 10, "paused_ps"),
        ("pause_shift", 5, "pauses"),
        ("resume_gap_bytes", 40_000, "pauses"),
        ("ecn", "100Gbps:1KB:1KB:1", "marks"),
        ("ack_every", 5000, "packets"),
    ],
)
def test_each_option_counts(option: str, value: Any, counter: str) -> None:
    usual, found = incast()[1], incast(**{option: value})[1]

    assert found[counter] != usual[counter]
    assert usual["pauses"] > 0
    assert usual["marks"] == usual["drops"] == 0
    assert bool(found["drops"]) == (option == "headroom"), "less than is under way when a pause is told"


def test_a_receiver_may_ask_again_sooner() -> None:
    lossy: dict[str, Any] = {"flow_control": "none", "buffer_bytes": 400_000, "retry_ps": 100_000_000}

    assert incast(**lossy)[1]["go_backs"] < incast(**lossy, nack_interval_ps=1_000_000)[1]["go_backs"]


def test_traffic_of_another_purpose_may_go_first_or_have_its_share() -> None:
    """Three gradient syncs and one hand-over: all alike, each class a half, and the hand-over as if alone."""
    purposes: tuple[Purpose, ...] = ("sync", "sync", "sync", "hand_over")
    packets, roomy = SIZE // 1000, {"buffer_bytes": 32 << 20}
    alike, _ = incast(purposes, **roomy)
    shared, _ = incast(purposes, **roomy, hand_over_class=5)
    first, _ = incast(purposes, **roomy, hand_over_class=2, class_order="strict")
    last, _ = incast(purposes, **roomy, hand_over_class=6, class_order="strict")

    assert alike[3] == arrival_ps(4 * packets)
    assert shared[3] == arrival_ps(2 * packets)
    assert first[3] == arrival_ps(packets + 1), "behind one packet that was there already"
    assert last[3] == arrival_ps(4 * packets)
    assert max(alike) == max(shared) == max(first) == max(last)
    assert incast(purposes, **roomy, collective_class=7) == incast(purposes, **roomy), "nobody is in that class"


def test_acknowledgements_of_data_that_waits_for_nobody_change_nothing() -> None:
    assert incast(ack_priority=True, buffer_bytes=32 << 20)[0] == incast(buffer_bytes=32 << 20)[0]


def test_thresholds_are_written_by_rate() -> None:
    assert markings_of("none") == {}
    assert markings_of("25Gbps:100KB:400KB:0.2  100Gbps:400KB:1600KB:1") == {
        25 * 10**9: Marking(100_000, 400_000, 0.2),
        100 * 10**9: Marking(400_000, 1_600_000, 1.0),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("100Gbps:400KB:0.2", "ecn = 100Gbps:400KB:0.2: it does not say how a port marks; write RATE:KMIN:KMAX"),
        ("100:400KB:1600KB:0.2", "ecn = '100': a quantity needs its unit"),
        ("100Gbps:1600KB:400KB:0.2", "the lower threshold is above the upper one; exchange them"),
        ("100Gbps:400KB:1600KB:20", "the chance 20 is no number from 0 to 1"),
        ("100Gbps:4KB:8KB:0 100Gbps:4KB:8KB:1", "the rate is 0, or there already; write each rate once"),
        (" ", "ecn = ' ': it says nothing; write none, or RATE:KMIN:KMAX:PMAX"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        Packet(ecn=text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sync_class": 0}, "sync_class = 0: traffic has no such class; choose 1 to 7"),
        ({"background_class": 8}, "background_class = 8: traffic has no such class"),
        ({"pause_shift": 41}, "pause_shift = 41: nothing of any memory would be left; choose 0 to 40"),
        ({"resume_gap_bytes": -1}, "resume_gap_bytes = -1: it is negative; choose at least 0"),
        ({"ack_every": 0}, "ack_every = 0: it is not positive"),
        ({"sample": "1 ps"}, "sample = 1 ps: links are looked at no more often than each ns; choose at least 1 ns"),
        ({"flow_control": "credit", "reserve_bytes": 0}, "reserve_bytes = 0: with flow_control=credit each link has a"),
        ({"flow_control": "none", "resume_gap_bytes": 1}, "resume_gap_bytes = 1: with flow_control=none nobody is pau"),
        ({"class_order": "strict"}, "class_order = 'strict': all packets are of one class; leave it out, or give some"),
        ({"routing": "spray", "nack_interval_ps": 1}, "nack_interval_ps = 1: a selective receiver never asks for what"),
        ({"congestion": "ndp", "pause_shift": 2}, "pause_shift = 2: switches that cut packets neither pause anybody"),
        ({"congestion": "ndp", "ecn": "none"}, "ecn = 'none': switches that cut packets neither pause anybody nor"),
        ({"congestion": "ndp", "sync_class": 2}, "classes = (2, 3): switches that cut packets know no classes"),
    ],
)
def test_what_makes_no_sense_or_has_no_say_is_refused(options: dict[str, object], message: str) -> None:
    if "congestion" in options:
        options = options | {"congestion": build("congestion", {"name": options["congestion"]})}
    with pytest.raises(SpecError) as refused:
        Packet(**options)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)


def test_switches_that_cut_packets_need_no_memory_for_pauses() -> None:
    """Long cables would ask for more headroom than there is memory."""
    graph = Graph(3, frozenset({2}), tuple(Cable(host, 2, RATE, 1000 * DELAY_PS) for host in range(2)))
    flow = Flow(0, 1, 5000, 0, -1, one_way(graph, 0, 1), one_way(graph, 1, 0))

    with pytest.raises(SpecError, match="buffer_bytes"):
        replay(graph, columns([flow]), Settings())
    found = replay(graph, columns([flow]), Settings(congestion=build("congestion", {"name": "ndp"})))
    assert found.links.drops.sum() == 0
