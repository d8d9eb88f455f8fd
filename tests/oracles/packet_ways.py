"""Which way the packets of the plain model take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

import numpy as np

from tests.oracles.packet_clock import Dice
from tests.oracles.packet_port import Packet
from tests.oracles.packet_values import Flow

__all__ = ["Spray", "Steering"]

Way = tuple[int, ...]


class Spray:
    """All ways of a flow, each once, then all again: round k goes from one that is drawn on in steps that are drawn.

    What goes while there is but one way takes no turn.
    """

    def __init__(self, flow: Flow, earlier: int, seed: int) -> None:
        state = np.random.SeedSequence([seed, flow.src, flow.dst, earlier]).generate_state(1, np.uint64)
        self.ways, self._state = flow.ways, int(state[0])
        self._taken = 0

    def next(self) -> Way:
        if len(self.ways) == 1:
            return self.ways[0]
        way = self._round(self._taken // len(self.ways))[self._taken % len(self.ways)]
        self._taken += 1
        return way

    def _round(self, number: int) -> list[Way]:
        count = len(self.ways)
        drawn = int(Dice(self._state + number - 0x9E3779B97F4A7C15).throw() * 2**53)
        steps = range(1 + drawn // count % count, 2 * count + 1)
        step = next(step for step in steps if gcd(step, count) == 1)
        return [self.ways[(drawn + turn * step) % count] for turn in range(count)]


class Steering:
    """What a switch sends on goes by the quickest of two ports drawn and the one last taken; the first wins a tie.

    A port is drawn as often as ways lead over it, and the second is another than the first.
    """

    def __init__(self, wait: Callable[[int], float]) -> None:
        """``wait``: until a port would be through."""
        self._wait = wait
        self._last: dict[tuple[Sequence[Way], frozenset[int], Way], Way] = {}

    def choose(self, packet: Packet, dice: Dice) -> None:
        """Give the packet the rest of a way that begins with the links that it has taken.

        What a switch took last is forgotten when other ways are left.
        """
        flow, taken = packet.sent_as, tuple(packet.taken)
        assert flow is not None
        open_ways = [way for way in flow.ways if way[: len(taken)] == taken]
        if len(open_ways) < 2:
            self._lead(packet, open_ways[0])
            return
        chosen = open_ways[int(dice.throw() * len(open_ways))]
        others = [way for way in open_ways if way[len(taken)] != chosen[len(taken)]]
        if others:
            known = flow.ways, flow.without, taken
            last = self._last.get(known, open_ways[0])
            candidates = [chosen, others[int(dice.throw() * len(others))], last]
            chosen = self._last[known] = min(candidates, key=lambda way: self._wait(way[len(taken)]))
        self._lead(packet, chosen)

    def _lead(self, packet: Packet, way: Way) -> None:
        packet.way.clear()
        packet.way.extend(way[len(packet.taken) :])
