"""Small networks and lists of flows on which two models of a network can be compared."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Cable, Graph
from xsim.interop.flows import read_flows

__all__ = ["Scenario", "scenarios"]

RATE, DELAY_PS = 100 * 10**9, 1_000_000  # of every link, in bits per second
KB, MB = 10**3, 10**6


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Flows over a graph, and what they are called."""

    name: str
    graph: Graph
    flows: FlowList


def scenarios() -> Iterator[Scenario]:
    """Lone flows, incasts, rings and permutations on stars and fat trees of links of 100 Gb/s and 1 us."""
    tree, large = _fat_tree(4), _fat_tree(8)
    for target, size in ((1, MB), (2, MB), (15, MB), (15, 10 * KB), (15, 10 * MB)):
        links = {1: 2, 2: 4, 15: 6}[target]
        yield _scenario(f"{_size(size)} alone over {links} links", tree, [(0, target, size, -1)])
    for senders in (2, 16):
        ends = [(sender, senders, MB, -1) for sender in range(senders)]
        yield _scenario(f"{senders} to 1, 1 MB, star", _star(senders + 1), ends)
    yield _scenario("16 to 1, 1 MB, fat tree of 128", large, [(8 * i + 3, 0, MB, -1) for i in range(16)])
    for hosts, size, graph, where in (
        (8, MB, _star(8), "star"),
        (8, 4 * MB, _star(8), "star"),
        (8, MB, tree, "fat tree of 16"),
        (8, 4 * MB, tree, "fat tree of 16"),
        (16, MB, tree, "fat tree of 16"),
        (16, 4 * MB, tree, "fat tree of 16"),
        (64, 4 * MB, large, "fat tree of 128"),
    ):
        yield _scenario(f"ring of {hosts}, {_size(size)}, {where}", graph, _ring(hosts, size))
    for hosts, graph in ((16, tree), (128, large)):
        yield _scenario(f"permutation of {hosts}, 1 MB, fat tree of {hosts}", graph, _permutation(hosts))


def _scenario(name: str, graph: Graph, ends: Sequence[tuple[int, int, int, int]]) -> Scenario:
    """Flows as (source, target, bytes, the number of the one before or -1)."""
    lines = (f"{number} {src} {dst} {size} 0 {after}\n" for number, (src, dst, size, after) in enumerate(ends))
    return Scenario(name, graph, read_flows("".join(lines), name))


def _ring(hosts: int, size: int) -> list[tuple[int, int, int, int]]:
    """An all-reduce: each of as many pieces goes round, nearly twice."""
    steps = 2 * (hosts - 1)
    return [
        ((piece + step) % hosts, (piece + step + 1) % hosts, size // hosts, piece * steps + step - 1 if step else -1)
        for piece in range(hosts)
        for step in range(steps)
    ]


def _permutation(hosts: int) -> list[tuple[int, int, int, int]]:
    """Each host sends to one, and one sends to each; never to itself."""
    order = list(range(hosts))
    random.Random(0).shuffle(order)
    return [(host, order[(place + 1) % hosts], MB, -1) for place, host in enumerate(order)]


def _star(hosts: int) -> Graph:
    return Graph(hosts + 1, frozenset({hosts}), tuple(Cable(host, hosts, RATE, DELAY_PS) for host in range(hosts)))


def _fat_tree(k: int) -> Graph:
    """Hosts, edge switches, aggregation switches and cores, in this order."""
    half = k // 2
    hosts, edges = k * half * half, k * half
    aggregation, core = hosts + edges, hosts + 2 * edges
    ends = [(host, hosts + host // half) for host in range(hosts)]
    ends += [(hosts + edge, aggregation + edge // half * half + up) for edge in range(edges) for up in range(half)]
    ends += [(aggregation + own, core + up * half + own % half) for own in range(edges) for up in range(half)]
    vertices = core + half * half
    return Graph(vertices, frozenset(range(hosts, vertices)), tuple(Cable(a, b, RATE, DELAY_PS) for a, b in ends))


def _size(size: int) -> str:
    return f"{size // MB} MB" if size >= MB else f"{size // KB} KB"
