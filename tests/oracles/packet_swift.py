"""Swift in the plain packet model: a window for each flow that follows the delay of its packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

from tests.oracles.packet_host import Sender
from tests.oracles.packet_port import Packet

__all__ = ["Swift"]


@dataclass(eq=False)
class Swift:
    """The paper's algorithm 1, the delay being that from a packet's leaving its host to its acknowledgement.

    Attributes:
        begins: The first window in packets, by the number of the flow.
        delays, windows: What each acknowledgement has told, in ticks, and made of the window.
    """

    sender: Sender
    begins: Mapping[int, float]
    base_ns: int = 20_000
    hop_ns: int = 3_053
    range_ns: int = 100_000
    few: float = 0.1
    many: float = 100.0
    step: float = 1.0
    cut: float = 0.8
    most_cut: float = 0.5
    least: float = 0.001
    window: float = field(init=False)
    last_cut: int = 0
    confirmed: int = 0
    next_byte: int = 0
    delays: list[int] = field(default_factory=list)
    windows: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.window = max(1.0, self.begins[self.sender.number])
        self._obey(self.sender.line_rate)

    def acknowledged(self, packet: Packet) -> None:
        sender, settings = self.sender, self.sender.settings
        delay = max(1, sender.clock.now - packet.sent)
        target = self.target()
        newly = max(0, packet.number - self.confirmed) / settings.payload_bytes
        may_cut = sender.clock.now - self.last_cut >= delay
        if sender.next_byte < self.next_byte:
            if may_cut:
                self._lessen(self.most_cut)
        elif delay < target:
            self.window += self.step * newly / max(1.0, self.window)
        elif may_cut:
            self._lessen(min(self.most_cut, self.cut * (delay - target) / delay))
        self.next_byte = sender.next_byte
        self.confirmed = max(self.confirmed, packet.number)
        ticks_per_s = 10**12 // settings.tick_ps
        most = sender.line_rate * target / (8.0 * ticks_per_s * settings.payload_bytes)
        self.window = max(self.least, min(max(1.0, most), self.window))
        self.delays.append(delay)
        self.windows.append(self.window)
        paced = int(settings.payload_bytes * 8.0 * self.window * ticks_per_s / delay)
        self._obey(sender.line_rate if self.window >= 1.0 else max(1, min(sender.line_rate, paced)))

    def target(self) -> float:
        """In ticks."""
        ticks_per_ns = 1000 // self.sender.settings.tick_ps
        span = self.range_ns * ticks_per_ns
        slope = span / (1 / sqrt(self.few) - 1 / sqrt(self.many))
        scaled = max(0.0, min(span, slope / sqrt(self.window) - slope / sqrt(self.many)))
        hops = len(self.sender.flow.path)
        return self.base_ns * ticks_per_ns + self.hop_ns * ticks_per_ns * hops + scaled

    def _lessen(self, share: float) -> None:
        self.window *= 1.0 - share
        self.last_cut = self.sender.clock.now

    def _obey(self, rate: int) -> None:
        """Whole packets alone are under way; of less than one, one at a time."""
        self.sender.window_bytes = max(1, int(self.window)) * self.sender.settings.payload_bytes
        self.sender.rate = rate
