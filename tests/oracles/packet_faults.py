"""Cables of the plain model that fail, and the paths that flows take meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from tests.oracles.packet_values import Flow
from xsim.fabric.ecmp import ecmp

__all__ = ["NoWayError", "Outage", "Outages"]

Way = tuple[int, ...]


class NoWayError(Exception):
    """Links have failed for good, and there is no other path for a flow."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A cable fails in both directions from ``at`` to ``until``, ticks; without ``until`` for good."""

    cable: int
    at: int
    until: int | None = None


class Outages:
    """Which links are down.

    A flow that cannot go as it was to go takes another of its ways by the hash of its ends, or all that are left if it
    goes by all of them; without any it stays as it is, if something is to be mended.
    """

    def __init__(self, outages: Sequence[Outage]) -> None:
        changes = [(each.at, 1, each.cable) for each in outages]
        changes += [(each.until, 0, each.cable) for each in outages if each.until is not None]
        self._changes = [(tick, list(group)) for tick, group in groupby(sorted(changes), key=itemgetter(0))]
        self._holds = Counter[int]()

    @property
    def ticks(self) -> tuple[int, ...]:
        return tuple(tick for tick, _ in self._changes)

    @property
    def down(self) -> frozenset[int]:
        return frozenset(link for cable in +self._holds for link in (2 * cable, 2 * cable + 1))

    def change(self, sever: Callable[[int], None], mend: Callable[[int], None]) -> None:
        """What happens at the next tick: at first cables are mended, then others fail."""
        _, changes = self._changes.pop(0)
        for _, fails, cable in changes:
            before = self._holds[cable]
            self._holds[cable] += 1 if fails else -1
            for link in (2 * cable, 2 * cable + 1):
                if fails and not before:
                    sever(link)
                elif not self._holds[cable]:
                    mend(link)

    def routed(self, flow: Flow, *, by_all: bool) -> Flow:
        """The flow, whose paths are the usual ones, as it goes now."""
        back = self._one(flow.back, flow.back_ways, flow.dst, flow.src)
        if by_all:
            ways = self._left(flow.ways)
            self._check(ways)
            without = self.down if 0 < len(ways) < len(flow.ways) else frozenset[int]()
            return replace(flow, ways=tuple(ways) or flow.ways, without=without, back=back)
        return replace(flow, path=self._one(flow.path, flow.ways, flow.src, flow.dst), back=back)

    def _one(self, usual: Way, ways: Sequence[Way], src: int, dst: int) -> Way:
        if self._left([usual]):
            return usual
        left = self._left(ways)
        self._check(left)
        return left[ecmp(src, dst, len(left))] if left else usual

    def _left(self, ways: Sequence[Way]) -> list[Way]:
        down = self.down
        return [way for way in ways if not down.intersection(way)]

    def _check(self, left: Sequence[Way]) -> None:
        mends = any(not fails for _, changes in self._changes for _, fails, _ in changes)
        if not left and not mends:
            raise NoWayError
