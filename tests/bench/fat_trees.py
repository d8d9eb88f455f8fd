"""Fat trees of 100 Gb/s, and permutations on them. Imported by itself where memory is measured."""

from __future__ import annotations

from tests.sim.routed import flows_between
from xsim.fabric.graph import Cable, Graph
from xsim.sim.packets.flows import Flows

__all__ = ["MEGABYTE", "fat_tree", "permutation"]

RATE, DELAY_PS = 100 * 10**9, 1_000_000
MEGABYTE = 10**6


def permutation(radix: int) -> tuple[Graph, Flows]:
    """Each host of the fat tree sends to the one that stands half of all and one further."""
    hosts = radix**3 // 4
    graph = fat_tree(radix)
    return graph, flows_between(graph, [(host, (host + hosts // 2 + 1) % hosts, MEGABYTE, -1) for host in range(hosts)])


def fat_tree(radix: int) -> Graph:
    """Hosts, leaves, middle switches and cores, in this order."""
    half = radix // 2
    hosts, leaves, cores = radix * half * half, radix * half, half * half
    middle, core = hosts + leaves, hosts + 2 * leaves
    joins = [(host, hosts + host // half) for host in range(hosts)]
    joins += [(hosts + leaf, middle + leaf // half * half + up) for leaf in range(leaves) for up in range(half)]
    joins += [(middle + own, core + up * half + own % half) for own in range(leaves) for up in range(half)]
    cables = tuple(Cable(a, b, RATE, DELAY_PS) for a, b in joins)
    return Graph(core + cores, frozenset(range(hosts, core + cores)), cables)
