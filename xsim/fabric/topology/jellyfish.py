"""Switches joined at random, each with as many links as every other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.scale_out import ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.shortest import ShortestPaths, graph_of
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least
from xsim.spec.cluster import ClusterSpec

__all__ = ["Jellyfish"]

Pair = tuple[int, int]

SWAPS = 10  # per link: after so many a random regular graph has forgotten what it was


@dataclass(frozen=True, slots=True)
class Jellyfish:
    """A random regular graph of switches (Singla, Hong, Popa, Godfrey, NSDI 2012), shortest paths with ECMP.

    There is a switch for each ``scale_out.hosts_per_tor`` hosts; all links between switches are ``scale_out.uplink``.

    Attributes:
        degree: Links of a switch to others. If absent 4, or as many as there are other switches.
        seed: Of the graph.
    """

    degree: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.degree is not None:
            at_least(self, "degree", 1)

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        switch_of_port = [port.host // out.hosts_per_tor for port in ports(cluster)]
        switches = 1 + switch_of_port[-1]
        degree = min(4, switches - 1) if self.degree is None else self.degree
        _check(degree, switches)
        pairs = _regular(switches, degree, Random(self.seed))
        trunks = [Trunk(a, b, out.uplink) for a, b in pairs]
        names = [f"switch{switch}" for switch in range(switches)]
        return wire(cluster, ScaleOut(names, trunks, switch_of_port, ShortestPaths(graph_of(switches, trunks))))


def _check(degree: int, switches: int) -> None:
    """Refuse a degree that no connected graph of so many switches has."""
    problem = ""
    if degree >= switches > 1 or (switches == 1 and degree > 0):
        problem = f"a switch has but {switches - 1} others to be joined to"
    elif degree * switches % 2:
        problem = f"{switches} switches with as many links each leave one over"
    elif degree == 1 and switches > 2:
        problem = f"{switches} switches would fall apart into pairs"
    if problem:
        raise SpecError("topology.degree", degree, problem, "choose another, or other scale_out.hosts_per_tor")
    check_trunks(degree * switches // 2, "degree", degree)


def _regular(switches: int, degree: int, dice: Random) -> Sequence[Pair]:
    """A connected random graph in which every switch has ``degree`` neighbours, as pairs in order.

    Starting from a ring with chords, links are taken two by two and exchange their ends; this keeps all degrees. It
    goes on while the graph is in several parts.
    """
    offsets = [*range(1, degree // 2 + 1), *[switches // 2] * (degree % 2)]
    pairs = sorted({_pair(switch, (switch + offset) % switches) for switch in range(switches) for offset in offsets})
    if degree == switches - 1:
        return pairs  # there is no other
    known = set(pairs)
    while True:
        for _ in range(SWAPS * len(pairs)):
            first, second = (int(dice.random() * len(pairs)) for _ in range(2))
            (a, b), (c, d) = pairs[first], pairs[second]
            if dice.random() < 0.5:
                c, d = d, c
            if len({a, b, c, d}) == 4 and not {_pair(a, c), _pair(b, d)} & known:
                known -= {pairs[first], pairs[second]}
                pairs[first], pairs[second] = _pair(a, c), _pair(b, d)
                known |= {pairs[first], pairs[second]}
        if _connected(switches, pairs):
            return sorted(pairs)


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _connected(switches: int, pairs: Sequence[Pair]) -> bool:
    beside: list[list[int]] = [[] for _ in range(switches)]
    for a, b in pairs:
        beside[a].append(b)
        beside[b].append(a)
    seen = {0}
    queue = [0]
    for switch in queue:
        found = [other for other in beside[switch] if other not in seen]
        seen.update(found)
        queue += found
    return len(seen) == switches
