"""Time and chance of the plain packet model."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Call", "Clock", "Dice"]


@dataclass(slots=True, eq=False)
class Call:
    """Something that is to happen at a tick, once, unless it is cancelled.

    Attributes:
        idle: It cannot make anything else happen but calls like itself: a clock with only such calls is at its end.
    """

    tick: int
    action: Callable[[], None] | None
    idle: bool = False

    @property
    def pending(self) -> bool:
        """Not while it happens, either."""
        return self.action is not None

    def cancel(self) -> None:
        self.action = None


class Clock:
    """Calls in the order of their ticks; those of one tick in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now = 0
        self._calls: list[tuple[int, int, Call]] = []
        self._scheduled = self._busy = 0

    def at(self, tick: int, action: Callable[[], None], *, idle: bool = False) -> Call:
        call = Call(tick, action, idle)
        heapq.heappush(self._calls, (tick, self._scheduled, call))
        self._scheduled += 1
        self._busy += not idle
        return call

    def after(self, ticks: int, action: Callable[[], None], *, idle: bool = False) -> Call:
        return self.at(self.now + ticks, action, idle=idle)

    def run(self) -> None:
        """Until nothing is scheduled that matters."""
        while self._busy:
            tick, _, call = heapq.heappop(self._calls)
            self._busy -= not call.idle
            action, call.action = call.action, None
            if action is not None:
                self.now = tick
                action()


class Dice:
    """Numbers in 0 .. 1 by SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), so that a kernel can throw the same."""

    def __init__(self, state: int) -> None:
        self._state = state

    def throw(self) -> float:
        mask = 2**64 - 1
        self._state = self._state + 0x9E3779B97F4A7C15 & mask
        mixed = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
        return ((mixed ^ mixed >> 31) >> 11) * 2.0**-53
