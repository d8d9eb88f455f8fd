"""Packets, and the port at the start of each directed link that puts them on the wire one by one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from tests.oracles.packet_clock import Clock, Dice
from tests.oracles.packet_values import CLASSES, Flow, LinkCounters, PacketSettings
from xsim.fabric.graph import Cable

__all__ = ["Kind", "Packet", "Port", "Stamp"]


class Kind(Enum):
    DATA = auto()
    ACK = auto()
    NACK = auto()
    PAUSE = auto()
    RESUME = auto()


class Stamp(NamedTuple):
    """What a switch notes on a data packet as its transmission begins.

    Attributes:
        sent_bytes: On that link before this packet, frames of every kind.
        queued_bytes: Behind this packet for the same link, pause frames included.
    """

    tick: int
    sent_bytes: int
    queued_bytes: int
    bits_per_s: int


@dataclass(slots=True, eq=False)
class Packet:
    """Attributes:
    number: Of data its first byte; of an acknowledgement the next byte expected.
    way: Directed links that are still ahead of it.
    came_by: The link by which it came to the switch that holds it.
    marked: Met congestion; an acknowledgement repeats what the data packet met, and its stamps and time of sending.
    traffic_class: Its own; of a pause frame that which it is about.
    taken: Links that it has taken, the present one last.
    came: Of an acknowledgement, the first byte of the packet that it is for.
    sent_as: Its flow as it was when it was sent.
    """

    kind: Kind
    size: int
    flow: int = -1
    number: int = 0
    payload: int = 0
    way: deque[int] = field(default_factory=deque)
    came_by: int = -1
    marked: bool = False
    sent: int = 0
    stamps: list[Stamp] = field(default_factory=list)
    came: int = -1
    traffic_class: int = 3
    taken: list[int] = field(default_factory=list)
    sent_as: Flow | None = None


class Port:
    """Sends what ``supply`` hands out, store and forward: the next when one has left, received a delay later.

    At one instant a port is free again before the packet that it sent arrives anywhere, since that is scheduled first.
    """

    def __init__(
        self,
        link: int,
        cable: Cable,
        settings: PacketSettings,
        clock: Clock,
        dice: Dice,
        supply: Callable[[], Packet | None],
        deliver: Callable[[Packet], None],
    ) -> None:
        self.link = link
        self.bits_per_s = cable.bandwidth_bits_per_s
        self.delay = settings.ticks(cable.delay_ps)
        self.loss = cable.loss
        self.dice = dice
        self.counters = LinkCounters()
        self.served_class = CLASSES - 1  # last, of those that are served in turn
        self._settings, self._clock, self._supply, self._deliver = settings, clock, supply, deliver
        self.down = False
        self._severed = 0  # how often
        self._busy = False
        self._paused_since: dict[int, int] = {}  # by class
        self._on_the_wire = 0
        self._credit = settings.credit.get(link)
        self._spent = Counter[int]()
        self._waits_for_credit: set[int] = set()

    def kick(self) -> None:
        """Send, if it is free and there is something to send."""
        if self._busy:
            return
        packet = self._supply()
        if packet is None:
            return
        self._busy = True
        self._on_the_wire += 1
        self.counters.sent_bytes += packet.size
        self.counters.packets += 1
        free = self._clock.now + self._settings.serialisation(packet.size, self.bits_per_s)
        self._clock.at(free, self._freed)
        severed = self._severed
        self._clock.at(free + self.delay, lambda: self._arrived(packet, severed))

    def pause(self, traffic_class: int, *, paused: bool) -> None:
        """By a frame from the other end; what is being sent goes on."""
        now, since = self._clock.now, self._paused_since
        if paused:
            since.setdefault(traffic_class, now)
            return
        if traffic_class in since:
            self.counters.paused_ps += (now - since.pop(traffic_class)) * self._settings.tick_ps
        self.kick()

    @property
    def paused(self) -> bool:
        """Whether any class is."""
        return bool(self._paused_since)

    def serve(self, waiting: Mapping[int, deque[Packet]]) -> Packet | None:
        """The first packet of the class whose turn it is, of those that are not paused and have credit."""
        for number in self._settings.turns(self.served_class):
            queue = waiting.get(number)
            if queue and not self.is_paused(number) and self.spend(queue[0].size, number):
                if not self._settings.exempt(number):
                    self.served_class = number
                return queue.popleft()
        return None

    def is_paused(self, traffic_class: int) -> bool:
        return traffic_class in self._paused_since

    @property
    def by_credit(self) -> bool:
        return self._credit is not None

    def spend(self, size: int, traffic_class: int) -> bool:
        """Take the room for a packet in the buffer of its class at the other end, if it is there.

        If not, the next to come kicks.
        """
        if self._credit is None:
            return True
        if self._spent[traffic_class] + size > self._credit:
            self._waits_for_credit.add(traffic_class)
            return False
        self._spent[traffic_class] += size
        return True

    def leave(self, size: int, traffic_class: int) -> None:
        """So much has left that buffer, which is known here a delay later."""

        severed = self._severed

        def known() -> None:
            if severed != self._severed:
                return
            self._spent[traffic_class] -= size
            if traffic_class in self._waits_for_credit:
                self._waits_for_credit.remove(traffic_class)
                self.kick()

        if self._credit is not None:
            self._clock.after(self.delay, known)

    def sever(self, held: Mapping[int, int]) -> None:
        """The wire fails: what is on it is lost, and both ends forget what they have told each other.

        Args:
            held: What the buffer at the other end holds, by class.
        """
        now = self._clock.now
        if not self.down:
            self.counters.paused_ps += (
                sum(now - since for since in self._paused_since.values()) * self._settings.tick_ps
            )
        self._paused_since = dict.fromkeys(range(CLASSES), now)
        self.down = True
        self._severed += 1
        self._spent, self._waits_for_credit = Counter(held), set()

    def mend(self) -> None:
        """It works again; the port looks what there is to send when all else of this instant has happened."""
        self.down, self._paused_since = False, dict.fromkeys(range(CLASSES), self._clock.now)
        severed = self._severed

        def go_on() -> None:
            if severed == self._severed:
                self._paused_since.clear()
                self.kick()

        self._clock.after(0, go_on)

    def assert_idle(self) -> None:
        assert not any(self._spent.values())
        assert not self._busy
        assert not self.paused or self.down
        assert not self._on_the_wire

    def _freed(self) -> None:
        self._busy = False
        self.kick()

    def _arrived(self, packet: Packet, severed: int) -> None:
        self._on_the_wire -= 1
        if severed != self._severed:
            self.counters.lost += packet.kind not in (Kind.PAUSE, Kind.RESUME)
            return
        may_be_lost = self.loss > 0 and packet.kind not in (Kind.PAUSE, Kind.RESUME)
        if may_be_lost and self.dice.throw() < self.loss:
            self.counters.lost += 1
            self.leave(packet.size, packet.traffic_class)
        else:
            self._deliver(packet)
