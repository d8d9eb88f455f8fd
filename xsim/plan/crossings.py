"""How fast some ranks can send to and receive from the others, and how they hang on the wires.

A part of the ranks is parted from the others by sets of links of which every route across uses one: those next to its
ranks, or farther out, where they join at NICs and uplinks. The narrowest counts.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import fsum, inf
from typing import Literal

from xsim.fabric.fabric import Fabric

__all__ = ["Border", "Crossings", "Part", "Shapes"]

Part = frozenset[int]
Way = Literal["out", "into"]
Route = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Border:
    """What lies between a part and the other ranks, in one direction.

    Attributes:
        bytes_per_s: No more passes; infinite if nothing is known.
        latency_ps: No route across takes less.
    """

    bytes_per_s: float
    latency_ps: int


class Crossings:
    """The borders among some ranks.

    Cost: as many routes as there are pairs of ranks on one host; per border, as many steps as the part has ranks.
    """

    def __init__(self, fabric: Fabric, ranks: Iterable[int]) -> None:
        self._fabric = fabric
        self.ranks = tuple(sorted(ranks))
        self._gates = {rank: fabric.gate(rank) for rank in self.ranks}
        self._hosts = _grouped((fabric.hosts[rank], rank) for rank in self.ranks)
        self._leaves = {gate.leaf: gate for gate in self._gates.values()}
        self._racks = self._find_racks()
        self._rack_of = {rank: number for number, rack in enumerate(self._racks) for rank in rack}
        self._inner = {
            (a, b): fabric.route(a, b) for members in self._hosts.values() for a in members for b in members if a != b
        }
        self._nearest_ps = {way: min(map(self._latency_ps, self._chains(self.ranks, way))) for way in _WAYS}
        crossed = self._leaves if len(self._racks) > 1 else ()
        self._trunks = {(leaf, way): self._trunk(leaf, way) for leaf in crossed for way in _WAYS}
        self._trunk_ps = {way: min((self._trunks[leaf, way][1] for leaf in crossed), default=0) for way in _WAYS}

    def partitions(self) -> tuple[tuple[Part, ...], tuple[Part, ...], tuple[Part, ...]]:
        """All ranks by device, by host, and by rack: hosts that reach each other without a spine."""
        devices = tuple(frozenset((rank,)) for rank in self.ranks)
        return devices, tuple(map(frozenset, self._hosts.values())), self._racks

    def summed(self, parts: Collection[Part]) -> bool:
        """Whether a scale-up switch, which can sum and multicast, joins ranks of several of ``parts``."""
        switches = self._fabric.switches
        joined = (
            [number for part in parts for number in {switches[rank] for rank in part} if number >= 0]
            if switches
            else []
        )
        return len(set(joined)) < len(joined)

    def border(self, part: Part, way: Way) -> Border:
        """What goes ``out`` of, or ``into``, ``part``, which must not be all ranks."""
        near: set[int] = set()
        widths: list[float] = []
        latencies_ps: list[int] = []
        for host, inside in _grouped((self._fabric.hosts[rank], rank) for rank in part).items():
            others = [rank for rank in self._hosts[host] if rank not in part]
            pairs = [(a, b) if way == "out" else (b, a) for a in inside for b in others]
            if pairs:
                routes = [self._inner[pair] for pair in pairs]
                widths.append(min(map(self._sum, _cuts(routes))))
                near |= {route[0 if way == "out" else -1] for route in routes}
                latencies_ps.append(min(map(self._latency_ps, routes)))
        if len(self._hosts) > 1:
            width, latency_ps, links = self._beyond(part, way)
            widths.append(width)
            near |= links
            latencies_ps.append(latency_ps)
        total = fsum(widths)
        return Border(min(total, self._sum(near)) if total < inf else inf, min(latencies_ps))

    def _beyond(self, part: Part, way: Way) -> tuple[float, int, set[int]]:
        """Width and latency between ``part`` and other hosts, and the links next to its ranks."""
        chains = self._chains(part, way)
        latency_ps = min(map(self._latency_ps, chains)) + self._nearest_ps[_OPPOSITE[way]]
        near = {chain[0] for chain in chains if chain}
        if not self._is_racks(part):
            return self._joined(chains), latency_ps, near
        members = _grouped((self._gates[rank].leaf, rank) for rank in part)
        widths = [
            min(self._joined(self._chains(ranks, way)), self._trunks[leaf, way][0]) for leaf, ranks in members.items()
        ]
        trunk_ps = min(self._trunks[leaf, way][1] for leaf in members)
        return fsum(widths), latency_ps + trunk_ps + self._trunk_ps[_OPPOSITE[way]], near

    def _chains(self, ranks: Collection[int], way: Way) -> list[Route]:
        """Of each rank its links to or from the leaf, from the rank outwards."""
        gates = [self._gates[rank] for rank in ranks]
        return [gate.out for gate in gates] if way == "out" else [gate.into[::-1] for gate in gates]

    def _joined(self, chains: Iterable[Route]) -> float:
        """Bytes per second through chains that join at the links which they share."""
        widths = dict.fromkeys(chains, inf)
        while any(widths):
            outer: dict[Route, list[float]] = {}
            for chain, width in widths.items():
                own = min(width, float(self._fabric.bandwidth_bytes_per_s[chain[0]])) if chain else width
                outer.setdefault(chain[1:], []).append(own)
            widths = {chain: fsum(joined) for chain, joined in outer.items()}
        return fsum(widths.values())

    def _is_racks(self, part: Part) -> bool:
        """Whether ``part`` consists of whole racks, so that all that leaves it passes a spine."""
        if len(self._racks) == 1:
            return False
        return sum(len(self._racks[number]) for number in {self._rack_of[rank] for rank in part}) == len(part)

    def _find_racks(self) -> tuple[Part, ...]:
        racks: list[tuple[set[int], set[int]]] = []  # leaves, ranks
        for members in self._hosts.values():
            leaves, ranks = {self._gates[rank].leaf for rank in members}, set(members)
            for rack in [rack for rack in racks if rack[0] & leaves]:
                leaves |= rack[0]
                ranks |= rack[1]
                racks.remove(rack)
            racks.append((leaves, ranks))
        return tuple(frozenset(ranks) for _, ranks in racks)

    def _trunk(self, leaf: int, way: Way) -> tuple[float, int]:
        """Width of all links between a leaf and the spines, and the least latency of one."""
        links = self._leaves[leaf].up if way == "out" else self._leaves[leaf].down
        return self._sum(links), min(int(self._fabric.latency_ps[link]) for link in links)

    def _sum(self, links: Iterable[int]) -> float:
        return fsum(float(self._fabric.bandwidth_bytes_per_s[link]) for link in links)

    def _latency_ps(self, links: Iterable[int]) -> int:
        return sum(int(self._fabric.latency_ps[link]) for link in links)


_WAYS: tuple[Way, Way] = ("out", "into")
_OPPOSITE: dict[Way, Way] = {"out": "into", "into": "out"}


def _cuts(routes: Sequence[Route]) -> Iterator[set[int]]:
    """Sets of links of which every route uses one: so many links from its start or its end, at most to its middle."""
    for depth in range((max(map(len, routes)) + 1) // 2):
        yield {route[min(depth, (len(route) - 1) // 2)] for route in routes}
        yield {route[max(len(route) - 1 - depth, len(route) // 2)] for route in routes}


def _grouped(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """How ranks hang on the wires, whichever they are: equal shapes have equal borders.

    A shape names hosts, leaves and links by the order in which they come, and the links by what they are.
    """

    fabric: Fabric
    _kinds: dict[Hashable, int] = field(default_factory=dict)
    _leaves: dict[int, int] = field(default_factory=dict)
    _ranks: dict[int, tuple[tuple[Hashable, ...], int]] = field(default_factory=dict)
    _hosts: dict[tuple[int, ...], int] = field(default_factory=dict)
    _groups: dict[tuple[int, ...], tuple[int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def of(self, groups: Sequence[tuple[int, ...]]) -> Hashable:
        """The shape of ``groups`` of ranks in this order."""
        found = [self._group(ranks) for ranks in groups]
        if len({host for _, hosts, _ in found for host in hosts}) < sum(len(hosts) for _, hosts, _ in found):
            return "together", self._shape(dict.fromkeys(rank for ranks in groups for rank in ranks))
        number: dict[int, int] = {}  # groups that share no host share nothing but leaves
        return "apart", tuple(
            [(kind, tuple([number.setdefault(leaf, len(number)) for leaf in leaves])) for kind, _, leaves in found]
        )

    def _group(self, ranks: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Kind, hosts and leaves of ``ranks``, the latter in the order in which they come."""
        if ranks not in self._groups:
            hosts, leaves = dict.fromkeys(map(self.fabric.hosts.__getitem__, ranks)), dict[int, None]()
            for rank in ranks:
                leaves[self.fabric.gate(rank).leaf] = None
            self._groups[ranks] = self._kind(self._shape(ranks)), tuple(hosts), tuple(leaves)
        return self._groups[ranks]

    def _shape(self, ranks: Collection[int]) -> Hashable:
        number: dict[Hashable, int] = {}
        shape: list[int] = []
        for rank in ranks:
            labels, kind = self._rank(rank)
            shape += [number.setdefault(label, len(number)) for label in labels]
            shape.append(kind)
        hosts = _grouped((self.fabric.hosts[rank], rank) for rank in ranks)
        return tuple(shape), tuple(self._host(tuple(members)) for members in hosts.values() if len(members) > 1)

    def _rank(self, rank: int) -> tuple[tuple[Hashable, ...], int]:
        """What may be shared with other ranks, and the kind of it."""
        if rank not in self._ranks:
            gate = self.fabric.gate(rank)
            if gate.leaf not in self._leaves:
                self._leaves[gate.leaf] = self._kind((self._told(gate.up), self._told(gate.down)))
            labels = (("host", self.fabric.hosts[rank]), ("leaf", gate.leaf), *gate.out, *gate.into)
            kind = self._kind((self._told(gate.out), self._told(gate.into), self._leaves[gate.leaf]))
            self._ranks[rank] = labels, kind
        return self._ranks[rank]

    def _host(self, members: tuple[int, ...]) -> int:
        """Kind of what lies between ``members``, all on one host."""
        if members not in self._hosts:
            gates = [self.fabric.gate(rank) for rank in members]
            links = [link for gate in gates for link in (*gate.out, *gate.into)]
            for a, b in permutations(members, 2):
                links += (-1 if self.fabric.switch_for((a, b)) is None else -2, *self.fabric.route(a, b))
            number: dict[int, int] = {}
            shape = tuple([number.setdefault(link, len(number)) for link in links])
            self._hosts[members] = self._kind((shape, self._told(link for link in number if link >= 0)))
        return self._hosts[members]

    def _told(self, links: Iterable[int]) -> tuple[bytes, bytes]:
        """What the links are, not which."""
        which = list(links)
        return self.fabric.bandwidth_bytes_per_s[which].tobytes(), self.fabric.latency_ps[which].tobytes()

    def _kind(self, what: Hashable) -> int:
        """One number for all that equal ``what``."""
        return self._kinds.setdefault(what, len(self._kinds))
