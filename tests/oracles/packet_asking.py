"""The two ends of a flow whose receiver asks for packets, and what waits for a link at a switch that cuts them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracles.packet_clock import Call, Clock
from tests.oracles.packet_host import GaveUpError, Turns
from tests.oracles.packet_port import Kind, Packet
from tests.oracles.packet_values import Flow, PacketSettings
from tests.oracles.packet_ways import Spray

__all__ = ["Asking", "CallFor", "Header", "Out", "Pacer", "Source", "Target"]


@dataclass(frozen=True, slots=True)
class Asking:
    """Attributes:
    firsts: Packets that each flow sends unasked.
    queue_packets: Full packets that a queue of a switch has room for.
    """

    firsts: Sequence[int]
    queue_packets: int


class Header(Packet):
    """What is left of a data packet that was cut; back at its sender, what tells that it was."""


class CallFor(Packet):
    """A receiver asks for one more packet of the flow."""


@dataclass(eq=False)
class Source:
    """The end of a flow that sends; ``Turns`` knows it as a sender."""

    number: int
    flow: Flow
    first: int
    settings: PacketSettings
    clock: Clock
    turns: Turns
    spray: Spray | None = None
    allowed: int = field(init=False)
    next_byte: int = 0
    acked: int = 0
    again: deque[int] = field(default_factory=deque)
    confirmed: set[int] = field(default_factory=set)
    go_backs: int = 0
    expiries: int = 0
    timer: Call | None = None
    available: int = 0

    def __post_init__(self) -> None:
        self.allowed = min(self.first, self.packets)

    @property
    def packets(self) -> int:
        return -(-self.flow.size_bytes // self.settings.payload_bytes)

    @property
    def finished(self) -> bool:
        return self.acked >= self.flow.size_bytes

    @property
    def bytes_left(self) -> int:
        return 0 if self.finished else len(self.again) + self.flow.size_bytes - self.next_byte

    @property
    def window_is_full(self) -> bool:
        return not self.allowed

    @property
    def next_size(self) -> int:
        first = self.again[0] if self.again else self.next_byte
        return min(self.settings.payload_bytes, self.flow.size_bytes - first) + self.settings.header_bytes

    def next_packet(self) -> Packet:
        self.allowed -= 1
        first = self.again.popleft() if self.again else self.next_byte
        payload = min(self.settings.payload_bytes, self.flow.size_bytes - first)
        if first == self.next_byte:
            self.next_byte += payload
            while self.next_byte in self.confirmed:
                self.next_byte += min(self.settings.payload_bytes, self.flow.size_bytes - self.next_byte)
        if self.timer is None:
            self.set_timer()
        size = payload + self.settings.header_bytes
        way = self.spray.next() if self.spray else self.flow.path
        return Packet(Kind.DATA, size, self.number, first, payload, way=deque(way[1:]))

    def reroute(self, flow: Flow) -> None:
        """The flow goes on by other ways."""
        self.flow = flow
        if self.spray:
            self.spray.ways = flow.ways

    def set_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.settings.retransmit_ps is not None and self.next_byte > self.acked:
            self.timer = self.clock.after(self.settings.ticks(self.settings.retransmit_ps), self.expired)

    def expired(self) -> None:
        self.timer = None
        self.expiries += 1
        if self.expiries > self.settings.retries:
            raise GaveUpError(f"flow {self.number}")
        self.next_byte = self.acked
        self.again.clear()
        self.allowed = max(self.allowed, self.first)
        self.go_backs += 1
        self.turns.port.kick()

    def hears(self, packet: Packet) -> None:
        if isinstance(packet, CallFor):
            self.allowed += 1
        elif packet.number >= self.acked:
            self.again.append(packet.number)
        self.expiries = 0
        self.set_timer()

    def confirms(self, upto: int, came: int) -> None:
        news = upto > self.acked or (came > max(upto, self.acked) and came not in self.confirmed)
        self.acked = max(self.acked, upto)
        self.confirmed = {first for first in {*self.confirmed, came} if first >= self.acked}
        self.next_byte = max(self.next_byte, self.acked)
        while self.next_byte in self.confirmed:
            self.next_byte += min(self.settings.payload_bytes, self.flow.size_bytes - self.next_byte)
        if news:
            self.expiries = 0
            self.set_timer()


@dataclass(eq=False)
class Target:
    """The end of a flow that receives."""

    flow: Flow
    coming: int
    missing: set[int]
    to_ask: int = 0

    @property
    def expected(self) -> int:
        return min(self.missing, default=self.flow.size_bytes)


@dataclass(eq=False)
class Pacer:
    """Of one port: who is to be asked next."""

    flows: deque[int] = field(default_factory=deque)
    free_at: int = 0


@dataclass(eq=False)
class Out:
    """What waits at a switch for one link."""

    urgent: deque[Packet] = field(default_factory=deque)
    data: deque[Packet] = field(default_factory=deque)

    def take(self, *, paused: bool) -> Packet | None:
        """What is urgent goes even when the link has just been mended and nothing else does."""
        for queue in (self.urgent, () if paused else self.data):
            if queue:
                return queue.popleft()
        return None

    def lose(self) -> int:
        """Everything; how many packets that are."""
        count = len(self.urgent) + len(self.data)
        self.urgent.clear()
        self.data.clear()
        return count
