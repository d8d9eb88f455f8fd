"""Slots of graphs that have ended are used again, and no number changes by it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import Timetable, all_reduce, play, point_to_point, same_stats, star, timetables
from xsim.fabric.fabric import Link
from xsim.families import build
from xsim.sim.contracts import Completion, NetworkStats
from xsim.sim.network.packet import Packet, _PacketNetwork
from xsim.sim.packets import engine
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.slots import Slots, Stretches

BACKENDS = {
    "none": Packet(payload_bytes=1000),
    "credit": Packet(payload_bytes=1000, flow_control="credit"),
    "lossy": Packet(payload_bytes=1000, flow_control="none", buffer_bytes=20_000, retry_ps=100_000_000),
    "dcqcn": Packet(payload_bytes=1000, congestion=build("congestion", {"name": "dcqcn"})),
    "ndp": Packet(payload_bytes=1000, congestion=build("congestion", {"name": "ndp"}), retry_ps=100_000_000),
    "exact": Packet(payload_bytes=1000, exact=True),
}
NAMES = [name for rank in range(6) for name in (f"rank{rank} -> switch", f"switch -> rank{rank}")]
FABRIC = replace(star(6, 12.5e9, 100_000), links=tuple(Link(name, "nic") for name in NAMES))
RING, INCAST = all_reduce(range(5), 50_000), point_to_point(*((rank, 5, 60_000) for rank in range(5)))


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_many_submissions_keep_the_tables_as_large_as_a_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = _played(name, 40), _played(name, 160)
    sizes = [_sizes(instances) for _, _, instances in (few, many)]
    monkeypatch.setattr(Slots, "over", lambda _: [])
    kept = _played(name, 160)

    assert sizes[1] == sizes[0]
    assert all(more > size for more, size in zip(_sizes(kept[2])[:3], sizes[1], strict=False)), "or this shows nothing"
    assert many[0] == kept[0]
    assert same_stats(many[1], kept[1])
    assert _same_counts(many[1], kept[1])
    if name == "lossy":
        assert many[1].packets is not None
        assert many[1].packets.go_backs.sum() > 0


@given(timetable=timetables(most=12), name=st.sampled_from(sorted(BACKENDS)), few=st.sampled_from((0, 64)))
def test_slots_that_are_used_again_as_soon_as_can_be_change_no_number(
    timetable: Timetable, name: str, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW", few)
        patch.setattr(Slots, "ready", lambda _, count: not count)
        patch.setattr(Slots, "make_room", _small)
        found = play(BACKENDS[name].open(timetable.fabric, 0), timetable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slots, "over", lambda _: [])
        kept = play(BACKENDS[name].open(timetable.fabric, 0), timetable)

    assert found[0] == kept[0]
    assert same_stats(found[1], kept[1])
    assert _same_counts(found[1], kept[1])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_stretches_hand_out_the_first_places_that_are_free(calls: list[tuple[bool, int]]) -> None:
    stretches, held, places = Stretches(), list[tuple[int, int]](), set[int]()
    for gives, count in calls:
        if gives and held:
            start, length = held.pop(count % len(held))
            stretches.give(start, length)
            places -= set(range(start, start + length))
        else:
            first = next(at for at in range(200) if places.isdisjoint(range(at, at + count)))
            fits = stretches.fits(count)
            start = stretches.take(count)
            assert not count or start == first or (not fits and start + count == stretches.end)
            assert places.isdisjoint(range(start, start + count))
            places |= set(range(start, start + count))
            held.append((start, count))
        assert stretches.free == stretches.end - len(places)


def _small(slots: Slots, count: int) -> None:
    """Only as much as is needed."""
    engine = slots._engine
    missing = max(0, slots._slots.end + count - len(engine.flows))
    engine.flows = np.concatenate((engine.flows, np.zeros((missing, engine.flows.shape[1]), dtype=np.int64)))
    engine.memory = np.concatenate((engine.memory, np.zeros((missing, engine.memory.shape[1]))))
    engine.ended = np.zeros(len(engine.flows), dtype=np.int64)


def _played(name: str, times: int) -> tuple[list[Completion], NetworkStats, Instances]:
    """Rings and incasts by turns, each from before the last has ended; what came, and who played it."""
    network = BACKENDS[name].open(FABRIC, 0)
    assert isinstance(network, _PacketNetwork)
    releases = tuple((turn % 2, ((0, turn * 40_000_000, turn * 40_000_000),)) for turn in range(times))
    found, stats = play(network, Timetable(FABRIC, (RING, INCAST), releases))
    return found, stats, network._instances


def _sizes(instances: Instances) -> tuple[int, ...]:
    engine = instances._engine
    return tuple(map(len, (engine.flows, engine.members, engine.turns, engine.arrived, engine.route)))


def _same_counts(left: NetworkStats, right: NetworkStats) -> bool:
    assert left.packets is not None
    assert right.packets is not None
    return all(
        np.array_equal(getattr(left.packets, field.name), getattr(right.packets, field.name))
        for field in fields(left.packets)
    )
