"""A host: flows that take turns at its ports, receivers that acknowledge at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.oracles.packet_clock import Call, Clock
from tests.oracles.packet_port import Kind, Packet, Port, Stamp
from tests.oracles.packet_values import CLASSES, Flow, PacketSettings
from tests.oracles.packet_ways import Spray

__all__ = ["Congestion", "Control", "GaveUpError", "Receiver", "Sender", "Turns"]


class Control(Protocol):
    """The congestion control of one flow."""

    def acknowledged(self, packet: Packet) -> None:
        """An acknowledgement has come and is counted; the port is tried after this."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """Attributes:
    control: Builds the state of one flow.
    extra_bytes: What it adds to a data packet; an acknowledgement has as much, in the room that it has left.
    """

    control: Callable[[Sender], Control] | None = None
    extra_bytes: int = 0


class GaveUpError(Exception):
    """A sender has gone back too often without progress."""


class Sender:
    """A flow at its source. Bytes below ``acked`` have been acknowledged, those from ``next_byte`` on are to be sent.

    Attributes:
        window_bytes: Most in flight at line rate; None is unlimited.
        rate: Bit/s at which it spaces its packets; the line's at first.
        available: Tick from which it may send by its rate.
    """

    def __init__(
        self,
        number: int,
        flow: Flow,
        window_bytes: int | None,
        settings: PacketSettings,
        clock: Clock,
        turns: Turns,
        congestion: Congestion,
        spray: Spray | None = None,
    ) -> None:
        self.spray = spray
        self.number, self.flow, self.window_bytes = number, flow, window_bytes
        self.settings, self.clock, self.turns = settings, clock, turns
        self.rate = self.line_rate = turns.port.bits_per_s
        self.next_byte = self.acked = 0
        self.available = clock.now
        self.last_size = 0
        self.go_backs = 0
        self._confirmed: set[int] = set()  # first bytes of packets acknowledged before earlier ones
        self._expiries = 0
        self._timer: Call | None = None
        self.payload_bytes = flow.payload_bytes or settings.payload_bytes
        self.header_bytes = flow.header_bytes or settings.header_bytes + congestion.extra_bytes
        self._control = congestion.control(self) if congestion.control and flow.answered else None

    @property
    def finished(self) -> bool:
        return self.acked >= self.flow.size_bytes

    @property
    def bytes_left(self) -> int:
        return self.flow.size_bytes - self.next_byte

    @property
    def window_is_full(self) -> bool:
        window, settings = self.window_bytes, self.settings
        if settings.selective and self.next_byte - self.acked >= settings.ahead_packets * settings.payload_bytes:
            return True
        if window is None:
            return False
        if self.settings.window_follows_rate:
            window = max(1, window * self.rate // self.line_rate)
        return self.next_byte - self.acked >= window

    @property
    def next_size(self) -> int:
        return min(self.payload_bytes, self.bytes_left) + self.header_bytes

    def next_packet(self) -> Packet:
        settings, now = self.settings, self.clock.now
        payload = min(self.payload_bytes, self.bytes_left)
        size = self.next_size
        way = self.spray.next() if self.spray else self.flow.path
        packet = Packet(Kind.DATA, size, self.number, self.next_byte, payload, deque(way[1:]), sent=now)
        packet.traffic_class = self.flow.traffic_class
        packet.taken.append(way[0])
        packet.sent_as = self.flow
        self.next_byte += payload
        self._pass_over()
        self.last_size = size
        self.available = now + settings.serialisation(size, self.rate)
        if self._timer is None:
            self._set_timer()
        return packet

    def count(self, packet: Packet) -> None:
        """The bytes that an acknowledgement is for."""
        alone = self.settings.selective and packet.came > max(self.acked, packet.number)
        news = packet.number > self.acked or (alone and packet.came not in self._confirmed)
        self.acked = max(self.acked, packet.number)
        if alone:
            self._confirmed.add(packet.came)
        self._confirmed = {first for first in self._confirmed if first >= self.acked}
        self.next_byte = max(self.next_byte, self.acked)
        self._pass_over()
        if news:
            self._expiries = 0
            self._set_timer()

    def react(self, packet: Packet) -> None:
        """Go back if asked to, and let congestion control act; a flow that this acknowledgement ended does, too."""
        if packet.kind is Kind.NACK:
            self._go_back()
        if self._control is not None:
            self._control.acknowledged(packet)

    def reroute(self, flow: Flow) -> None:
        """The flow goes on by other ways."""
        self.flow = flow
        if self.spray:
            self.spray.ways = flow.ways

    def pace(self, rate: int) -> None:
        """Another rate, as if it had held since the last packet was sent."""
        serialisation = self.settings.serialisation
        self.available += serialisation(self.last_size, rate) - serialisation(self.last_size, self.rate)
        self.rate = rate
        self.turns.available_from(self.available)

    def _pass_over(self) -> None:
        """What has been acknowledged is not sent again."""
        while self.next_byte in self._confirmed:
            self.next_byte += min(self.settings.payload_bytes, self.bytes_left)

    def _set_timer(self) -> None:
        """Running while bytes are in flight that are to be acknowledged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        after_ps = self.settings.retransmit_ps if self.flow.answered else None
        if after_ps is not None and self.next_byte > self.acked:
            self._timer = self.clock.after(self.settings.ticks(after_ps), self._expired)

    def _expired(self) -> None:
        self._timer = None
        self._expiries += 1
        if self._expiries > self.settings.retries:
            raise GaveUpError(f"flow {self.number} has gone back {self.settings.retries} times to byte {self.acked}")
        self._go_back()
        self.turns.port.kick()

    def _go_back(self) -> None:
        self.next_byte = self.acked
        self.go_backs += 1


class Turns:
    """What waits for a link out of a host: acknowledgements first, then the flows, each a packet in its turn.

    A pause stops both of its class, and so does a want of credit for the one whose turn it is. In strict order the
    first class that has any to send does, and each has turns of its own. The scan begins behind the flow that was
    served last and takes the first that may send. Finished flows stay in the list, and in the count of turns, until a
    scan passes over one: then all behind it that have finished leave, too, and only the number of the flow that is
    served is corrected.
    """

    def __init__(self, clock: Clock, settings: PacketSettings, classes: Sequence[int]) -> None:
        """``classes`` are those in use, in order."""
        self.acks: dict[int, deque[Packet]] = {number: deque() for number in range(CLASSES)}
        self.port: Port
        self._classes, self._strict = tuple(classes), settings.class_order == "strict"
        self._clock = clock
        self._senders: list[Sender] = []
        self._served = Counter[int | None]()  # by class, in strict order
        self._wake: Call | None = None

    def join(self, sender: Sender) -> None:
        self._senders.append(sender)
        self.port.kick()

    def next_packet(self) -> Packet | None:
        ack = self.port.serve(self.acks)
        if ack is not None:
            return ack
        if len(self._classes) > 1:
            return self._next_of_several()
        (number,) = self._classes
        if self.acks[number] and not self.port.is_paused(number):
            return None
        sender = self._next_sender()
        if sender is None:
            self._sleep()
            return None
        if not self.port.spend(sender.next_size, number):
            return None
        self._served[None] = self._senders.index(sender)
        return sender.next_packet()

    def available_from(self, tick: int) -> None:
        """A flow may send from ``tick`` on: wake up then, if the port was to sleep longer."""
        if self._wake is not None and self._wake.pending and tick < self._wake.tick:
            self._wake.cancel()
            self._wake = self._clock.at(max(tick, self._clock.now), self.port.kick)

    def _next_of_several(self) -> Packet | None:
        """Of a flow whose class is not paused, has no acknowledgement waiting, and has credit; without any, sleep."""
        port, senders, count = self.port, self._senders, len(self._senders)
        shut = {number for number in self._classes if port.is_paused(number) or self.acks[number]}
        leaving, chosen = count, None
        for rank in self._classes if self._strict else (None,):
            for step in range(1, 1 if rank in shut or chosen else count + 1):
                turn = (self._served[rank] + step) % count
                sender, number = senders[turn], senders[turn].flow.traffic_class
                if sender.bytes_left > 0 and not sender.window_is_full:
                    meant = rank in (None, number) and number not in shut
                    if meant and sender.available <= self._clock.now:
                        if port.spend(sender.next_size, number):
                            chosen = rank, sender
                            break
                        shut.add(number)
                elif sender.finished:
                    leaving = min(leaving, turn)
        self._let_go(leaving)
        if chosen is None:
            self._sleep()
            return None
        self._served[chosen[0]] = self._senders.index(chosen[1])
        return chosen[1].next_packet()

    def _next_sender(self) -> Sender | None:
        senders, count = self._senders, len(self._senders)
        chosen: Sender | None = None
        leaving = count
        for step in range(1, count + 1):
            turn = (self._served[None] + step) % count
            sender = senders[turn]
            if not self.port.paused and sender.bytes_left > 0 and not sender.window_is_full:
                if sender.available <= self._clock.now:
                    chosen = sender
                    break
            elif sender.finished:
                leaving = min(leaving, turn)
        self._let_go(leaving)
        return chosen

    def _let_go(self, leaving: int) -> None:
        staying = [sender for sender in self._senders[leaving:] if not sender.finished]
        self._senders = self._senders[:leaving] + staying

    def _sleep(self) -> None:
        """Until a flow may send by its rate; a wake-up that is set already stays."""
        now = self._clock.now
        times = [sender.available for sender in self._senders if sender.bytes_left > 0 and sender.available > now]
        if times and not (self._wake is not None and self._wake.pending):
            self._wake = self._clock.at(min(times), self.port.kick)


@dataclass(slots=True, eq=False)
class Receiver:
    """A flow at its target, which takes its bytes in order alone, unless it is selective.

    Attributes:
        expected: The next byte.
        milestone: It acknowledges when it expects this byte or a later one.
        news: Whether the last packet had bytes that it had not.
    """

    size_bytes: int
    settings: PacketSettings
    expected: int = 0
    milestone: int = field(init=False)
    news: bool = field(init=False, default=False)
    _early: dict[int, int] = field(default_factory=dict)  # payload by first byte
    _asked_for: int = 0
    _ask_again: int = 0

    def __post_init__(self) -> None:
        self.milestone = self.settings.ack_every

    def answer(self, packet: Packet, now: int) -> Kind | None:
        """To a data packet. Duplicates go unanswered where no sender can be waiting for a lost acknowledgement."""
        self.news = packet.number == self.expected
        if self.settings.selective:
            self.news = packet.number >= self.expected and packet.number not in self._early
            self._early[packet.number] = packet.payload
            while self.expected in self._early:
                self.expected += self._early[self.expected]
            self._early = {first: size for first, size in self._early.items() if first > self.expected}
            return Kind.ACK
        if packet.number > self.expected:
            if now < self._ask_again and self._asked_for == self.expected:
                return None
            self._ask_again = now + self.settings.ticks(self.settings.nack_interval_ps)
            self._asked_for = self.expected
            return Kind.NACK
        if packet.number < self.expected:
            return Kind.ACK if self.settings.retransmit_ps is not None else None
        self.expected += packet.payload
        if self.expected < min(self.milestone, self.size_bytes):
            return None
        self.milestone = self.expected + self.settings.ack_every
        return Kind.ACK


def ack_size(settings: PacketSettings, congestion: Congestion) -> int:
    """It has two bytes of header less than data, and carries back what congestion control has added."""
    return max(settings.ack_bytes, settings.header_bytes - 2 + congestion.extra_bytes)


def acknowledgement(
    kind: Kind, size: int, data: Packet, expected: int, back: tuple[int, ...], traffic_class: int
) -> Packet:
    """Of a data packet, with what it met on its way."""
    way, stamps = deque(back[1:]), list[Stamp](data.stamps)
    return Packet(
        kind,
        size,
        data.flow,
        expected,
        came=data.number,
        way=way,
        marked=data.marked,
        sent=data.sent,
        stamps=stamps,
        traffic_class=traffic_class,
    )
