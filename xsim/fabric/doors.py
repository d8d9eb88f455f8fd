"""By which NICs a pair of ranks leaves one host and enters the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xsim.fabric.fabric import Route
from xsim.fabric.inside import Inside

__all__ = ["Doors", "Ends", "OwnNic", "SamePlane"]


class Ends(NamedTuple):
    """The parts of a route that are on hosts, and the switches between which the rest of it lies.

    Attributes:
        out, into: Links from the source to the switch ``start``, and from the switch ``end`` to the target.
    """

    out: Route
    start: int
    end: int
    into: Route


class Doors(Protocol):
    """The ends of every route between two hosts."""

    def ends(self, src: int, dst: int) -> Ends:
        """Of the route from rank ``src`` to rank ``dst``, on different hosts."""

    def common(self, rank: int) -> tuple[Route, Route]:
        """Links with which all routes of ``rank`` to other hosts begin, and those with which all from there end."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnNic:
    """Each rank by its own NIC.

    Attributes:
        leaf: Per rank the switch of its NIC.
    """

    inside: Inside
    leaf: Sequence[int]

    def ends(self, src: int, dst: int) -> Ends:
        return Ends(self.inside.out[src], self.leaf[src], self.leaf[dst], self.inside.into[dst])

    def common(self, rank: int) -> tuple[Route, Route]:
        return self.inside.out[rank], self.inside.into[rank]


@dataclass(frozen=True, slots=True, eq=False)
class SamePlane:
    """Both by NICs of one plane: no switch joins two of them.

    What a rank sends to a rank of another plane leaves its host by a NIC of that plane, if there is one; else it enters
    the other host by a NIC of the plane of the sender. Between the rank and such a NIC lies the scale-up fabric with a
    rank of that NIC as relay, or PCIe alone where that fabric joins it to none. Several NICs and relays take turns by
    the rank at the other end.

    Attributes:
        switch_of_port, plane_of_port: Of each NIC.
        found: NICs of each (host, plane).
        sharing: Ranks of each NIC.
        common_planes: How many planes every host has a NIC on: those from 0.
    """

    inside: Inside
    switch_of_port: Sequence[int]
    plane_of_port: Sequence[int]
    found: Mapping[tuple[int, int], Sequence[int]]
    sharing: Mapping[int, Sequence[int]]
    common_planes: int

    @classmethod
    def of(cls, inside: Inside, switch_of_port: Sequence[int], plane_of_port: Sequence[int]) -> SamePlane:
        """Of the first NICs of every host each is on the plane of its number; ``plane_of_port`` is of all NICs."""
        found: dict[tuple[int, int], list[int]] = {}
        sharing: dict[int, list[int]] = {}
        for rank, port in enumerate(inside.port):
            if port not in sharing:
                found.setdefault((inside.host[rank], plane_of_port[port]), []).append(port)
            sharing.setdefault(port, []).append(rank)
        planes: dict[int, int] = {}
        for host, _ in found:
            planes[host] = planes.get(host, 0) + 1
        return cls(inside, switch_of_port, plane_of_port, found, sharing, min(planes.values()))

    def ends(self, src: int, dst: int) -> Ends:
        inside, here, there = self.inside, self.inside.port[src], self.inside.port[dst]
        out, into = inside.out[src], inside.into[dst]
        if self.plane_of_port[here] != self.plane_of_port[there]:
            exits = self.found.get((inside.host[src], self.plane_of_port[there]))
            if exits:
                here = exits[dst % len(exits)]
                relay = self._relay(src, here, dst)
                out = inside.leave(src, here) if relay is None else inside.way(src, relay) + inside.out[relay]
            else:
                entries = self.found[inside.host[dst], self.plane_of_port[here]]
                there = entries[src % len(entries)]
                relay = self._relay(dst, there, src)
                into = inside.enter(there, dst) if relay is None else inside.into[relay] + inside.way(relay, dst)
        return Ends(out, self.switch_of_port[here], self.switch_of_port[there], into)

    def common(self, rank: int) -> tuple[Route, Route]:
        """A host on one plane is left by the own NIC only, and a rank on a plane that all hosts have is entered so."""
        host, plane = self.inside.host[rank], self.plane_of_port[self.inside.port[rank]]
        alone = (host, 1) not in self.found
        return self.inside.out[rank] if alone else (), self.inside.into[rank] if plane < self.common_planes else ()

    def _relay(self, rank: int, port: int, other: int) -> int | None:
        """A rank of the NIC ``port`` that a scale-up fabric joins to ``rank``; none if there is none."""
        sharing = self.sharing[port]
        turns = (sharing[(other + number) % len(sharing)] for number in range(len(sharing)))
        return next((relay for relay in turns if self.inside.are_peers(rank, relay)), None)
