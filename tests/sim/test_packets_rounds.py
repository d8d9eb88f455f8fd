"""Rounds of rings that are not simulated, since they are like the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import BANDWIDTHS
from tests.sim.test_packets_skip import be_eager
from tests.sim.traffic import all_reduce, fabric_of, point_to_point, star
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import TransferGraph
from xsim.families import build
from xsim.sim.contracts import NetworkStats
from xsim.sim.kernels import packet_columns as k
from xsim.sim.network.packet import Packet, _PacketNetwork

NIC = 12.5e9
US = 10**6
SLOW_MS = 2 * 11 * 3_000_000 / NIC * 1e3


def on_a_switch(bandwidths: Sequence[float], latencies_ps: Sequence[int] | None = None) -> Fabric:
    """Ranks on one switch, each link with a way back; of 1 us if nothing is said."""
    if latencies_ps is None:
        latencies_ps = [US] * len(bandwidths)
    wires = star(len(bandwidths))
    found = fabric_of(
        [rate for rate in bandwidths for _ in range(2)],
        [latency_ps for latency_ps in latencies_ps for _ in range(2)],
        {(a, b): wires.route(a, b) for a in range(len(bandwidths)) for b in range(len(bandwidths)) if a != b},
        len(bandwidths),
    )
    names = [name for rank in range(len(bandwidths)) for name in (f"rank{rank} -> switch", f"switch -> rank{rank}")]
    return replace(found, links=tuple(Link(name, "nic") for name in names))


def played(
    fabric: Fabric, submissions: Sequence[tuple[TransferGraph, int]], backend: Packet
) -> tuple[list[int], NetworkStats, int]:
    """When each graph is through, statistics, and how many events that took."""
    network = backend.open(fabric, 0)
    assert isinstance(network, _PacketNetwork)
    ends_ps = [0] * len(submissions)
    for graph, at_ps in submissions:
        handle = network.submit(graph)
        for party in range(graph.parties):
            network.release(handle, party, at_ps)
    while found := network.advance(None):
        for completion in found:
            ends_ps[completion.handle] = completion.at_ps
    return ends_ps, network.stats(), int(network._instances._engine.sim[k.EVENTS])


def both(
    fabric: Fabric, *submissions: tuple[TransferGraph, int], **options: Any
) -> tuple[tuple[list[int], NetworkStats, int], tuple[list[int], NetworkStats, int]]:
    """Packet by packet, and with skips; what must be the same in any case is."""
    exact, fast = (
        played(fabric, submissions, Packet(payload_bytes=9000, exact=exact, **options)) for exact in (True, False)
    )
    assert np.array_equal(exact[1].link_bytes, fast[1].link_bytes)
    assert exact[1].flows.counts.sum() == fast[1].flows.counts.sum()
    assert np.allclose(exact[1].link_busy_ps, fast[1].link_busy_ps, rtol=0.01, atol=10**6)
    return exact, fast


@pytest.mark.parametrize("bandwidths", [[NIC] * 12, [NIC, 2 * NIC, 4 * NIC] * 4], ids=["equal", "unlike"])
@pytest.mark.parametrize("size", [36_000_000, 36_000_017])
def test_most_rounds_are_like_the_last(bandwidths: list[float], size: int) -> None:
    exact, fast = both(on_a_switch(bandwidths), (all_reduce(range(12), size), 0))

    assert exact[0][0] > SLOW_MS * 1e9
    assert fast[0][0] == pytest.approx(exact[0][0], rel=2e-4)
    assert fast[2] < exact[2] / 3
    assert exact[1].packets is not None
    assert fast[1].packets is not None
    assert np.allclose(exact[1].packets.packets, fast[1].packets.packets, rtol=1e-3)
    longest_ps = [stats.flows.durations_ps.max() for _, stats, _ in (exact, fast)]
    assert longest_ps[1] == pytest.approx(longest_ps[0], rel=0.01)


def test_what_begins_meanwhile_begins_when_it_would() -> None:
    """Half way through, somebody else sends over two links of the ring."""
    begins_ps = int(SLOW_MS / 2 * 1e9)
    other = point_to_point((3, 7, 8_000_000))
    exact, fast = both(on_a_switch([NIC] * 12), (all_reduce(range(12), 36_000_000), 0), (other, begins_ps))

    alone_ps = 8_000_000 / NIC * 1e12
    assert exact[0][1] - begins_ps > 1.5 * alone_ps
    assert fast[0] == pytest.approx(exact[0], rel=0.01)
    assert fast[2] < exact[2] / 1.5


@given(
    bandwidths=st.lists(BANDWIDTHS.map(lambda bits_per_s: bits_per_s / 8), min_size=6, max_size=8),
    rings=st.lists(st.tuples(st.randoms(use_true_random=False), st.integers(4, 6)), min_size=1, max_size=2),
    sizes=st.lists(st.integers(200_000, 1_200_000), min_size=2, max_size=2),
    apart_ps=st.sampled_from([0, 0, 10**8]),
    flow_control=st.sampled_from(["pause", "pause", "credit"]),
    control=st.sampled_from(["none", "none", "dcqcn", "dctcp", "timely"]),
)
def test_rounds_that_are_skipped_end_when_they_would(
    bandwidths: list[float],
    rings: list[tuple[Any, int]],
    sizes: list[int],
    apart_ps: int,
    flow_control: Literal["pause", "credit"],
    control: str,
) -> None:
    """One ring or two, in one graph or in two, over the same links."""
    graphs = []
    for (dice, count), size in zip(rings, sizes, strict=False):
        ranks = dice.sample(range(len(bandwidths)), count)
        graphs.append(all_reduce(ranks, size * count + dice.randrange(count)))
    options: dict[str, Any] = {"flow_control": flow_control, "congestion": build("congestion", {"name": control})}
    submissions = [(graph, number * apart_ps) for number, graph in enumerate(graphs)]
    with pytest.MonkeyPatch.context() as patch:
        be_eager(patch)
        patch.setattr("xsim.sim.packets.rounds.FEWEST", 3)
        exact, fast = both(on_a_switch(bandwidths), *submissions, **options)

    assert fast[0] == pytest.approx(exact[0], rel=0.01)


@pytest.mark.parametrize("pace", [0.8, 1.2, 1.4, 1.7])
def test_rings_of_unlike_latencies_keep_their_own_pace(pace: float) -> None:
    """Where latency is most of a round, one that takes half as long again receives as much per round of the other."""
    latencies_ps = [3 * US] * 24 + [int(3 * US * pace)] * 24
    submissions = [(all_reduce(range(first, first + 24), 24_000), 0) for first in (0, 24)]
    with pytest.MonkeyPatch.context() as patch:
        be_eager(patch)
        exact, fast = both(on_a_switch([NIC] * 48, latencies_ps), *submissions)

    assert abs(exact[0][1] / exact[0][0] - 1) > 0.1
    assert fast[0] == pytest.approx(exact[0], rel=2e-3)


@given(
    latencies_ps=st.lists(st.sampled_from([US // 2, US, 3 * US // 2, 3 * US]), min_size=12, max_size=24),
    size=st.sampled_from([200, 1000, 20_000]),
    delay_ps=st.sampled_from([0, 0, 2 * US]),
    cut=st.integers(0, 8),
)
def test_rings_whose_rounds_are_mostly_latency_end_when_they_would(
    latencies_ps: list[int], size: int, delay_ps: int, cut: int
) -> None:
    """One ring, or two side by side; with and without the delay of a protocol before each round."""
    count = len(latencies_ps)
    parts = [range(cut), range(cut, count)] if cut >= 3 else [range(count)]
    graphs = [all_reduce(ranks, size * len(ranks)) for ranks in parts]
    submissions = [(replace(graph, delay_ps=np.full(graph.rows, delay_ps)), 0) for graph in graphs]
    with pytest.MonkeyPatch.context() as patch:
        be_eager(patch)
        patch.setattr("xsim.sim.packets.rounds.FEWEST", 3)
        exact, fast = both(on_a_switch([NIC] * count, latencies_ps), *submissions)

    assert fast[0] == pytest.approx(exact[0], rel=0.01)
