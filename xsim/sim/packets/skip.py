"""Fast forward: where streams of packets have become steady, what they go on to do is worked out and not simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.moving import Shift, known, move
from xsim.sim.packets.rounds import Rounds, go_round
from xsim.sim.packets.sending import Streams, streams_of
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.steady import LEFT, asked_again, may_move, same, steady, unslowed
from xsim.sim.packets.views import Glance, View, glance, look

__all__ = ["Skipper", "engine_for"]

Ints = NDArray[np.int64]

PATIENCE = 20_000  # events between two looks at whether there is much to send
SHARE = 0.04  # of the work of the simulation, which watching may cost
GRANT = 200_000  # events' worth of watching that is free
EACH_VIEW, PER_ROW = 9000, 3  # events' worth of a look, and per row, link and flow
WORTH = 24  # periods: shorter skips are not made
TRIES = 2  # periods that are tried as such
WINDOW, WIDEST = 32, 256  # periods of a window of which the next must be a copy, at first and at most


_Skip = tuple[View, Shift, float]  # from where, how far, and the events that it saves


class _EndedError(Exception):
    """The run has an answer."""


@dataclass(slots=True)
class _Work:
    """In events: what watching has cost, and what skips have saved."""

    spent: float = 0.0
    saved: float = 0.0


class Skipper(Engine):
    """An engine that skips what repeats itself.

    Two views of the simulation that differ in nothing but the time and the bytes sent, a period apart, tell all that
    comes until a stream gets to its end, or something else begins: whole periods are skipped, and nothing is lost by
    it. Where streams of unlike links never meet again in the same way, two windows tell nearly as much in which each
    moves as many bytes, no queue changes, nobody pauses anybody and nothing adapts: all go on at the rate at which they
    have arrived, if each packet is acknowledged by itself. Rings whose rounds are alike go on so, see ``rounds``.
    Streams that adapt are skipped when they all have the rate of their ports, nothing marks them, and whole periods
    repeat themselves.
    """

    def _set_up(self) -> None:
        self._next = 0
        self._gap = self._shortest = int(self.links[:, k.DATA_TIME].max(initial=1)) * WINDOW
        self._worked = self._useless = 0
        self._window = WINDOW
        self._work = _Work()
        self._streaming: Streams | None = None
        self._rounds = Rounds()

    def followed(self) -> None:
        """As ``Engine.followed``; slots that have been watched may be others' now."""
        super().followed()
        self._streaming, self._rounds = None, Rounds()

    def run(self, until: int) -> int:
        """As ``Engine.run``."""
        while True:
            now = min(until, max(self._next, int(self.sim[k.NOW])), self._rounds.due)
            answer = super().run(now)
            if answer != k.LATER or self.sim[k.ENDED]:
                return answer
            if now == self._rounds.due:
                now = self._go_round(now, until)
                self._next = max(self._next, now)
            if now == until:
                return answer
            if now < self._next:
                continue
            done = int(self.sim[k.EVENTS]) - self._worked
            self._rounds.begin(self, now)
            try:
                now = self._try(now, min(until, self._rounds.due))
            except _EndedError as ended:
                return int(ended.args[0])
            self._pace(now, done)

    def _pace(self, now: int, done: int) -> None:
        """When to look again: after about so many events, and not while nothing happens, nor before it is of use.

        Args:
            done: Events since the last time, but for those that have been watched.
        """
        self._worked = int(self.sim[k.EVENTS])
        least = PATIENCE + len(self.flows) + len(self.links)
        if done > 2 * least:
            self._gap = max(self._shortest, self._gap // 2)
        elif done < least // 2:
            self._gap *= 2
        following = self.next_tick()
        if following > now + self._gap:
            self._gap, now = self._shortest, following
        self._next = max(now + self._gap, self._useless)

    def _to(self, tick: int) -> None:
        answer = super().run(tick)
        if answer != k.LATER or self.sim[k.ENDED]:
            raise _EndedError(answer)

    def _try(self, now: int, until: int) -> int:
        """Watch the streams for a while, and skip what can be; where the simulation is then."""
        spent = self._work.spent
        streams = self._sending(now, until)
        if streams is None:
            return now
        now += max(8 * streams.period, streams.trip + streams.trip // 4)
        self._to(now)
        start, first = self._glance(streams, now), self._look(streams, now)
        if first.foreign or not may_move(self, streams, start, start):
            return now
        for _ in range(TRIES):
            now += streams.period
            shift = self._one_more(streams, start, first, now, until)
            if shift:
                return self._move(streams, *shift, spent)
        if not streams.each_acknowledged:
            return now  # at rates, parts of an acknowledgement would be lost with every skip
        seen = [self._glance(streams, now)]
        for _ in range(2):
            now += self._window * streams.period
            self._to(now)
            seen.append(self._glance(streams, now))
        if steady(self, streams, *seen):
            last = self._look(streams, now)
            if not last.foreign:
                shift = self._at_rates(streams, (start, first), (seen[2], last), until)
                return self._move(streams, *shift, spent) if shift else now
        self._window = min(WIDEST, 2 * self._window)
        return now

    def _one_more(self, streams: Streams, start: Glance, first: View, now: int, until: int) -> _Skip | None:
        """A period later, and how far to go if all is as it was."""
        self._to(now)
        end = self._glance(streams, now)
        if not same((*start.relative, *start.kept), (*end.relative, *end.kept)):
            return None
        last = self._look(streams, now)
        return self._periods(streams, start, (end, last), until) if same(first.relative, last.relative) else None

    def _sending(self, now: int, until: int) -> Streams | None:
        """What is being sent, if watching it is worth while."""
        sim, work, flows = self.sim, self._work, self.flows
        size = len(flows) + len(self.links)
        views = 3 * (EACH_VIEW + PER_ROW * (size + len(self.rows) - int(sim[k.ROWS_LEFT])))
        if work.spent + views > GRANT + SHARE * (int(sim[k.EVENTS]) + work.saved):
            return None
        work.spent += 1000 + 0.1 * size
        going = np.flatnonzero((flows[:, k.STATE] == k.UNDER_WAY) & (flows[:, k.NEXT_BYTE] < flows[:, k.POSTED]))
        if not len(going):
            return None
        left = (flows[going, k.POSTED] - flows[going, k.NEXT_BYTE]) // flows[going, k.FULL_PAYLOAD]
        if self._streaming is None or not np.array_equal(going, self._streaming.flows):
            self._streaming = streams_of(self, going)
        streams = self._streaming
        soonest = int((left * streams.first_lasts).min())
        least = self._watched(streams) + WORTH * streams.period
        if left.min() < 2 * WORTH or soonest < least:
            self._useless = now + soonest
            return None
        if until - now < least:
            return None
        return None if streams.lossy or asked_again(self, going) or not known(self) else streams

    def _go_round(self, now: int, until: int) -> int:
        """Skip whole rounds of rings, if they are alike and nothing else is under way; where the simulation is then."""
        lap = self._rounds.look(self)
        if lap is None:
            return now
        streams = streams_of(self, lap[1].rows)
        if streams.lossy or asked_again(self, streams.flows) or not known(self):
            return now
        view = look(self, streams, now, starts=True)
        if view.foreign or not unslowed(self, streams):
            return now
        ticks, saved = go_round(self, streams, view, lap, self._room(view, until))
        self._work.saved += saved
        return now + ticks

    def _watched(self, streams: Streams) -> int:
        """Ticks up to the last look of ``_try``: all of them must lie within a run."""
        settling = max(8 * streams.period, streams.trip + streams.trip // 4)
        windows = 2 * self._window if streams.each_acknowledged else 0
        return settling + (TRIES + windows) * streams.period

    def _glance(self, streams: Streams, now: int) -> Glance:
        self._work.spent += EACH_VIEW / 2
        return glance(self, streams, now)

    def _look(self, streams: Streams, now: int) -> View:
        view = look(self, streams, now)
        size = len(self.flows) + len(self.links)
        self._work.spent += EACH_VIEW + PER_ROW * (len(view.events) + len(view.waiting) + size)
        return view

    def _periods(self, streams: Streams, start: Glance, last: tuple[Glance, View], until: int) -> _Skip | None:
        """Whole periods, in each of which all happens that happened since the start."""
        end, view = last
        if not may_move(self, streams, start, end):
            return None
        period, stream = end.now - start.now, end.sent - start.sent
        flows, sends = self.flows[streams.flows], stream > 0
        left = flows[:, k.POSTED] - flows[:, k.NEXT_BYTE] - LEFT * flows[:, k.FULL_PAYLOAD]
        times = min(self._room(view, until) // period, int((left[sends] // stream[sends]).min(initial=1 << 40)))
        if times * period < WORTH * streams.period:
            return None
        numbers, paused = times * (end.issued - start.issued), times * (end.paused - start.paused)
        shift = self._shift(streams, times * period, times * stream, numbers, paused)
        return view, shift, times * (end.worked - start.worked)

    def _at_rates(
        self, streams: Streams, first: tuple[Glance, View], last: tuple[Glance, View], until: int
    ) -> _Skip | None:
        """As far as the first stream's last packets, each at the rate at which its bytes have arrived."""
        (start, before), (end, view) = first, last
        flows, took = self.flows[streams.flows], end.now - start.now
        rate = (end.received - start.received) / took
        arrived = (before.arriving[0] >= 0) & (view.arriving[1] > before.arriving[1])
        number, at = (view.arriving - before.arriving)[:, arrived]
        rate[arrived] = number / at
        left = flows[:, k.POSTED] - flows[:, k.NEXT_BYTE] - LEFT * flows[:, k.FULL_PAYLOAD]
        ticks = min(self._room(view, until), int((left / rate).min()))
        if ticks < WORTH * streams.period:
            return None
        unit, share = flows[:, k.FULL_PAYLOAD], ticks / took
        stream = (rate * ticks).astype(np.int64) // unit * unit
        numbers, unpaused = int(share * (end.issued - start.issued)), np.zeros_like(end.paused)
        return view, self._shift(streams, ticks, stream, numbers, unpaused), share * (end.worked - start.worked)

    def _shift(self, streams: Streams, ticks: int, stream: Ints, numbers: int, paused: Ints) -> Shift:
        """Full packets alone."""
        full = stream // self.flows[streams.flows, k.FULL_PAYLOAD]
        return Shift(ticks, stream, numbers, paused, full, np.zeros_like(full))

    def _room(self, view: View, until: int) -> int:
        """Ticks up to what moves with no stream, and to the end of this run."""
        fixed = self.rows[view.fixed, k.TIME]
        return min(until, int(fixed.min(initial=until + 1)) - 1) - view.now

    def _move(self, streams: Streams, view: View, shift: Shift, saved: float, spent: float) -> int:
        """Skip; watching that has paid for itself is not counted."""
        move(self, streams, view, shift)
        work = self._work
        work.saved += saved
        work.spent = spent + max(0.0, work.spent - spent - saved)
        self._window = WINDOW
        return view.now + shift.ticks


def engine_for(settings: Settings) -> type[Engine]:
    """What simulates packets with these settings.

    Samples, laws that nobody can move, ways that are drawn, overflowing buffers and several classes take every packet.
    """
    movable = settings.congestion.positions is not None and not settings.scatters and len(settings.lanes) == 1
    movable = movable and settings.flow_control != "none"
    return Skipper if settings.fast_forward and settings.sample_ps is None and movable else Engine
