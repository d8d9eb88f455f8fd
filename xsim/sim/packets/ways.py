"""Several ways of a flow as the packet kernel's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings

__all__ = ["MOST_WAYS", "Block", "Blocks", "Way", "in_turn", "sample", "stray", "taken"]

Ints = NDArray[np.int64]
Way = tuple[int, ...]  # links
MOST_WAYS = 64  # of one flow; of more, so many are taken, evenly


def sample(count: int) -> list[int]:
    """Which of so many choices are used, in order."""
    used = min(count, MOST_WAYS)
    return [number * count // used for number in range(used)]


class Block:
    """Ways of equal standing that lie in ``route`` one after another.

    Attributes:
        at: Place of the first.
        count, apart: How many, and places from one to the next.
    """

    __slots__ = ("apart", "at", "count")

    def __init__(self, at: int, count: int, apart: int) -> None:
        self.at, self.count, self.apart = at, count, apart


def taken(block: Block, seed: int, settings: Settings) -> tuple[int, int, int, int]:
    """``WAY``, ``STRIDE``, ``WAYS`` and ``STRAY`` of a flow that takes the ways of the block; ``seed`` of the order."""
    return block.at, block.apart, block.count if settings.routing == "spray" else 1, seed


class Blocks:
    """Appends blocks to ``route``, and to ``forks`` if switches choose; each but once."""

    def __init__(self, settings: Settings, used: int) -> None:
        """``used``: places of ``route`` so far."""
        self._adaptive, self._used = settings.routing == "adaptive", used
        self._known: dict[Hashable, Block] = {}
        self._routes: list[Ints] = []
        self._forks: list[Ints] = [np.zeros((used if self._adaptive else 0, k.FORK_COLUMNS), dtype=np.int64)]

    def add(self, key: Hashable, ways: Callable[[], Sequence[Way]]) -> Block:
        """The block of ``key``, which stands for these ways: of any length, all with the same first link."""
        found = self._known.get(key)
        if found is None:
            route, forks = _laid_out(sorted(set(ways())), self._used)
            found = self._known[key] = Block(self._used, len(route), route.shape[1])
            self._routes.append(route.ravel())
            if self._adaptive:
                self._forks.append(forks.reshape(-1, k.FORK_COLUMNS))
            self._used += route.size
        return found

    def added(self) -> tuple[Ints, Ints]:
        """What is to be appended to ``route`` and ``forks`` since the last time."""
        nothing = np.zeros(0, dtype=np.int64)
        found = np.concatenate((nothing, *self._routes)), np.concatenate((nothing.reshape(0, 4), *self._forks))
        self._routes, self._forks = [], []
        return found


def _laid_out(ways: Sequence[Way], at: int) -> tuple[Ints, Ints]:
    """Sorted ways as rows that -1 closes, and of each place the ways that are the same up to there."""
    apart = max(map(len, ways)) + 1
    route = np.full((len(ways), apart), -1, dtype=np.int64)
    forks = np.zeros((len(ways), apart, k.FORK_COLUMNS), dtype=np.int64)
    for row, way in enumerate(ways):
        route[row, : len(way)] = way
    first = np.zeros(len(ways), dtype=np.int64)  # of those that are the same so far, a row
    for hop in range(apart):
        own = np.flatnonzero(np.append(True, (first[1:] != first[:-1]) | (route[1:, hop] != route[:-1, hop])))
        count = np.diff(np.append(own, len(ways)))
        first = np.repeat(own, count)
        forks[:, hop, k.FIRST] = at + first * apart + hop
        forks[:, hop, k.COUNT], forks[:, hop, k.APART] = np.repeat(count, count), apart
    return route, forks


def stray(settings: Settings, src: int, dst: int, earlier: int) -> int:
    """Seed of the order in which a flow takes its ways; ``earlier`` flows of the same ends began before it."""
    words = np.random.SeedSequence([settings.seed, src, dst, earlier]).generate_state(1, np.uint64)
    return int(words.astype(np.int64)[0])


def in_turn(routing: str, turns: Counter[int], src: int, rail: int, count: int) -> int:
    """Which of so many choices the next flow of ``src`` takes; ``rail`` is the number of its NIC."""
    if routing == "rail":
        return rail % count
    turns[src] += 1
    return (turns[src] - 1) % count
