"""What every congestion control owes: all bytes arrive once, no faster than the wires, the same again."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest
from hypothesis import given

from tests.sim.test_congestion import incast, star
from tests.sim.test_packets_twin import columns
from tests.sim.traffic import Timetable, play, same_stats, timetables, wire_bytes
from xsim.families import build, members, plain
from xsim.sim.contracts import CongestionControl
from xsim.sim.network.flow import Flow
from xsim.sim.network.packet import Packet
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

EACH = pytest.mark.parametrize("control", [pytest.param(cls(), id=name) for name, cls in members("congestion")])


@EACH
@pytest.mark.parametrize("tick_ps", [1, 1000])
def test_many_senders_share_what_the_receiver_can_take(control: CongestionControl, tick_ps: int) -> None:
    """A replay asserts itself that every byte has come once and that every buffer is empty."""
    settings = Settings(tick_ps=tick_ps, payload_bytes=4096, congestion=control)
    found = replay(star(4), columns(incast(4, 500_000)), settings)
    again = replay(star(4), columns(incast(4, 500_000)), pickle.loads(pickle.dumps(settings)))

    assert found.receiver_end_ps.max() > 4 * 500_000 * 80
    assert (found.sender_end_ps >= found.receiver_end_ps).all()
    assert (found.sender_end_ps == again.sender_end_ps).all()
    assert (found.links.sent_bytes == again.links.sent_bytes).all()
    assert found.links.drops.sum() == 0


@EACH
@given(timetables())
def test_training_traffic_is_complete_and_repeats(control: CongestionControl, timetable: Timetable) -> None:
    backend = Packet(payload_bytes=256, congestion=control)
    found, stats = play(backend.open(timetable.fabric, 3), timetable)
    again, again_stats = play(pickle.loads(pickle.dumps(backend)).open(timetable.fabric, 3), timetable)

    released = {(s, party) for s, (_, releases) in enumerate(timetable.submissions) for party, _, _ in releases}
    assert sorted((handle, party) for handle, party, _ in found) == sorted(released)
    assert found == again
    assert same_stats(stats, again_stats)
    expected = np.zeros_like(stats.link_bytes)
    for number, _ in timetable.submissions:
        graph = timetable.graphs[number]
        for src, dst, sent in zip(graph.src, graph.dst, wire_bytes(graph), strict=True):
            expected[list(timetable.fabric.route(int(src), int(dst)))] += sent
    assert np.array_equal(stats.link_bytes, expected)


@EACH
def test_what_is_spelled_out_builds_the_same(control: CongestionControl) -> None:
    spelled = plain(Packet(congestion=control))

    assert build("network", {"name": "packet", **spelled}) == Packet(congestion=control)


@pytest.mark.parametrize("owner", [*(cls for _, cls in members("congestion")), Packet, Flow, Settings])
def test_every_number_names_its_source_on_its_line(owner: type) -> None:
    """But what is of the run alone: classes of traffic, the clock, a seed, and a zero, which turns something off."""
    free = r"(\w*_class|tick_ps|seed|\w+: int = 0)"
    numbers = re.findall(r"^    (\w+: (?:int|float) = [^#\n]*)(#.*)?$", inspect.getsource(owner), re.MULTILINE)

    assert [line for line, source in numbers if not source and not re.match(free, line)] == []
