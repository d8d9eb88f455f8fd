"""Small fabrics, graphs and timetables for the tests of networks, and a driver that plays them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import PAYLOAD_PPM, Rows, TransferGraph, concatenate, line, ring
from xsim.plan.layout import even_cuts
from xsim.sim.contracts import Completion, Network, NetworkStats

__all__ = [
    "Timetable",
    "all_gather",
    "all_reduce",
    "fabric_of",
    "lone_rings",
    "play",
    "point_to_point",
    "same_stats",
    "star",
    "statistics_at",
    "timetables",
    "wire_bytes",
]

RANKS = 6


def fabric_of(
    bandwidths: Sequence[float], latencies: Sequence[int], paths: Mapping[tuple[int, int], tuple[int, ...]], ranks: int
) -> Fabric:
    """A fabric with exactly these links and ways; every rank is a host of its own."""
    return Fabric(
        bandwidth_bytes_per_s=np.array(bandwidths, dtype=np.float64),
        latency_ps=np.array(latencies, dtype=np.int64),
        links=tuple(Link(f"link{number}", "nic") for number in range(len(bandwidths))),
        hosts=tuple(range(ranks)),
        router=lambda src, dst: () if src == dst else paths[src, dst],
    )


def star(ranks: int, bandwidth: float = 1e9, latency_ps: int = 100) -> Fabric:
    """Every rank on one switch: link 2r up, link 2r + 1 down; the latency is that of one link."""
    paths = {(a, b): (2 * a, 2 * b + 1) for a in range(ranks) for b in range(ranks) if a != b}
    return fabric_of([bandwidth] * 2 * ranks, [latency_ps] * 2 * ranks, paths, ranks)


def point_to_point(*sends: tuple[int, int, int], parties: Sequence[Sequence[int]] | None = None) -> TransferGraph:
    """Independent transfers (src, dst, bytes); one party of all ranks unless said."""
    everyone = sorted({rank for src, dst, _ in sends for rank in (src, dst)})
    return concatenate([(line(src, dst, range(size)), [()]) for src, dst, size in sends], parties or [everyone])


def all_reduce(ranks: Sequence[int], size: int, parties: Sequence[Sequence[int]] | None = None) -> TransferGraph:
    """One ring, even pieces, reduce-scatter then all-gather."""
    return _ring(ranks, size, 2 * (len(ranks) - 1), parties)


def all_gather(ranks: Sequence[int], size: int) -> TransferGraph:
    """One ring, even pieces."""
    return _ring(ranks, size, len(ranks) - 1, None)


def _ring(ranks: Sequence[int], size: int, rounds: int, parties: Sequence[Sequence[int]] | None) -> TransferGraph:
    spans = [range(start, stop) for start, stop in pairwise(even_cuts(size, len(ranks)))]
    rows = ring(ranks, spans, rounds=rounds, add_rounds=len(ranks) - 1)
    return concatenate([(rows, [()] * len(rows))], parties or [ranks])


def wire_bytes(graph: TransferGraph) -> list[int]:
    """Bytes that each row takes of its links, round by round."""
    found = []
    for row, (base, count) in enumerate(zip(graph.cycle_base.tolist(), graph.cycle_len.tolist(), strict=True)):
        carried = [base + (row - base - r) % count if count else row for r in range(int(graph.rounds[row]))]
        sizes = [int(graph.stop[other] - graph.start[other]) for other in carried]
        found.append(sum((size * int(graph.wire_ppm[row]) + PAYLOAD_PPM // 2) // PAYLOAD_PPM for size in sizes))
    return found


class Timetable(NamedTuple):
    """What to submit and when: (call, graph, ((party, release), ...)), in order of call."""

    fabric: Fabric
    graphs: tuple[TransferGraph, ...]
    submissions: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]


def play(network: Network, timetable: Timetable, asked_ps: Iterable[int] = ()) -> tuple[list[Completion], NetworkStats]:
    """All completions of the timetable, in order, and the statistics at the end.

    The network is asked for what is new before each release, and also at the instants ``asked_ps``.
    """
    calls = sorted(
        (call_ps, handle, party, at_ps)
        for handle, (_, releases) in enumerate(timetable.submissions)
        for party, call_ps, at_ps in releases
    )
    for number, _ in timetable.submissions:
        network.submit(timetable.graphs[number])
    found: list[Completion] = []
    questions = sorted(asked_ps)
    for call_ps, handle, party, at_ps in calls:
        while questions and questions[0] <= call_ps:
            asked = questions.pop(0)
            found += _until(network, asked)
            assert network.next_ps is None or network.next_ps > asked
        found += _until(network, call_ps)
        network.release(handle, party, at_ps)
    found += _until(network, None)
    return found, network.stats()


def _until(network: Network, until_ps: int | None) -> Iterable[Completion]:
    while batch := network.advance(until_ps):
        assert len({completion.at_ps for completion in batch}) == 1
        assert batch == sorted(batch)
        yield from batch


def statistics_at(network: Network, timetable: Timetable, asked_ps: Iterable[int]) -> Iterable[NetworkStats]:
    """The statistics at each instant, all releases known from the start, and at the end."""
    for handle, (number, releases) in enumerate(timetable.submissions):
        network.submit(timetable.graphs[number])
        for party, _, at_ps in releases:
            network.release(handle, party, at_ps)
    for until_ps in (*asked_ps, None):
        for _ in _until(network, until_ps):
            pass
        yield network.stats()


def same_stats(left: NetworkStats, right: NetworkStats) -> bool:
    """Whether both agree in every number."""
    return (
        np.array_equal(left.link_bytes, right.link_bytes)
        and np.array_equal(left.link_busy_ps, right.link_busy_ps)
        and np.array_equal(left.flows.durations_ps, right.flows.durations_ps)
        and np.array_equal(left.flows.counts, right.flows.counts)
    )


@st.composite
def timetables(draw: st.DrawFn, most: int = 6) -> Timetable:
    """Random wires, graphs with lines, rings, switches and waits, and releases that come apart, some known ahead."""
    fabric = draw(_fabrics())
    graphs = tuple(draw(st.lists(_graphs(), min_size=1, max_size=3)))
    submissions = []
    for _ in range(draw(st.integers(1, most))):
        number = draw(st.integers(0, len(graphs) - 1))
        begin_ps = draw(st.integers(0, 8)) * 1000
        together = draw(st.booleans())
        releases = []
        for party in range(graphs[number].parties):
            call_ps = begin_ps if together else begin_ps + draw(st.integers(0, 4)) * 777
            releases.append((party, call_ps, call_ps + draw(st.sampled_from((0, 0, 0, 500, 1300)))))
        submissions.append((number, tuple(releases)))
    return Timetable(fabric, graphs, tuple(submissions))


@st.composite
def lone_rings(draw: st.DrawFn) -> Timetable:
    """Rings whose rows share no link, their ranks ready at different times, and transfers that come to them."""
    fabric = star(RANKS, 1e12, draw(st.sampled_from((0, 0, 100))))
    graphs = []
    for _ in range(draw(st.integers(1, 2))):
        ranks = draw(st.permutations(range(RANKS)))[: draw(st.integers(2, RANKS))]
        parties = draw(st.sampled_from(([ranks], [[rank] for rank in ranks])))
        rounds = draw(st.sampled_from((len(ranks) - 1, 2 * (len(ranks) - 1))))
        graphs.append(_ring(ranks, draw(st.sampled_from((5, 600, 1203, 3000))), rounds, parties))
    src, dst = draw(st.permutations(range(RANKS)))[:2]
    graphs.append(point_to_point((src, dst, draw(st.integers(1, 500)))))
    times = st.sampled_from((0, 100, 200, 300, 500, 501, 702, 1000, 1301, 2000))
    submissions = []
    for _ in range(draw(st.integers(1, 4))):
        number, call_ps = draw(st.integers(0, len(graphs) - 1)), draw(times)
        parties_ps = [call_ps + draw(times) for _ in range(graphs[number].parties)]
        submissions.append((number, tuple((party, call_ps, at_ps) for party, at_ps in enumerate(parties_ps))))
    return Timetable(fabric, tuple(graphs), tuple(submissions))


@st.composite
def _fabrics(draw: st.DrawFn) -> Fabric:
    count = draw(st.sampled_from((2, 4, 8, 30)))
    dice = random.Random(draw(st.integers(0, 10**6)))
    paths = {
        (a, b): tuple(dice.sample(range(count), dice.randint(1, min(3, count))))
        for a in range(2 * RANKS)
        for b in range(2 * RANKS)
        if a != b and min(a, b) < RANKS
    }
    bandwidths = [dice.choice((0.7e12, 1e12, 1.3e12, 3e12)) for _ in range(count)]
    return fabric_of(bandwidths, [dice.choice((0, 0, 10, 333)) for _ in range(count)], paths, RANKS)


@st.composite
def _graphs(draw: st.DrawFn) -> TransferGraph:
    parts: list[tuple[Rows, Sequence[Sequence[int]]]] = []
    rows = 0
    for _ in range(draw(st.integers(1, 4))):
        part = draw(_rings() if draw(st.booleans()) else _lines())
        waits = [
            draw(st.lists(st.integers(0, rows - 1), max_size=2, unique=True)) if rows else () for _ in range(len(part))
        ]
        parts.append((part, waits))
        rows += len(part)
    owners = draw(st.lists(st.integers(0, 2), min_size=RANKS, max_size=RANKS))
    parties = [[rank for rank, owner in enumerate(owners) if owner == party] for party in sorted(set(owners))]
    graph = concatenate(parts, parties)
    delays = st.sampled_from((0, 0, 10, 333))
    wires = st.sampled_from((10**6, 10**6, 1_066_667, 2 * 10**6))
    return replace(
        graph,
        delay_ps=np.array([draw(delays) for _ in range(graph.rows)], dtype=np.int64),
        wire_ppm=np.array([draw(wires) for _ in range(graph.rows)], dtype=np.int64),
    )


@st.composite
def _rings(draw: st.DrawFn) -> Rows:
    ranks = draw(st.permutations(range(RANKS)))[: draw(st.integers(1, RANKS))]
    spans = [range(start, stop) for start, stop in pairwise(even_cuts(draw(st.integers(0, 3000)), len(ranks)))]
    rounds = draw(st.integers(0, 2 * len(ranks)))
    return ring(ranks, spans, rounds=rounds, add_rounds=min(rounds, len(ranks) - 1))


def _lines() -> st.SearchStrategy[Rows]:
    """From rank to rank, or between a rank and a switch."""
    rank, vertex = st.integers(0, RANKS - 1), st.integers(RANKS, 2 * RANKS - 1)
    ends = st.one_of(st.tuples(rank, rank), st.tuples(rank, vertex), st.tuples(vertex, rank))
    size = st.one_of(st.integers(0, 3), st.integers(0, 3000))
    return st.builds(lambda ends, size: line(ends[0], ends[1], range(size)), ends, size)
