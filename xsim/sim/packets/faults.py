"""Links that fail while packets are under way, and work again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.sim.contracts import Fault
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine

__all__ = ["Breaking", "Change", "changes_of"]


class Change(NamedTuple):
    """At ``tick``, before all else, a link and the one the other way fail or work again."""

    tick: int
    links: tuple[int, int]
    fails: bool


def changes_of(
    fabric: Fabric, faults: Sequence[Fault], back: Sequence[int], inside: Sequence[bool]
) -> tuple[Change, ...]:
    """In order of time; at one instant links work again before others fail.

    Args:
        back: Of each link the one the other way.
        inside: Whether each is inside a host.

    Raises:
        SpecError: There is no such link between hosts.
    """
    number = {link.name: place for place, link in enumerate(fabric.links)}
    changes = []
    for place, fault in enumerate(faults):
        link = number.get(fault.link, -1)
        if link < 0 or inside[link] or back[link] < 0:
            problem = "there is no such link" if link < 0 else "it is inside a host"
            some = [name for name, other in number.items() if not inside[other]][:3]
            fix = f"name a link between hosts, such as {', '.join(some)}" if some else "leave it out"
            raise SpecError(f"faults[{place}].link", fault.link, problem, fix)
        pair = link, back[link]
        changes.append(Change(fault.at_ps, pair, True))
        if fault.until_ps is not None:
            changes.append(Change(fault.until_ps, pair, False))
    return tuple(sorted(changes, key=lambda change: (change.tick, change.fails, change.links)))


class Breaking(Engine):
    """An engine whose links fail.

    Attributes:
        changes: What is still to come.
        down: How many faults hold each link down.
        reroute: Called after the changes of an instant.
    """

    changes: tuple[Change, ...]
    down: dict[int, int]
    reroute: Callable[[], None]

    def _set_up(self) -> None:
        """A flow on its way round may leave by another port than that at which it takes turns: no crowd knows that."""
        self.sim[k.FEW] = k.LATEST

    def run(self, until: int) -> int:
        """As ``Engine.run``."""
        while self.changes and self.changes[0].tick <= until:
            tick = self.changes[0].tick
            answer = super().run(tick - 1)
            if self.sim[k.ENDED] or answer in (k.GROW, k.LOST_HOPE):
                return answer
            while self.changes and self.changes[0].tick == tick:
                change, *following = self.changes
                self.changes = tuple(following)
                self._apply(change)
            self.reroute()
        answer = super().run(until)
        return k.LATER if answer == k.IDLE and self._waits() else answer

    def next_tick(self) -> int:
        """As ``Engine.next_tick``; while something is under way, a change is an event."""
        following = super().next_tick()
        if not self._waits():
            return following
        return min(self.changes[0].tick, following) if following >= 0 else self.changes[0].tick

    def _waits(self) -> bool:
        return bool(self.changes) and bool((self.flows[:, k.STATE] == k.UNDER_WAY).any())

    def _apply(self, change: Change) -> None:
        for link in change.links:
            before = self.down.get(link, 0)
            now = before + (1 if change.fails else -1)
            self.down = {**self.down, link: now}
            if change.fails and not before:
                self._sever(link, change.tick)
            elif not now:
                del self.down[link]
                lanes = np.arange(link, len(self.links), self.sim[k.LINKS])
                self.links[lanes[:, None], [k.PAUSED, k.PAUSED_SINCE]] = 1, change.tick
                self.post(k.RESUME, lanes, np.full(len(lanes), change.tick))

    def _sever(self, link: int, tick: int) -> None:
        from xsim.sim.kernels.packet_fault import sever

        used = len(self.rows) - int(self.sim[k.ROWS_LEFT])  # of what is lost, each packet may free credit, or a port
        self.widen_heap(int(self.sim[k.HEAPED]) + 2 * used)
        self._grow(len(self.rows) + used)
        sever(link, tick, self.rows, self.links, self.switches, self.route, self.wheel, self.heap, self.sim)
