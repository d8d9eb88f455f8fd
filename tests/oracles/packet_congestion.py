"""Congestion controls of the plain packet model: what a sender makes of each acknowledgement.

Rates are whole bit/s, rounded down after each step. A *window of time* ends with the acknowledgement of a byte that was
next to be sent at its beginning. Defaults are those of the scripts that come with HPCC's ns-3 model, at 100 Gb/s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.oracles.packet_clock import Call
from tests.oracles.packet_host import Congestion, Sender
from tests.oracles.packet_port import Packet, Stamp

__all__ = ["DCQCN", "DCTCP", "HPCC", "TIMELY", "Dcqcn", "Dctcp", "Hpcc", "Timely"]

MEGA = 10**6
LEAST = 1000 * MEGA


@dataclass(eq=False)
class Dctcp:
    """The smoothed share of marked packets cuts the rate once per window of time."""

    sender: Sender
    gain: float = 1 / 16
    increase: int = 615 * MEGA
    least: int = LEAST
    alpha: float = 1.0
    marks: int = 0
    batch: int = 0
    window_end: int = 0
    cut_until: int | None = None

    def acknowledged(self, packet: Packet) -> None:
        sender, acked = self.sender, packet.number
        self.marks += packet.marked
        new_window = acked > self.window_end
        if new_window:
            self._close_window(acked)
        if self.cut_until is not None and acked > self.cut_until:
            self.cut_until = None
        if packet.marked and self.cut_until is None:
            sender.rate = max(self.least, int(sender.rate * (1 - self.alpha / 2)))
            self.cut_until = sender.next_byte
        if new_window and self.cut_until is None:
            sender.rate = min(sender.line_rate, sender.rate + self.increase)

    def _close_window(self, acked: int) -> None:
        """The first window counts its marks on; its packets are those that were ever sent."""
        next_byte, payload = self.sender.next_byte, self.sender.settings.payload_bytes
        if self.window_end == 0:
            self.batch = next_byte // payload + 1
        else:
            self.alpha = (1 - self.gain) * self.alpha + self.gain * min(1.0, self.marks / self.batch)
            self.marks = 0
            self.batch = (next_byte - acked) // payload + 1
        self.window_end = next_byte


@dataclass(eq=False)
class Timely:
    """The rate follows the gradient of the round trip time, once per window of time."""

    sender: Sender
    smoothing: float = 0.875
    decrease: float = 0.8
    low_ns: int = 50_000
    high_ns: int = 500_000
    least_ns: int = 20_000
    increase: int = 100 * MEGA
    large_increase: int = 500 * MEGA
    least: int = LEAST
    stage: int = 0
    window_end: int = 0
    last_ns: float = 0.0
    difference_ns: float = 0.0

    def acknowledged(self, packet: Packet) -> None:
        if packet.number <= self.window_end:
            return
        trip_ns = (self.sender.clock.now - packet.sent) * self.sender.settings.tick_ps / 1000
        if self.window_end:
            self._update(trip_ns)
        if self.sender.next_byte > self.window_end:
            self.window_end = self.sender.next_byte
            self.last_ns = trip_ns

    def _update(self, trip_ns: float) -> None:
        sender = self.sender
        self.difference_ns = (1 - self.smoothing) * self.difference_ns + self.smoothing * (trip_ns - self.last_ns)
        gradient = self.difference_ns / self.least_ns
        if trip_ns < self.low_ns or (trip_ns <= self.high_ns and gradient <= 0):
            step = self.increase if self.stage < 5 else self.large_increase
            sender.rate = min(sender.line_rate, sender.rate + step)
            self.stage += 1
            return
        steepness = 1 - self.high_ns / trip_ns if trip_ns > self.high_ns else gradient
        sender.rate = max(self.least, int(sender.rate * max(0.0, 1 - self.decrease * steepness)))
        self.stage = 0


@dataclass(eq=False)
class Hpcc:
    """The rate that would load the busiest link of the way to a target, from the stamps of its switches.

    Between the ends of windows of time each acknowledgement corrects the rate, but not the rate that it starts from.
    Stamps count bytes sent in ``unit`` times 128, and queued ones in ``unit`` times 80.
    """

    sender: Sender
    target: float = 0.95
    increase: int = 40 * MEGA
    least: int = LEAST
    additive_stages: int = 0
    unit: int = 4
    base_rate: int = field(init=False)
    stage: int = 0
    utilisation: float = 1.0
    window_end: int = 0
    stamps: Sequence[Stamp] = ()

    def __post_init__(self) -> None:
        self.base_rate = self.sender.line_rate

    def acknowledged(self, packet: Packet) -> None:
        if not self.window_end:
            self.window_end, self.stamps = self.sender.next_byte, packet.stamps
            return
        rate, stage = self._rate(packet.stamps)
        self.stamps = packet.stamps
        self.sender.pace(rate)
        if packet.number > self.window_end:
            self.base_rate, self.stage = rate, stage
            self.window_end = max(self.window_end, self.sender.next_byte)

    def _rate(self, stamps: Sequence[Stamp]) -> tuple[int, int]:
        line, round_trip = self.sender.line_rate, self.sender.settings.ticks(self.sender.settings.round_trip_ps)
        busiest, span = 0.0, 0
        for stamp, before in zip(stamps, self.stamps, strict=True):
            load, passed = self._load(stamp, before)
            if load > busiest:
                busiest, span = load, passed
        span = min(span, round_trip)
        self.utilisation = (self.utilisation * (round_trip - span) + busiest * span) / round_trip
        excess = self.utilisation / self.target
        if excess >= 1 or self.stage >= self.additive_stages:
            rate, stage = int(self.base_rate / excess) + self.increase, 0
        else:
            rate, stage = self.base_rate + self.increase, self.stage + 1
        return min(max(rate, self.least), line), stage

    def _load(self, stamp: Stamp, before: Stamp) -> tuple[float, int]:
        """Of one link, relative to its bandwidth, and over how many ticks; none if no time has passed."""
        passed, window = stamp.tick - before.tick, self.sender.window_bytes
        if not passed:
            return 0.0, 0
        assert window is not None
        sent_unit, queue_unit = 128 * self.unit, 80 * self.unit
        sent = (stamp.sent_bytes // sent_unit - before.sent_bytes // sent_unit) * sent_unit
        queued = min(stamp.queued_bytes, before.queued_bytes) // queue_unit * queue_unit
        seconds = passed * (self.sender.settings.tick_ps / 10**12)
        waiting = float(queued) * self.sender.line_rate / stamp.bits_per_s / window
        return sent * 8 / seconds / stamp.bits_per_s + waiting, passed


@dataclass(eq=False)
class Dcqcn:
    """From its first mark on, a clock lowers the rate while marks come; another raises it, in halves and steps."""

    sender: Sender
    alpha_ps: int = 1_000_000
    decrease_ps: int = 4_000_000
    increase_ps: int = 300_000_000
    gain: float = 1 / 256
    halvings: int = 1
    increase: int = 20 * MEGA
    large_increase: int = 200 * MEGA
    least: int = LEAST
    alpha: float = 1.0
    target: int = 0
    stage: int = 0
    marked_since_alpha: bool = False
    marked_since_decrease: bool = False
    timers: dict[str, Call] = field(default_factory=dict)

    def acknowledged(self, packet: Packet) -> None:
        if self.sender.finished:
            for timer in self.timers.values():
                timer.cancel()
        elif packet.marked and not self.timers:
            self.target = self.sender.rate
            self.marked_since_decrease = True
            self._set("alpha", self.alpha_ps, self._smooth)
            self._set("decrease", self.decrease_ps + 1000, self._decrease)  # 1 ns, to come behind the other
        elif packet.marked:
            self.marked_since_alpha = self.marked_since_decrease = True

    def _set(self, name: str, time_ps: int, action: Callable[[], None]) -> None:
        if name in self.timers:
            self.timers[name].cancel()
        self.timers[name] = self.sender.clock.after(self.sender.settings.ticks(time_ps), action, idle=True)

    def _smooth(self) -> None:
        self._set("alpha", self.alpha_ps, self._smooth)
        self.alpha = (1 - self.gain) * self.alpha + (self.gain if self.marked_since_alpha else 0)
        self.marked_since_alpha = False

    def _decrease(self) -> None:
        self._set("decrease", self.decrease_ps, self._decrease)
        if not self.marked_since_decrease:
            return
        if self.stage:
            self.target = self.sender.rate
        self.sender.rate = max(self.least, int(self.sender.rate * (1 - self.alpha / 2)))
        self.stage, self.marked_since_decrease = 0, False
        self._set("increase", self.increase_ps, self._increase)

    def _increase(self) -> None:
        self._set("increase", self.increase_ps, self._increase)
        sender = self.sender
        if self.stage == self.halvings:
            self.target = min(sender.line_rate, self.target + self.increase)
        elif self.stage > self.halvings:
            self.target = min(sender.line_rate, self.target + self.large_increase)
        sender.rate = sender.rate // 2 + self.target // 2
        self.stage += 1


DCTCP = Congestion(Dctcp)
TIMELY = Congestion(Timely, extra_bytes=8)
HPCC = Congestion(Hpcc, extra_bytes=42)
DCQCN = Congestion(Dcqcn)
