"""A switch: queues that share one memory, pause frames to those who fill it, marks and stamps on what passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from tests.oracles.packet_clock import Clock
from tests.oracles.packet_port import Kind, Packet, Port, Stamp
from tests.oracles.packet_values import CLASSES, PacketSettings

__all__ = ["Switch", "SwitchQueue"]

Ingress = tuple[int, int]  # a link, and a class


class SwitchQueue:
    """What waits for one link: pause frames first, then data and acknowledgements of each class as they came."""

    def __init__(self) -> None:
        self.frames: deque[Packet] = deque()
        self.packets: dict[int, deque[Packet]] = {number: deque() for number in range(CLASSES)}
        self.frame_bytes = 0
        self.class_bytes = [0] * CLASSES

    def put(self, packet: Packet) -> None:
        self.packets[packet.traffic_class].append(packet)
        self.class_bytes[packet.traffic_class] += packet.size

    def put_frame(self, packet: Packet) -> None:
        self.frames.append(packet)
        self.frame_bytes += packet.size

    def take(self, port: Port) -> Packet | None:
        packet = port.serve(self.packets)
        if packet is not None:
            self.class_bytes[packet.traffic_class] -= packet.size
        return packet

    def drained(self) -> Iterator[Packet]:
        """All packets, which are not to be sent, class by class."""
        for number, waiting in self.packets.items():
            while waiting:
                packet = waiting.popleft()
                self.class_bytes[number] -= packet.size
                yield packet

    @property
    def packet_bytes(self) -> int:
        return sum(self.class_bytes)

    def take_frame(self) -> Packet:
        packet = self.frames.popleft()
        self.frame_bytes -= packet.size
        return packet


class Switch:
    """Bytes are accounted to the link by which they came and their class, *ingress*: to its reserve first, then to the
    shared pool, and to its headroom once it holds more than its share of what is free in the pool. A pause frame goes
    out when an ingress reaches that share or its headroom, a resume frame when the headroom is empty and the share some
    way off.
    """

    def __init__(
        self, vertex: int, settings: PacketSettings, clock: Clock, ports: Mapping[int, Port], fastest_nic: int
    ) -> None:
        """``ports`` by the links out of it; the links into it are their other directions."""
        self._settings, self._clock, self._ports = settings, clock, ports
        self._speaks = vertex not in settings.mute
        self.queues = {link: SwitchQueue() for link in ports}
        self._headroom = {
            link ^ 1: port.bits_per_s * port.delay * settings.tick_ps // (8 * 10**12) * settings.headroom
            + settings.headroom_bytes
            for link, port in ports.items()
        }
        own = [size for link, size in self._headroom.items() if link not in settings.credit]
        self._pool = settings.buffer_bytes - sum(own) - settings.reserve_bytes * len(own)
        self._shift = {
            link ^ 1: _shift(port.bits_per_s, fastest_nic, settings.pause_shift) for link, port in ports.items()
        }
        self._marking = {link: settings.marking_at(port.bits_per_s) for link, port in ports.items()}
        ingress = [(link, number) for link in self._headroom for number in range(CLASSES)]
        self._held = dict.fromkeys(ingress, 0)  # reserve and pool
        self._over = dict.fromkeys(ingress, 0)  # headroom
        self._pausing = dict.fromkeys(ingress, False)
        self._kept = dict.fromkeys(ingress, 0)  # in the buffers of links that work by credit
        self._senders: dict[int, Port] = {}  # at the other ends of the links into it
        self._shared = 0

    def forward(self, packet: Packet, came_by: int, sender: Port) -> None:
        """Account, then pause, then queue, then send: all at the instant of the arrival."""
        packet.came_by = came_by
        out = packet.way.popleft()
        packet.taken.append(out)
        self._senders[came_by] = sender
        ingress = came_by, packet.traffic_class
        if sender.by_credit:
            self._kept[ingress] += packet.size
            assert self._kept[ingress] <= self._settings.credit[came_by]
        elif not self._settings.exempt(packet.traffic_class):
            if not self._has_room(ingress, packet.size):
                sender.counters.drops += 1
                return
            self._account(ingress, packet.size)
            if self._must_pause(ingress):
                self._pausing[ingress] = True
                sender.counters.pauses += 1
                self._send_frame(Kind.PAUSE, ingress)
        self.queues[out].put(packet)
        self._ports[out].kick()

    def next_packet(self, out: int) -> Packet | None:
        """For the link ``out``: release, mark, resume, stamp, in this order, before its transmission begins."""
        port, queue = self._ports[out], self.queues[out]
        if queue.frames:
            return queue.take_frame()
        packet = queue.take(port)
        if packet is None:
            return None
        number = packet.traffic_class
        ingress = packet.came_by, number
        exempt = self._settings.exempt(number)
        if self._senders[packet.came_by].by_credit:
            self._kept[ingress] -= packet.size
            self._senders[packet.came_by].leave(packet.size, number)
        elif not exempt:
            self._release(ingress, packet.size)
        if not exempt and self._marks(port, queue.class_bytes[number]):
            packet.marked |= packet.kind is Kind.DATA  # of an acknowledgement it would be read by nobody
            port.counters.marks += 1
        if self._may_resume(ingress):
            self._pausing[ingress] = False
            self._send_frame(Kind.RESUME, ingress)
        if packet.kind is Kind.DATA:
            queued = queue.packet_bytes + queue.frame_bytes
            packet.stamps.append(Stamp(self._clock.now, port.counters.sent_bytes, queued, port.bits_per_s))
        return packet

    def sever(self, out: int) -> None:
        """The link ``out`` has failed: what waits for it is lost."""
        queue = self.queues[out]
        queue.frames.clear()
        queue.frame_bytes = 0
        for packet in queue.drained():
            self._ports[out].counters.lost += 1
            ingress = packet.came_by, packet.traffic_class
            if self._senders[packet.came_by].by_credit:
                self._kept[ingress] -= packet.size
                self._senders[packet.came_by].leave(packet.size, packet.traffic_class)
                continue
            if not self._settings.exempt(packet.traffic_class):
                self._release(ingress, packet.size)
            if self._may_resume(ingress):
                self._pausing[ingress] = False
                self._send_frame(Kind.RESUME, ingress)

    def forget(self, came_by: int) -> dict[int, int]:
        """The link ``came_by`` has failed, whatever its start was told.

        Of each class the bytes in its buffer, if it works by credit.
        """
        for number in range(CLASSES):
            self._pausing[came_by, number] = False
        return {number: self._kept[came_by, number] for number in range(CLASSES)}

    def assert_empty(self) -> None:
        assert not any(any(queue.packets.values()) or queue.frames for queue in self.queues.values())
        assert not any(queue.packet_bytes or queue.frame_bytes for queue in self.queues.values())
        assert not any(
            [*self._held.values(), *self._over.values(), *self._pausing.values(), *self._kept.values(), self._shared]
        )

    def _share(self, ingress: Ingress) -> int:
        return self._pool - self._shared >> self._shift[ingress[0]]

    def _above_reserve(self, ingress: Ingress) -> int:
        return max(0, self._held[ingress] - self._settings.reserve_bytes)

    def _has_room(self, ingress: Ingress, size: int) -> bool:
        in_headroom = size + self._over[ingress] <= self._headroom[ingress[0]]
        return in_headroom or size + self._above_reserve(ingress) <= self._share(ingress)

    def _account(self, ingress: Ingress, size: int) -> None:
        held = self._held[ingress] + size
        beyond = held - self._settings.reserve_bytes
        if beyond > 0 and beyond > self._share(ingress):
            self._over[ingress] += size
        else:
            self._held[ingress] = held
            self._shared += max(0, min(size, beyond))

    def _release(self, ingress: Ingress, size: int) -> None:
        over = min(self._over[ingress], size)
        shared = min(size - over, self._above_reserve(ingress))
        self._over[ingress] -= over
        self._held[ingress] -= size - over
        self._shared -= shared

    def _must_pause(self, ingress: Ingress) -> bool:
        full = self._over[ingress] > 0 or self._above_reserve(ingress) >= self._share(ingress)
        return self._settings.pfc and self._speaks and not self._pausing[ingress] and full

    def _may_resume(self, ingress: Ingress) -> bool:
        if not self._pausing[ingress] or self._over[ingress]:
            return False
        above = self._above_reserve(ingress)
        return above == 0 or above + self._settings.resume_gap_bytes <= self._share(ingress)

    def _send_frame(self, kind: Kind, ingress: Ingress) -> None:
        back = ingress[0] ^ 1
        self.queues[back].put_frame(Packet(kind, self._settings.pfc_bytes, traffic_class=ingress[1]))
        self._ports[back].kick()

    def _marks(self, port: Port, left: int) -> bool:
        marking = self._marking[port.link]
        if not self._speaks or marking is None or left <= marking.kmin_bytes:
            return False
        if left > marking.kmax_bytes:
            return True
        share = (left - marking.kmin_bytes) / max(1, marking.kmax_bytes - marking.kmin_bytes)
        return port.dice.throw() < marking.pmax * share


def _shift(bits_per_s: int, fastest_nic: int, usual: int) -> int:
    """A port faster than the hosts' may hold twice the share per halving that would make it as slow."""
    shift = usual
    while shift > 0 and bits_per_s > fastest_nic << usual - shift:
        shift -= 1
    return shift
