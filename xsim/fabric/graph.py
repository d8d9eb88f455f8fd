"""Vertices and cables: a network as files of other simulators describe it, and as switches forward over it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from xsim.errors import SpecError

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

    def __post_init__(self) -> None:
        if self.bandwidth_bits_per_s < 1:
            problem, fix = f"nothing passes the cable from {self.a} to {self.b}", "give it 1 bit/s or more"
            raise SpecError("bandwidth_bits_per_s", self.bandwidth_bits_per_s, problem, fix)
        if self.delay_ps < 0 or not 0 <= self.loss <= 1:
            shown = f"a delay of {self.delay_ps} ps, a loss of {self.loss}"
            problem, fix = f"no cable from {self.a} to {self.b} has that", "a delay from 0 on, a loss from 0 to 1"
            raise SpecError("cable", shown, problem, fix)


class Hop(NamedTuple):
    """A directed link as its start sees it."""

    link: int
    end: int


class _Found(NamedTuple):
    """What a search from one target has found.

    Attributes:
        distance: Of each vertex, in links; -1 if there is no path.
        order: Which each vertex was of those that the search came upon and that forward; -1 if it was none.
        hops: Of the vertices that were asked for.
    """

    distance: array[int]
    order: array[int]
    hops: dict[int, tuple[Hop, ...]]


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
    _descending: list[list[int]] = field(init=False, default_factory=list, repr=False)
    _toward: dict[int, _Found] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._leaving.extend([] for _ in range(self.vertices))
        for number, cable in enumerate(self.cables):
            self._leaving[cable.a].append(Hop(2 * number, cable.b))
            self._leaving[cable.b].append(Hop(2 * number + 1, cable.a))
        self._descending.extend(sorted({hop.end for hop in hops}, reverse=True) for hops in self._leaving)

    @property
    def hosts(self) -> Iterator[int]:
        """Vertices that send and receive, in order."""
        return (vertex for vertex in range(self.vertices) if vertex not in self.switches)

    def link_name(self, link: int) -> str:
        """Its ends, as in ``3->16``."""
        cable = self.cables[link // 2]
        return f"{cable.b}->{cable.a}" if link % 2 else f"{cable.a}->{cable.b}"

    def leaving(self, vertex: int) -> tuple[Hop, ...]:
        """Links out of ``vertex``, in the order of its ports."""
        return tuple(self._leaving[vertex])

    def next_hops(self, vertex: int, target: int) -> tuple[Hop, ...]:
        """Links out of ``vertex`` that begin a shortest path to ``target``, parallel cables included; none if there is
        no path.

        In the order in which a breadth-first search from the target comes upon them, its neighbours taken by
        descending number: the order that an ECMP hash counts in. The search is made once per target, and the hops of a
        vertex are found when they are first asked for.
        """
        if target not in self._toward:
            self._toward[target] = self._search(target)
        distance, order, known = self._toward[target]
        if vertex not in known:
            leaving = self._leaving[vertex]
            nearer = [hop for hop in leaving if order[hop.end] >= 0 and distance[hop.end] < distance[vertex]]
            known[vertex] = tuple(sorted(nearer, key=lambda hop: (order[hop.end], hop.link // 2)))
        return known[vertex]

    def _search(self, target: int) -> _Found:
        """From the target over vertices that forward; the others are seen, but have no order."""
        distance, order = array("i", [-1]) * self.vertices, array("i", [-1]) * self.vertices
        distance[target] = 0
        queue = [target]
        for place, near in enumerate(queue):
            if near != target and near not in self.switches:
                continue
            order[near] = place
            for far in self._descending[near]:
                if distance[far] < 0:
                    distance[far] = distance[near] + 1
                    queue.append(far)
        return _Found(distance, order, {target: ()})
