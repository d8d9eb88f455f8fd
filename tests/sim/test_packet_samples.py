"""Looking at the links of a packet simulation changes nothing, and misses nothing."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xsim.sim.packets.samples as sampling
from tests.oracles.packet_cases import one_way, traffic
from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

STAR = Graph(4, frozenset({3}), tuple(Cable(host, 3, 10**11, 1_000_000) for host in range(3)))
INCAST = columns([Flow(src, 2, 100_000, 0, -1, one_way(STAR, src, 2), one_way(STAR, 2, src)) for src in (0, 1)])
PACKET_PS, LINK_PS = 83_840, 1_000_000


@given(case=traffic(), interval_ps=st.sampled_from([1_000, 77_000, 1_000_000, 10**9]), watched=st.booleans())
def test_what_is_looked_at_is_what_happens(case: tuple[Graph, list[Flow]], interval_ps: int, watched: bool) -> None:
    graph, flows = case
    told: list[tuple[int, int]] = []

    plain = replay(graph, columns(flows), Settings(tick_ps=1000))
    settings = Settings(tick_ps=1000, sample_ps=interval_ps)
    found = replay(graph, columns(flows), settings, (lambda *seen: told.append(seen)) if watched else None)

    assert same(found, plain)
    assert found.samples is not None
    sent = np.bincount(found.samples.link, found.samples.sent_bytes, minlength=2 * len(graph.cables))
    assert sent.tolist() == plain.links.sent_bytes.tolist()
    assert not (found.samples.time_ps % interval_ps).any()
    assert (np.diff(found.samples.time_ps) >= 0).all()
    assert told == sorted(told)
    assert not watched or told[-1][1] == len(flows)


def same(found: Outcome, plain: Outcome) -> bool:
    times = ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs", "busy_ps")
    return found.events == plain.events and all(
        (getattr(a, name) == getattr(b, name)).all()
        for a, b, names in (
            (found, plain, times),
            (found.links, plain.links, [field.name for field in fields(plain.links)]),
        )
        for name in names
    )


def test_a_queue_grows_as_two_come_in_where_one_goes_out() -> None:
    """Two hosts send at the rate of the one link to the third: of two packets that come, one waits."""
    found = replay(STAR, INCAST, Settings(sample_ps=1_000_000))

    assert found.samples is not None
    last = found.samples.link == 5  # from the switch to host 2
    time_ps, queued, sent = (getattr(found.samples, name)[last] for name in ("time_ps", "queued_bytes", "sent_bytes"))
    come = np.clip((time_ps - LINK_PS) // PACKET_PS, 0, 100)
    gone = np.clip((time_ps - LINK_PS) // PACKET_PS, 0, 200)
    assert queued.tolist() == ((2 * come - gone).clip(0) * 1048).tolist()
    assert np.cumsum(sent).tolist() == (gone * 1048).tolist()
    assert queued.max() > 90_000


def test_links_that_stay_idle_have_no_rows() -> None:
    """A flow in the first microseconds and one after a second: nobody looks in between."""
    flows = columns([Flow(0, 2, 1_000, at, -1, one_way(STAR, 0, 2), one_way(STAR, 2, 0)) for at in (0, 10**12)])

    found = replay(STAR, flows, Settings(sample_ps=1_000_000))

    assert found.samples is not None
    assert 8 <= len(found.samples.time_ps) <= 20


def test_too_many_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_ROWS", 50)

    with pytest.raises(SpecError, match="sample = 1000 ps: there are more than 50 samples of links; choose a longer"):
        replay(STAR, INCAST, Settings(sample_ps=1_000))


@pytest.mark.parametrize("sample_ps", [0, 1500])
def test_an_interval_is_a_whole_number_of_ticks(sample_ps: int) -> None:
    with pytest.raises(SpecError, match=f"sample = {sample_ps} ps: it is no whole number of the clock's ticks"):
        Settings(tick_ps=1000, sample_ps=sample_ps)
