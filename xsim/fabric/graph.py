"""Vertices and cables: a network as files of other simulators describe it, and as switches forward over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Cable", "Graph", "Hop"]


@dataclass(frozen=True, slots=True)
class Cable:
    """A full-duplex wire between two vertices. As directed links, cable i is 2 i from ``a`` to ``b``, 2 i + 1 back.

    Attributes:
        loss: Fraction of packets that are lost on it, 0 to 1.
    """

    a: int
    b: int
    bandwidth_bits_per_s: int
    delay_ps: int
    loss: float = 0.0


class Hop(NamedTuple):
    """A directed link as its start sees it."""

    link: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """V vertices, of which some are switches; the others are hosts, and only switches forward.

    Attributes:
        vertices: How many; they are 0..V.
        switches: Those that forward.
        cables: In the order of their ports: the n-th cable at a vertex is its port n.
    """

    vertices: int
    switches: frozenset[int]
    cables: tuple[Cable, ...]
    _leaving: list[list[Hop]] = field(init=False, default_factory=list, repr=False)
    _toward: dict[int, Mapping[int, tuple[Hop, ...]]] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._leaving.extend([] for _ in range(self.vertices))
        for number, cable in enumerate(self.cables):
            self._leaving[cable.a].append(Hop(2 * number, cable.b))
            self._leaving[cable.b].append(Hop(2 * number + 1, cable.a))

    @property
    def hosts(self) -> Iterator[int]:
        """Vertices that send and receive, in order."""
        return (vertex for vertex in range(self.vertices) if vertex not in self.switches)

    def leaving(self, vertex: int) -> tuple[Hop, ...]:
        """Links out of ``vertex``, in the order of its ports."""
        return tuple(self._leaving[vertex])

    def next_hops(self, vertex: int, target: int) -> tuple[Hop, ...]:
        """Links out of ``vertex`` that begin a shortest path to ``target``, parallel cables included; none if there is
        no path.

        In the order in which a breadth-first search from the target comes upon them, its neighbours taken by
        descending number: the order that an ECMP hash counts in. Worked out once per target.
        """
        if target not in self._toward:
            self._toward[target] = self._search(target)
        return self._toward[target].get(vertex, ())

    def _search(self, target: int) -> Mapping[int, tuple[Hop, ...]]:
        distance, hops = {target: 0}, dict[int, list[Hop]]()
        queue = [target]
        for near in queue:
            if near != target and near not in self.switches:
                continue
            for link, far in sorted(self._leaving[near], key=lambda hop: -hop.end):
                if far not in distance:
                    distance[far] = distance[near] + 1
                    queue.append(far)
                if distance[far] == distance[near] + 1:
                    hops.setdefault(far, []).append(Hop(link ^ 1, near))
        return {vertex: tuple(found) for vertex, found in hops.items()}
