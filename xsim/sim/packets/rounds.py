"""Rings that go round as they went: where one round of all rows is like the last, whole rounds are worked out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import HALF_PPM, NEVER_PS, PPM
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.moving import Shift, move
from xsim.sim.packets.sending import Streams, packets_per_ack
from xsim.sim.packets.views import View

__all__ = ["Lap", "Rounds", "go_round"]

Ints = NDArray[np.int64]

ALIKE = 1e-3  # by which a round may take longer or less than the one before
SWAY = 5e-3  # of a round, by which a row may be early or late after each
LEFT = 2  # rounds that are simulated in any case
TROUBLES = (k.PAUSES, k.MARKS, k.DROPS, k.LOST, k.CUTS)
FEWEST = 6  # rounds that a row must have before it for watching to be worth while


@dataclass(frozen=True, slots=True, eq=False)
class Lap:
    """An instant, and what all rows that are not through had done by then.

    Attributes:
        rows: Their slots, N.
        received, done, ready: Bytes, rounds, and since when they may go on with the round in hand.
        troubles: Of the links, what is counted where they do not just carry.
        issued, worked, logged: Numbers of events given out; events processed; durations in the log.
    """

    now: int
    rows: Ints
    received: Ints
    done: Ints
    ready: Ints
    troubles: Ints
    issued: int
    worked: int
    logged: int


class Rounds:
    """Watches the rings of an engine over whole rounds.

    The time from one start of a row to its next is a first guess of what a round takes. If all rows have received a
    round's bytes after that time, and once more after the next, none has to be simulated until the first is through.

    Attributes:
        due: When it wants to look; what lies beyond must not be skipped before.
    """

    def __init__(self) -> None:
        self.due = NEVER_PS
        self._row = -1
        self._starts: list[tuple[int, int]] = []  # of that row, instants and rounds done by then
        self._laps: list[Lap] = []

    def begin(self, engine: Engine, now: int) -> None:
        """Note whether a round has begun, and start to watch if it took as long as the one before."""
        if self._laps:
            return
        flows = engine.flows
        if self._row < 0 or not _goes_on(flows[self._row]):
            self._starts, self._row = [], next(iter(np.flatnonzero(_all_go_on(flows)).tolist()), -1)
            if self._row < 0:
                return
        start, done = int(flows[self._row, k.READY_AT]), int(flows[self._row, k.DONE])
        if self._starts and self._starts[-1][1] >= done:
            return
        self._starts = [*self._starts[-2:], (start, done)]
        if len(self._starts) < 3:
            return
        (first, one), (second, two), (third, three) = self._starts
        earlier, later = (second - first) / (two - one), (third - second) / (three - two)
        if abs(later - earlier) <= ALIKE * later:
            self._laps = [_lap(engine, now)]
            self.due = now + max(1, round((third - first) / (three - one)))

    def look(self, engine: Engine) -> tuple[Lap, Lap] | None:
        """What is due: the last round, if it and the one before were alike."""
        lap, before = _lap(engine, self.due), self._laps[-1]
        self._laps.append(lap)
        if not all(_alike(engine, earlier, lap, len(self._laps) - 1 - n) for n, earlier in enumerate(self._laps[:-1])):
            self.forget()
            return None
        if len(self._laps) < 3:
            self.due += lap.now - before.now
            return None
        self.forget()
        return before, lap

    def forget(self) -> None:
        """Watch anew."""
        self._starts, self._laps, self.due = [], [], NEVER_PS


def _goes_on(flow: Ints) -> bool:
    return bool(_all_go_on(flow[None])[0])


def _all_go_on(flows: Ints) -> NDArray[np.bool_]:
    """Whether each is a row of a ring with many rounds to come."""
    under_way = (flows[:, k.STATE] == k.UNDER_WAY) & (flows[:, k.CYCLE_LEN] > 1)
    found: NDArray[np.bool_] = under_way & (flows[:, k.ROUNDS] - flows[:, k.DONE] > FEWEST)
    return found


def _lap(engine: Engine, now: int) -> Lap:
    flows, sim = engine.flows, engine.sim
    under_way = flows[:, k.STATE] == k.UNDER_WAY
    busy = np.zeros(len(flows), dtype=np.bool_)
    busy[flows[under_way, k.CYCLE]] = True  # rings that are
    through = flows[:, k.DONE] >= flows[:, k.ROUNDS]
    rows = np.flatnonzero((flows[:, k.CYCLE_LEN] > 0) & busy[flows[:, k.CYCLE]] & ~through)
    return Lap(
        now=now,
        rows=rows,
        received=flows[rows, k.RECEIVED],
        done=flows[rows, k.DONE],
        ready=flows[rows, k.READY_AT],
        troubles=engine.links[:, TROUBLES],
        issued=int(sim[k.ISSUED]),
        worked=int(sim[k.EVENTS]),
        logged=int(sim[k.LOGGED]),
    )


def _alike(engine: Engine, before: Lap, after: Lap, rounds: int) -> bool:
    """Whether all rows have gone on by so many rounds, each at the same place in its round as before.

    By its bytes, and by when it could begin: where latencies are most of a round, bytes tell little.
    """
    if not np.array_equal(before.rows, after.rows) or (before.troubles != after.troubles).any():
        return False
    rows, flows = after.rows, engine.flows[after.rows]
    if (flows[:, k.CYCLE_LEN] < 2).any() or after.logged - before.logged != rounds * len(rows):
        return False
    off = after.received - before.received - sum(carried(engine.flows, rows, before.done + n) for n in range(rounds))
    ticks, per_byte = after.now - before.now, 8 * engine.sim[k.SCALE] / np.maximum(1, flows[:, k.FLOW_RATE])
    late = _of_rings(flows[:, k.CYCLE], after.ready - before.ready - ticks)
    in_place = (abs(off) * per_byte <= SWAY * ticks).all() and (abs(late) <= SWAY * ticks).all()
    return bool(in_place and (packets_per_ack(engine, rows) == 1).all())


def _of_rings(cycle: Ints, late: Ints) -> Ints:
    """Of each ring, how late its latest row is: its pace; others may be ahead of it, as far as it lets them."""
    rings, ring = np.unique(cycle, return_inverse=True)
    found = np.full(len(rings), np.iinfo(np.int64).min)
    np.maximum.at(found, ring, late)
    return found


def go_round(engine: Engine, streams: Streams, view: View, lap: tuple[Lap, Lap], room: int) -> tuple[int, float]:
    """Make it so many rounds later as can be within ``room`` ticks; how many ticks that is, and events saved.

    Args:
        streams: All rows that are not through, under way or not; ``view`` is of this instant.
        lap: The round that has just been like the one before.
    """
    (before, after), rows, flows = lap, streams.flows, engine.flows
    own = flows[rows]
    period = after.now - before.now
    times = min(int((own[:, k.ROUNDS] - own[:, k.DONE]).min()) - LEFT, room // period)
    if times < LEFT:
        return 0, 0.0
    sent, complete, full, parts = np.zeros((4, len(rows)), dtype=np.int64)
    begun = own[:, k.STATE] == k.UNDER_WAY
    starts = engine.rows[view.events]
    begun &= ~np.isin(rows, starts[starts[:, k.KIND] == k.START, k.FLOW])
    for number in range(times):
        size = carried(flows, rows, own[:, k.DONE] + number + begun)
        sent += size
        full += size // own[:, k.FULL_PAYLOAD]
        parts += size % own[:, k.FULL_PAYLOAD] > 0
        complete += carried(flows, rows, own[:, k.DONE] + number)
    ticks, numbers = times * period, times * (after.issued - before.issued)
    move(engine, streams, view, Shift(ticks, sent, numbers, np.zeros_like(view.paused), full, parts))
    own = flows[rows]
    own[:, k.DONE] += times
    own[:, k.POSTED] += sent
    own[:, k.ACKED] += complete * own[:, k.INSIDE]
    own[:, [k.BEGAN, k.READY_AT]] += ticks
    own[:, k.RECEIVER_END] += ticks * (own[:, k.RECEIVER_END] >= 0)
    own[:, k.CARRIES] = carried(flows, rows, own[:, k.DONE] - (own[:, k.STATE] != k.UNDER_WAY))
    flows[rows] = own
    which, link = streams.there
    np.add.at(engine.links[:, k.CARRIED], link, complete[which])
    engine.repeated.append((engine.log[before.logged : after.logged].copy(), times))
    return ticks, float(times * (after.worked - before.worked))


def carried(flows: Ints, rows: Ints, rounds: Ints) -> Ints:
    """Bytes on the wire of rows in these rounds of their rings; as the kernel counts them."""
    own = flows[rows]
    base, extra = own[:, k.CYCLE], own[:, k.EXTRA]
    payload = flows[base + (rows - base - rounds) % np.maximum(1, own[:, k.CYCLE_LEN]), k.BYTES_PER_ROUND]
    size: Ints = payload + payload // PPM * extra + (payload % PPM * extra + HALF_PPM) // PPM
    return size
