"""Small networks and traffic for tests of packet simulations: drawn at random, and built to deadlock."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.oracles.packet_values import Flow
from xsim.fabric.graph import Cable, Graph

__all__ = ["all_ways", "line", "one_way", "ring_of_switches", "traffic", "two_on_each_cable"]

BANDWIDTHS = st.sampled_from([25 * 10**9, 40 * 10**9, 100 * 10**9, 400 * 10**9])
DELAYS_PS = st.sampled_from([0, 1, 500_000, 1_000_000, 3_333_333])


def line(cables: list[tuple[int, int]]) -> Graph:
    """Host 0, switches, and one more host, joined by cables of (bit/s, delay in ps)."""
    last = len(cables)
    return Graph(last + 1, frozenset(range(1, last)), tuple(Cable(n, n + 1, *cable) for n, cable in enumerate(cables)))


def one_way(graph: Graph, src: int, dst: int, choice: int = 0) -> tuple[int, ...]:
    """Links of one of the shortest paths."""
    links = []
    while src != dst:
        hops = graph.next_hops(src, dst)
        link, src = hops[choice % len(hops)]
        links.append(link)
    return tuple(links)


def all_ways(graph: Graph, src: int, dst: int) -> tuple[tuple[int, ...], ...]:
    """Links of each of the shortest paths."""
    if src == dst:
        return ((),)
    return tuple(sorted((hop.link, *way) for hop in graph.next_hops(src, dst) for way in all_ways(graph, hop.end, dst)))


@st.composite
def traffic(draw: st.DrawFn, losses: Sequence[float] = (0.0,)) -> tuple[Graph, list[Flow]]:
    """Up to 9 flows, some behind others, to two of the hosts on leaves that up to three spines join; links unlike.

    Args:
        losses: Of these one for each cable.
    """
    spines, leaves, hosts = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(2, 6))
    vertices = hosts + leaves + spines
    joins = [(host, hosts + host % leaves) for host in range(hosts)]
    joins += [(hosts + leaf, hosts + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    cables = tuple(Cable(a, b, draw(BANDWIDTHS), draw(DELAYS_PS), draw(st.sampled_from(losses))) for a, b in joins)
    graph = Graph(vertices, frozenset(range(hosts, vertices)), cables)
    flows: list[Flow] = []
    for number in range(draw(st.integers(1, 9))):
        dst = draw(st.integers(0, 1))
        src = draw(st.sampled_from([host for host in range(hosts) if host != dst]))
        size_bytes = draw(st.one_of(st.integers(0, 3), st.integers(1, 25_000), st.integers(20_000, 25_000)))
        start_ps = draw(st.sampled_from([0, 0, 0, 1_000, 7_654_321]))
        after = draw(st.sampled_from([-1, -1, number - 1]))
        there, back = (one_way(graph, a, b, draw(st.integers(0, 2))) for a, b in ((src, dst), (dst, src)))
        flows.append(Flow(src, dst, size_bytes, start_ps, after, there, back, ways=all_ways(graph, src, dst)))
    return graph, flows


def ring_of_switches(count: int, bits_per_s: int = 10**11, delay_ps: int = 1_000_000) -> Graph:
    """Host i on switch ``count + i``; cable i from host i, cable ``count + i`` from its switch to the next."""
    access = [Cable(i, count + i, bits_per_s, delay_ps) for i in range(count)]
    around = [Cable(count + i, count + (i + 1) % count, bits_per_s, delay_ps) for i in range(count)]
    return Graph(2 * count, frozenset(range(count, 2 * count)), (*access, *around))


def two_on_each_cable(count: int, size_bytes: int) -> list[Flow]:
    """On ``ring_of_switches``: from each host to the one two switches on, all the same way round.

    Each cable between switches carries two flows, so that half of what comes waits in a buffer which the next buffer
    must empty, round the ring: with pauses and little memory, all of them end up waiting for one another.
    """
    flows = []
    for src in range(count):
        dst = (src + 2) % count
        around = [2 * (count + (src + step) % count) for step in range(2)]
        path = (2 * src, *around, 2 * dst + 1)
        flows.append(Flow(src, dst, size_bytes, 0, -1, path, tuple(link ^ 1 for link in reversed(path))))
    return flows
