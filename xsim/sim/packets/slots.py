"""Places in growing tables that are used again when what stood there has ended."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.tables import in_lines
from xsim.sim.packets.turns import standing
from xsim.sim.traffic.compiled import Compiled

__all__ = ["Slots", "Stretches"]

Ints = NDArray[np.int64]
OF_FLOWS = (k.DATA, k.ACK, k.NACK, k.START, *range(k.TIMER, k.RETRY), k.RETRY, k.RELEASE)  # what FLOW is a flow of


class Stretches:
    """Stretches of a list without end: the first free one that is long enough is taken.

    Attributes:
        end: Nothing beyond has ever been taken.
        free: How many places before it are free.
    """

    def __init__(self) -> None:
        self.end = self.free = 0
        self._free: list[tuple[int, int]] = []  # from .. to, in order, never side by side

    def fits(self, count: int) -> bool:
        """Whether so many places are free before the end, in one stretch."""
        return any(stop - start >= count for start, stop in self._free)

    def take(self, count: int) -> int:
        """The first of so many places."""
        for number, (start, stop) in enumerate(self._free):
            if stop - start >= count:
                self._free[number : number + 1] = [(start + count, stop)] if stop - start > count else []
                self.free -= count
                return start
        self.end += count
        return self.end - count

    def give(self, start: int, count: int) -> None:
        """So many places from ``start`` on are free again."""
        if not count:
            return
        stop, at = start + count, bisect(self._free, (start, start))
        self.free += count
        if at < len(self._free) and self._free[at][0] == stop:
            stop = self._free.pop(at)[1]
        if at and self._free[at - 1][1] == start:
            at -= 1
            start = self._free.pop(at)[0]
        self._free.insert(at, (start, stop))


@dataclass(slots=True)
class Taken:
    """What a graph has taken: slots; place and count in ``members`` and in ``arrived``; the ports of its flows."""

    count: int
    ports: Ints
    members: tuple[int, int] = 0, 0
    words: tuple[int, int] = 0, 0


class Slots:
    """Those of an engine: of a graph first its rows, then its parties.

    Attributes:
        taken: Per first slot, what belongs to a graph.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots, self._members, self._words = Stretches(), Stretches(), Stretches()
        self.taken: dict[int, Taken] = {}

    def flows(self, base: int) -> Ints:
        """The rows of the engine's table that the graph at ``base`` has."""
        return self._engine.flows[base : base + self.taken[base].count]

    def ready(self, count: int) -> bool:
        """Whether so many can be taken as it is. Else those of graphs that are ``over`` had better be given back."""
        return self._slots.fits(count) or self._slots.end + count <= len(self._engine.flows)

    def make_room(self, count: int) -> None:
        """See to it that so many can be taken, once all that is over has been given back.

        Had that less than half of the table, it grows, so that nobody looks for what is over too often.
        """
        engine, slots = self._engine, self._slots
        if not self.ready(count) or 2 * slots.free < len(engine.flows):
            more = max(64, slots.end + count, 2 * len(engine.flows)) - len(engine.flows)
            table = np.concatenate((engine.flows, np.zeros((more, k.FLOW_COLUMNS), dtype=np.int64)))
            engine.flows = in_lines(table)
            engine.memory = np.concatenate((engine.memory, np.zeros((more, engine.memory.shape[1]))))
            engine.ended = np.zeros(len(engine.flows), dtype=np.int64)

    def take(self, count: int) -> int:
        """The first of so many."""
        base = self._slots.take(count)
        self.taken[base] = Taken(count, np.zeros(0, dtype=np.int64))
        return base

    def follow(self, base: int, compiled: Compiled) -> None:
        """Enter who follows whom: of the rows their predecessors and parties, of the parties all their rows."""
        graph, rows, slots, engine = compiled.graph, compiled.graph.rows, self.flows(base), self._engine
        src, dst = rows + compiled.src_party, rows + compiled.dst_party
        other = np.flatnonzero(src != dst)
        heads = np.concatenate((graph.pred, src, dst[other]))
        tails = np.concatenate((np.repeat(np.arange(rows), np.diff(graph.pred_ptr)), np.arange(rows), other))
        first = self._members.take(len(heads))
        self.taken[base].members = first, len(heads)
        ends = first + np.cumsum(np.bincount(heads, minlength=len(slots)))
        slots[:, k.FOLLOWERS_END] = ends
        slots[:, k.FOLLOWERS] = np.concatenate(([first], ends[:-1]))
        slots[rows:, k.AWAITED] = slots[rows:, k.FOLLOWERS_END] - slots[rows:, k.FOLLOWERS]
        engine.members = _longer(engine.members, self._members.end)
        engine.members[first : first + len(heads)] = base + tails[np.argsort(heads, kind="stable")]

    def words(self, base: int, count: int) -> int:
        """The first of so many words of ``arrived`` for the graph."""
        first = self._words.take(count)
        self.taken[base].words = first, count
        self._engine.arrived = _longer(self._engine.arrived, self._words.end)
        return first

    def over(self) -> list[int]:
        """The first slots of all graphs of which all rows have ended, and that nothing under way knows."""
        flows = self._engine.flows
        unfinished = (flows[:, k.CYCLE_LEN] > 0) & (flows[:, k.STATE] != k.FINISHED)
        kept = np.append(0, np.cumsum(unfinished | _referred(self._engine)))
        return [base for base, taken in self.taken.items() if kept[base + taken.count] == kept[base]]

    def give(self, base: int) -> None:
        """All that the graph had is free."""
        taken = self.taken.pop(base)
        self._slots.give(base, taken.count)
        self._members.give(*taken.members)
        self._words.give(*taken.words)


def _longer(table: Ints, count: int) -> Ints:
    """The list with so many places or more."""
    return np.append(table, np.zeros(max(0, count - len(table)), dtype=np.int64))


def _referred(engine: Engine) -> NDArray[np.bool_]:
    """Of each slot, whether something is under way or waits that knows it; cost: O(rows + links + flows)."""
    from xsim.sim.kernels.packet_skip import pending, queued

    rows, links, found = engine.rows, engine.links, np.empty((2, len(engine.rows)), dtype=np.int64)
    known = (engine.flows[:, k.RESEND] >= 0) & (engine.flows[:, k.CYCLE_LEN] > 0)  # holds rows of packets
    for count in (
        pending(rows, engine.wheel, engine.bucket, engine.heap, engine.sim, found[0]),
        queued(rows, links, *found),
    ):
        some = rows[found[0, :count]]
        known[some[np.isin(some[:, k.KIND] & k.KINDS, OF_FLOWS), k.FLOW]] = True
    for port in np.flatnonzero(links[:, k.FLOWS_HERE]).tolist():
        known[standing(links, engine.turns, port)] = True
    for first_asked in links[links[:, k.ASKING] >= 0, k.ASKING].tolist():
        flow = first_asked
        while flow >= 0:
            known[flow] = True
            flow = int(engine.flows[flow, k.NEXT_ASKED])
    return known
