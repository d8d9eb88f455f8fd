"""Topologies of htsim, ``.topo``: trees of two or three tiers of switches, described tier by tier.

Host h hangs on ToR h // Radix_Down. The aggregation switches of a pod are joined to all of its ToRs; number p of them
to the cores l A + p, where A is how many a pod has. Each tier says how fast and how long its links *down* are. Keys are
written in any case, ``#`` begins a comment, and 0 counts as not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.interop.htsim import Failure
from xsim.interop.words import MOST_VERTICES, Line, integer, lines

__all__ = ["Tree", "TreeTier", "read_topology"]

_PS_PER_NS = 1000
_LARGEST = 10**9
_MOST_LINKS = 2**22
_TIERS = ("TOR", "AGG", "CORE")
_HEADS = ("nodes", "tiers", "podsize")
_REQUIRED = ("downlink_speed_gbps", "radix_down", "downlink_latency_ns")
_KEYS = (*_REQUIRED, "radix_up", "switch_latency_ns", "oversubscribed", "bundle")
_QUEUES = ("queue_up", "queue_down")  # the switches' buffers are not the topology's here


@dataclass(frozen=True, slots=True)
class TreeTier:
    """Switches of one tier, all alike.

    Attributes:
        radix_down, radix_up: Links down and up of each switch; a bundle of n counts n times.
        down_bits_per_s, down_latency_ps: Of each link down.
        latency_ps: Time to pass a switch.
        bundle: Parallel links in place of each one down; 1 in the lowest tier.
    """

    radix_down: int
    radix_up: int
    down_bits_per_s: int
    down_latency_ps: int
    latency_ps: int
    bundle: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole network of two or three tiers.

    Attributes:
        tiers: From the ToRs up.
    """

    hosts: int
    pod_hosts: int
    tiers: tuple[TreeTier, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many switches each tier has."""
        found = [self.hosts // self.tiers[0].radix_down]
        for below, above in pairwise(self.tiers):
            found.append(found[-1] * below.radix_up // above.radix_down)
        return tuple(found)

    def graph(self, failures: Iterable[Failure] = ()) -> Graph:
        """Hosts, then ToRs, then aggregation switches, then cores; without the links that are out of order.

        A switch passes packets at once in a graph: half of the time that it takes lies in each of its links, and each
        way through it has two of them.

        Raises:
            SpecError: There is no such link.
        """
        counts = self.counts
        base = (0, self.hosts, *(self.hosts + sum(counts[: n + 1]) for n in range(len(counts))))
        out_of_order = {self._place(failure, counts) for failure in failures}
        cables = [
            Cable(base[level] + low, base[level + 1] + high, tier.down_bits_per_s, self._delay_ps(level))
            for level, tier in enumerate(self.tiers)
            for place, (low, high) in enumerate(self._joined(level, counts))
            if (level, place) not in out_of_order
        ]
        return Graph(base[-1], frozenset(range(self.hosts, base[-1])), tuple(cables))

    def _delay_ps(self, level: int) -> int:
        """Of a link down from a tier."""
        crossed = self.tiers[max(0, level - 1) : level + 1]
        return self.tiers[level].down_latency_ps + sum(tier.latency_ps for tier in crossed) // 2

    def _joined(self, level: int, counts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """What the links down from a tier join: numbers in the tier below, and in it."""
        if level == 0:
            yield from ((host, host // self.tiers[0].radix_down) for host in range(self.hosts))
            return
        pods = self.hosts // self.pod_hosts
        below, bundle = self.tiers[level - 1], self.tiers[level].bundle
        per_pod, aggs = counts[level - 1] // pods, counts[1] // pods
        for low in range(counts[level - 1]):
            pod, own = divmod(low, per_pod)
            for up in range(below.radix_up // bundle):
                high = pod * aggs + up if level == 1 else up * aggs + own
                yield from [(low, high)] * bundle

    def _place(self, failure: Failure, counts: tuple[int, ...]) -> tuple[int, int]:
        """The tier above the link and its place among the links down from there."""
        level = _TIERS.index(failure.tier)
        shown = f"{failure.tier} {failure.switch} link {failure.link}"
        if level + 1 >= len(self.tiers):
            raise SpecError("failure", shown, "these switches have no links up", "name the switch below and its link")
        radix_up = self.tiers[level].radix_up
        if failure.switch >= counts[level] or failure.link >= radix_up:
            problem = f"there are {counts[level]} such switches with {radix_up} links up each"
            raise SpecError("failure", shown, problem, "name one of these")
        return level + 1, failure.switch * radix_up + failure.link


def read_topology(text: str, name: str = "topology") -> Tree:
    """The tree of a file; ``name`` is that of the file, for messages. Raises SpecError."""
    heads: dict[str, tuple[str, int]] = {}
    tiers: list[dict[str, tuple[str, int]]] = []
    for line in lines(text, name, comment="#"):
        key = line.words[0].lower()
        if len(line.words) != 2:
            raise SpecError(line.at, " ".join(line.words), "a line is a key and a number", "write Radix_Down 8, say")
        value = integer(line.at, line.words[1], line.words[0], 0, _LARGEST)
        if key == "tier":
            _next_tier(line, value, tiers)
        else:
            _note(line, key, value, tiers[-1] if tiers else heads, _KEYS if tiers else _HEADS)
    for key in _HEADS:
        if not heads.get(key, ("", 0))[1]:
            raise SpecError(f"{name} {key.capitalize()}", None, "it is missing", "write it above the first Tier")
    at, count = heads["tiers"]
    if count not in (2, 3) or count != len(tiers):
        problem = f"two or three tiers can be, and {len(tiers)} are described"
        raise SpecError(at, count, problem, "write Tiers 2 or Tiers 3, and describe each")
    found = tuple(_tier(f"{name} Tier {level}", own, top=level == count - 1) for level, own in enumerate(tiers))
    tree = Tree(heads["nodes"][1], heads["podsize"][1], found)
    _check(name, tree, tiers)
    return tree


def _next_tier(line: Line, value: int, tiers: list[dict[str, tuple[str, int]]]) -> None:
    if value != len(tiers) or value >= len(_TIERS):
        raise SpecError(line.at, value, "tiers come in order, from 0 to 2 at most", "describe them from the ToRs up")
    tiers.append({})


def _note(line: Line, key: str, value: int, found: dict[str, tuple[str, int]], known: tuple[str, ...]) -> None:
    if key in _QUEUES:
        raise SpecError(line.at, line.words[0], "buffers are no part of a topology here", "leave it out")
    if key not in known:
        raise SpecError(line.at, line.words[0], "there is no such key here", f"write one of {', '.join(known)}")
    if key in found:
        raise SpecError(line.at, line.words[0], f"it stands in {found[key][0]} too", "write it once")
    found[key] = (line.at, value)


def _tier(where: str, given: Mapping[str, tuple[str, int]], *, top: bool) -> TreeTier:
    values = {key: value for key, (_, value) in given.items()}
    for key in (*_REQUIRED, *(() if top else ("radix_up",))):
        if not values.get(key):
            raise SpecError(where, None, f"its {key} is missing", f"write {key} and a number above 0")
    return TreeTier(
        radix_down=values["radix_down"],
        radix_up=0 if top else values["radix_up"],
        down_bits_per_s=values["downlink_speed_gbps"] * 10**9,
        down_latency_ps=values["downlink_latency_ns"] * _PS_PER_NS,
        latency_ps=values.get("switch_latency_ns", 0) * _PS_PER_NS,
        bundle=values.get("bundle") or 1,
    )


def _check(name: str, tree: Tree, given: list[dict[str, tuple[str, int]]]) -> None:
    """Refuse counts that do not fit one another."""
    tor, pods = tree.tiers[0], tree.hosts // tree.pod_hosts
    if tree.hosts % tree.pod_hosts or tree.pod_hosts % tor.radix_down:
        raise SpecError(f"{name} Podsize", tree.pod_hosts, "pods, or the ToRs in them, are not whole", "correct it")
    if tor.bundle != 1:
        raise SpecError(f"{name} Tier 0", tor.bundle, "a host has one link", "leave out its Bundle")
    links = tree.hosts + sum(tier.radix_up * count for tier, count in zip(tree.tiers, tree.counts, strict=True))
    if tree.hosts + sum(tree.counts) > MOST_VERTICES or links > _MOST_LINKS:
        problem = f"it has more than {MOST_VERTICES} hosts and switches, or more than {_MOST_LINKS} links"
        raise SpecError(name, f"{tree.hosts} nodes", problem, "describe a smaller one")
    if len(tree.tiers) == 2 and pods != 1:
        raise SpecError(f"{name} Podsize", tree.pod_hosts, "two tiers are one pod", "write the number of Nodes")
    joined = (
        tree.pod_hosts // tor.radix_down,
        pods,
    )  # switches to which each of tier 1, of tier 2 has links down
    for level, (below, above) in enumerate(pairwise(tree.tiers), start=1):
        where, wanted = f"{name} Tier {level}", joined[level - 1] * above.bundle
        if above.radix_down != wanted:
            raise SpecError(where, above.radix_down, f"its Radix_Down has to be {wanted}", "correct it, or the Bundle")
        if below.radix_up % above.bundle:
            raise SpecError(where, above.bundle, f"it does not divide the {below.radix_up} links", "correct the Bundle")
    for level, (tier, above) in enumerate(pairwise(tree.tiers)):
        at, wanted = given[level].get("oversubscribed", ("", 0))
        down, up = tier.radix_down * tier.down_bits_per_s, tier.radix_up * above.down_bits_per_s
        if wanted and down != wanted * up:
            raise SpecError(at, wanted, f"radixes and speeds make it {down / up:g}", "correct one of them")
