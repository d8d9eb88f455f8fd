"""What no plan can beat: the least time in which a tensor can be moved or summed on given wires.

Two arguments, for devices, hosts and racks (and, for the first, for the ranks of each layout):

- *a cut*: what ranks on one side need, and only the other side has, crosses over at no more than the bandwidth of some
  set of links of which every route across uses one;
- *a count*: so many copies of an element must leave one part of the ranks for another, and all parts together send and
  receive no faster than their links.

On one switch with ports of equal bandwidth B this is ``max(V / a, V / b) / B`` to move V bytes from a to b shards, and
``max(V / t_min, 2 (k - 1) V / sum t) / B`` to sum k copies cut t ways each. Switches that add are not thought of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.plan.layout import Layout, pieces

__all__ = ["move_bound_ps", "reduce_bound_ps"]

Part = frozenset[int]
Route = tuple[int, ...]


def move_bound_ps(source: Layout, target: Layout, fabric: Fabric, element_bytes: int = 1) -> int:
    """Picoseconds that every plan takes that hands a tensor over, all ranks starting together.

    Cost: O(R^2) routes for R ranks.
    """
    return _bound_ps(_Needs((source,), (target,)), fabric, element_bytes)


def reduce_bound_ps(layouts: Sequence[Layout], fabric: Fabric, element_bytes: int = 1) -> int:
    """Picoseconds that every plan takes that sums gradients among the ranks of ``layouts``, which start together.

    Cost: O(R^2) routes for R ranks.
    """
    return _bound_ps(_Needs(tuple(layouts), tuple(layouts)), fabric, element_bytes)


@dataclass(frozen=True, slots=True)
class _Needs:
    """Every rank of ``outputs`` needs, on its part, what each of ``inputs`` contributes there."""

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]

    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({rank for layout in (*self.inputs, *self.outputs) for rank in layout.ranks}))

    def pieces(self) -> Iterator[tuple[int, list[Part], Part]]:
        """(elements, who has each contribution, who needs their sum) of each piece between cuts."""
        for piece in pieces(cut for layout in (*self.inputs, *self.outputs) for cut in layout.cuts):
            wanted = frozenset[int]().union(*(_holders(layout, piece) for layout in self.outputs))
            yield len(piece), [_holders(layout, piece) for layout in self.inputs], wanted


def _holders(layout: Layout, piece: range) -> Part:
    return frozenset(layout.ranks) if layout.replicated else frozenset((layout.owner(piece.start),))


def _bound_ps(needs: _Needs, fabric: Fabric, element_bytes: int) -> int:
    wires = _Wires(fabric, needs.ranks())
    table = list(needs.pieces())
    everybody = frozenset(needs.ranks())
    bound_ps = 0
    for parts in wires.partitions():
        bound_ps = max(bound_ps, wires.exchange_ps(parts, element_bytes * _copies(table, parts)))
    own = [frozenset(layout.ranks) for layout in (*needs.inputs, *needs.outputs)]
    for part in {*own, *(part for parts in wires.partitions() for part in parts)}:
        for inside in (part, everybody - part):
            entering = sum(size for size, has, wants in table if wants & inside and not all(x & inside for x in has))
            bound_ps = max(bound_ps, wires.entry_ps(inside, element_bytes * entering))
    return bound_ps


def _copies(table: Collection[tuple[int, list[Part], Part]], parts: Sequence[Part]) -> int:
    """Elements that go from part to part, at least.

    A part that lacks a contribution receives once. If m parts have one that nobody else has, m - 1 messages come
    before anybody has all, and each of the others still needs one: as many, and m - 2 more.
    """
    total = 0
    for size, has, wants in table:
        lacking = sum(bool(wants & part) and not all(holders & part for holders in has) for part in parts)
        alone = sum(any(holders <= part for holders in has) for part in parts)
        total += size * (lacking + max(0, alone - 2))
    return total


class _Wires:
    """The routes among some ranks, and what passes between parts of them."""

    def __init__(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        self._fabric, self._ranks = fabric, ranks
        self._routes = {(a, b): fabric.route(a, b) for a in ranks for b in ranks if a != b}

    def partitions(self) -> list[tuple[Part, ...]]:
        """All ranks by device, by host, and by rack: whom no spine parts."""
        devices = tuple(frozenset((rank,)) for rank in self._ranks)
        hosts: dict[int, Part] = {}
        for rank in self._ranks:
            host = self._fabric.hosts[rank]
            hosts[host] = hosts.get(host, frozenset()) | {rank}
        racks: list[Part] = []
        for members in hosts.values():
            joined = [rack for rack in racks if any(self._is_near(a, b) for a in members for b in rack)]
            racks = [rack for rack in racks if rack not in joined] + [members.union(*joined)]
        return [devices, tuple(hosts.values()), tuple(racks)]

    def entry_ps(self, inside: Part, size_bytes: int) -> int:
        """The least time in which ``size_bytes`` come into ``inside`` from the other ranks."""
        outside = [rank for rank in self._ranks if rank not in inside]
        crossing = [(a, b) for a in outside for b in inside]
        return self._least_ps(size_bytes, self._width(crossing), crossing)

    def exchange_ps(self, parts: Sequence[Part], size_bytes: int) -> int:
        """The least time in which ``size_bytes`` go from part to part, whichever those are."""
        home = {rank: number for number, part in enumerate(parts) for rank in part}
        crossing = [(a, b) for a, b in self._routes if home[a] != home[b]]
        leaving: dict[int, list[tuple[int, int]]] = {}
        entering: dict[int, list[tuple[int, int]]] = {}
        for a, b in crossing:
            leaving.setdefault(home[a], []).append((a, b))
            entering.setdefault(home[b], []).append((a, b))
        width = min(sum(map(self._width, ways.values())) for ways in (leaving, entering))
        return self._least_ps(size_bytes, width, crossing)

    def _least_ps(self, size_bytes: int, width: float, crossing: Collection[tuple[int, int]]) -> int:
        if not size_bytes:
            return 0
        latency_ps = min(sum(int(self._fabric.latency_ps[link]) for link in self._routes[pair]) for pair in crossing)
        return int(size_bytes / width * 1e12) + latency_ps

    def _width(self, crossing: Collection[tuple[int, int]]) -> float:
        """Bytes per second over some links that together are on every route of ``crossing``.

        The links at one position of every route are such links; the narrowest position counts, apart for routes
        within a host and between hosts.
        """
        hosts = self._fabric.hosts
        total = 0.0
        for within in (True, False):
            routes = {self._routes[a, b] for a, b in crossing if (hosts[a] == hosts[b]) == within}
            longest = max(map(len, routes), default=0)
            total += min((self._sum(routes, at) for at in range(-longest, longest)), default=0.0)
        return total

    def _sum(self, routes: Collection[Route], at: int) -> float:
        links = {route[max(at, -len(route)) if at < 0 else min(at, len(route) - 1)] for route in routes}
        return sum(float(self._fabric.bandwidth_bytes_per_s[link]) for link in sorted(links))

    def _is_near(self, a: int, b: int) -> bool:
        return all(self._fabric.links[link].kind != "spine" for link in self._routes[a, b])
