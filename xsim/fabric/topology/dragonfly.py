"""Groups of routers, all joined to each other inside a group, and every group to every other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, count
from typing import Literal

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Route
from xsim.fabric.scale_out import ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least, at_most
from xsim.spec.cluster import ClusterSpec

__all__ = ["Dragonfly"]


@dataclass(frozen=True, slots=True)
class Dragonfly:
    """The dragonfly (Kim, Dally, Scott, Abts, ISCA 2008), with p NICs, a - 1 local and h global links per router.

    NICs fill one router after another, and there are as many groups as the NICs need, at most a h + 1. Any two groups
    have as many links as all others, of the a h that a group may have. All links are ``scale_out.uplink``.

    Attributes:
        nics: p, NICs of a router. If absent h.
        routers: a, routers of a group. If absent 2 h.
        global_links: h, links of a router to other groups. If absent the fewest with room for all NICs.
        routing: ``minimal``: straight to the group of the target, over one of the links with the fewest hops in all.
            ``valiant``: by way of another group, drawn by a hash, which spreads what all send to one group.
    """

    nics: int | None = None
    routers: int | None = None
    global_links: int | None = None
    routing: Literal["minimal", "valiant"] = "minimal"

    def __post_init__(self) -> None:
        for name in ("nics", "routers", "global_links"):
            if getattr(self, name) is not None:
                at_least(self, name, 1)
                at_most(self, name, 1024)

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        needed = len(ports(cluster))
        links = self.global_links or next(h for h in count(1) if self._room(h) >= needed)
        nics, routers = self.nics or links, self.routers or 2 * links
        groups = -(-needed // (nics * routers))
        if groups > routers * links + 1:
            problem = f"there is room for {self._room(links)} NICs, and the cluster has {needed}"
            raise SpecError("topology.global_links", links, problem, "write a larger one, or leave it out")
        check_trunks(groups * routers * (routers + links) // 2, "routers", routers)
        shape = _Groups(groups, routers, links)
        paths = shape if self.routing == "minimal" else _Valiant(shape)
        trunks = [Trunk(a, b, out.uplink) for a, b in shape.ends()]
        return wire(cluster, ScaleOut(shape.names(), trunks, [number // nics for number in range(needed)], paths))

    def _room(self, links: int) -> int:
        routers = self.routers or 2 * links
        return (self.nics or links) * routers * (routers * links + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The routers, and minimal paths between them.

    Port q of a group is at its router q // h. Of the links between two groups, the n-th is at port n (g - 1) + d - 1
    of each, where the other group comes d groups after its own, around the circle.

    Attributes:
        groups, routers, links: g, a, h.
    """

    groups: int
    routers: int
    links: int
    _known: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    @property
    def parallel(self) -> int:
        """Links between any two groups."""
        return self.routers * self.links // (self.groups - 1) if self.groups > 1 else 0

    def names(self) -> list[str]:
        return [f"group{group}.router{router}" for group in range(self.groups) for router in range(self.routers)]

    def ends(self) -> Iterator[tuple[int, int]]:
        """Of all trunks: those inside each group, then those between groups."""
        for group in range(self.groups):
            for a, b in combinations(range(self.routers), 2):
                yield group * self.routers + a, group * self.routers + b
        for a, b in combinations(range(self.groups), 2):
            for number in range(self.parallel):
                yield self.gateway(a, b, number), self.gateway(b, a, number)

    def gateway(self, group: int, other: int, number: int) -> int:
        """The router of ``group`` that has its n-th link to ``other``."""
        port = number * (self.groups - 1) + (other - group) % self.groups - 1
        return group * self.routers + port // self.links

    def local(self, start: int, end: int) -> Route:
        """From a router to another of its group, or itself."""
        if start == end:
            return ()
        group, (low, high) = start // self.routers, sorted((start % self.routers, end % self.routers))
        pairs = self.routers * (self.routers - 1) // 2
        before = low * (2 * self.routers - low - 1) // 2  # pairs whose first is lower
        return (2 * (group * pairs + before + high - low - 1) + (start > end),)

    def across(self, start: int, other: int, number: int) -> tuple[Route, int]:
        """From a router over its group's n-th link to ``other``, and the router at its end."""
        group = start // self.routers
        low, high = sorted((group, other))
        before = low * (2 * self.groups - low - 1) // 2 + high - low - 1
        inside = self.groups * self.routers * (self.routers - 1) // 2
        link = 2 * (inside + before * self.parallel + number) + (group > other)
        route = self.local(start, self.gateway(group, other, number))
        return (*route, link), self.gateway(other, group, number)

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self.chosen(start, end, ecmp(src, dst, self.choices(start, end)))

    def choices(self, start: int, end: int) -> int:
        return len(self._nearest(start, end))

    def chosen(self, start: int, end: int, choice: int) -> Route:
        if start // self.routers == end // self.routers:
            return self.local(start, end)
        return self._by(start, end, self._nearest(start, end)[choice])

    def _by(self, start: int, end: int, number: int) -> Route:
        route, last = self.across(start, end // self.routers, number)
        return (*route, *self.local(last, end))

    def _nearest(self, start: int, end: int) -> tuple[int, ...]:
        """Which of the links between the groups of the two lead there in the fewest hops; kept per pair of routers."""
        if start // self.routers == end // self.routers:
            return (0,)
        if (start, end) not in self._known:
            hops = [len(self._by(start, end, number)) for number in range(self.parallel)]
            self._known[start, end] = tuple(number for number, n in enumerate(hops) if n == min(hops))
        return self._known[start, end]


@dataclass(frozen=True, slots=True, eq=False)
class _Valiant:
    """Paths by way of a group that neither end is in; minimal ones inside a group, or if there is no third group."""

    shape: _Groups

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self.chosen(start, end, ecmp(src, dst, self.choices(start, end)))

    def choices(self, start: int, end: int) -> int:
        if self._is_straight(start, end):
            return self.shape.choices(start, end)
        return (self.shape.groups - 2) * self.shape.parallel**2

    def chosen(self, start: int, end: int, choice: int) -> Route:
        if self._is_straight(start, end):
            return self.shape.chosen(start, end, choice)
        choice, first = divmod(choice, self.shape.parallel)
        between, second = divmod(choice, self.shape.parallel)
        for group in sorted((start // self.shape.routers, end // self.shape.routers)):
            between += between >= group
        out, middle = self.shape.across(start, between, first)
        into, last = self.shape.across(middle, end // self.shape.routers, second)
        return (*out, *into, *self.shape.local(last, end))

    def _is_straight(self, start: int, end: int) -> bool:
        return self.shape.groups < 3 or start // self.shape.routers == end // self.shape.routers
