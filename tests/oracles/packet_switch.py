"""A switch: queues that share one memory, pause frames to those who fill it, marks and stamps on what passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tests.oracles.packet_clock import Clock
from tests.oracles.packet_port import Kind, Packet, Port, Stamp
from tests.oracles.packet_values import PacketSettings

__all__ = ["Switch", "SwitchQueue"]

RESUME_GAP_BYTES = 3072
SHIFT = 3  # a port may hold an eighth of the free pool


class SwitchQueue:
    """What waits for one link: pause frames first, then data and acknowledgements in order of arrival."""

    def __init__(self) -> None:
        self.frames: deque[Packet] = deque()
        self.packets: deque[Packet] = deque()
        self.frame_bytes = self.packet_bytes = 0

    def put(self, packet: Packet) -> None:
        self.packets.append(packet)
        self.packet_bytes += packet.size

    def put_frame(self, packet: Packet) -> None:
        self.frames.append(packet)
        self.frame_bytes += packet.size

    def take(self) -> Packet:
        packet = self.packets.popleft()
        self.packet_bytes -= packet.size
        return packet

    def take_frame(self) -> Packet:
        packet = self.frames.popleft()
        self.frame_bytes -= packet.size
        return packet


class Switch:
    """Bytes are accounted to the link by which they came, its *ingress*: to its reserve first, then to the shared pool,
    and to its headroom once it holds more than its share of what is free in the pool. A pause frame goes out when an
    ingress reaches that share or its headroom, a resume frame when the headroom is empty and the share 3072 bytes away.
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
        self._pool = settings.buffer_bytes - sum(self._headroom.values()) - settings.reserve_bytes * len(ports)
        self._shift = {link ^ 1: _shift(port.bits_per_s, fastest_nic) for link, port in ports.items()}
        self._marking = {link: settings.marking_at(port.bits_per_s) for link, port in ports.items()}
        self._held = dict.fromkeys(self._headroom, 0)  # reserve and pool
        self._over = dict.fromkeys(self._headroom, 0)  # headroom
        self._pausing = dict.fromkeys(self._headroom, False)
        self._kept = dict.fromkeys(self._headroom, 0)  # in the buffers of links that work by credit
        self._senders: dict[int, Port] = {}  # at the other ends of the links into it
        self._shared = 0

    def forward(self, packet: Packet, came_by: int, sender: Port) -> None:
        """Account, then pause, then queue, then send: all at the instant of the arrival."""
        packet.came_by = came_by
        out = packet.way.popleft()
        packet.taken.append(out)
        self._senders[came_by] = sender
        if sender.by_credit:
            self._kept[came_by] += packet.size
            assert self._kept[came_by] <= self._settings.credit[came_by]
        elif not self._has_room(came_by, packet.size):
            sender.counters.drops += 1
            return
        else:
            self._account(came_by, packet.size)
        if not sender.by_credit and self._must_pause(came_by):
            self._pausing[came_by] = True
            sender.counters.pauses += 1
            self._send_frame(Kind.PAUSE, came_by)
        self.queues[out].put(packet)
        self._ports[out].kick()

    def next_packet(self, out: int) -> Packet | None:
        """For the link ``out``: release, mark, resume, stamp, in this order, before its transmission begins."""
        port, queue = self._ports[out], self.queues[out]
        if queue.frames:
            return queue.take_frame()
        if not queue.packets or port.paused:
            return None
        if not port.spend(queue.packets[0].size):
            return None
        packet = queue.take()
        if self._senders[packet.came_by].by_credit:
            self._kept[packet.came_by] -= packet.size
            self._senders[packet.came_by].leave(packet.size)
        else:
            self._release(packet.came_by, packet.size)
        if self._marks(port, queue.packet_bytes):
            packet.marked |= packet.kind is Kind.DATA  # of an acknowledgement it would be read by nobody
            port.counters.marks += 1
        if self._may_resume(packet.came_by):
            self._pausing[packet.came_by] = False
            self._send_frame(Kind.RESUME, packet.came_by)
        if packet.kind is Kind.DATA:
            queued = queue.packet_bytes + queue.frame_bytes
            packet.stamps.append(Stamp(self._clock.now, port.counters.sent_bytes, queued, port.bits_per_s))
        return packet

    def assert_empty(self) -> None:
        assert not any(queue.packets or queue.frames for queue in self.queues.values())
        assert not any(queue.packet_bytes or queue.frame_bytes for queue in self.queues.values())
        assert not any(
            [*self._held.values(), *self._over.values(), *self._pausing.values(), *self._kept.values(), self._shared]
        )

    def _share(self, link: int) -> int:
        return self._pool - self._shared >> self._shift[link]

    def _above_reserve(self, link: int) -> int:
        return max(0, self._held[link] - self._settings.reserve_bytes)

    def _has_room(self, link: int, size: int) -> bool:
        in_headroom = size + self._over[link] <= self._headroom[link]
        return in_headroom or size + self._above_reserve(link) <= self._share(link)

    def _account(self, link: int, size: int) -> None:
        held = self._held[link] + size
        beyond = held - self._settings.reserve_bytes
        if beyond > 0 and beyond > self._share(link):
            self._over[link] += size
        else:
            self._held[link] = held
            self._shared += max(0, min(size, beyond))

    def _release(self, link: int, size: int) -> None:
        over = min(self._over[link], size)
        shared = min(size - over, self._above_reserve(link))
        self._over[link] -= over
        self._held[link] -= size - over
        self._shared -= shared

    def _must_pause(self, link: int) -> bool:
        full = self._over[link] > 0 or self._above_reserve(link) >= self._share(link)
        return self._settings.pfc and self._speaks and not self._pausing[link] and full

    def _may_resume(self, link: int) -> bool:
        if not self._pausing[link] or self._over[link]:
            return False
        above = self._above_reserve(link)
        return above == 0 or above + RESUME_GAP_BYTES <= self._share(link)

    def _send_frame(self, kind: Kind, came_by: int) -> None:
        back = came_by ^ 1
        self.queues[back].put_frame(Packet(kind, self._settings.pfc_bytes))
        self._ports[back].kick()

    def _marks(self, port: Port, left: int) -> bool:
        marking = self._marking[port.link]
        if not self._speaks or marking is None or left <= marking.kmin_bytes:
            return False
        if left > marking.kmax_bytes:
            return True
        share = (left - marking.kmin_bytes) / max(1, marking.kmax_bytes - marking.kmin_bytes)
        return port.dice.throw() < marking.pmax * share


def _shift(bits_per_s: int, fastest_nic: int) -> int:
    """A port faster than the hosts' may hold twice the share per halving that would make it as slow."""
    shift = SHIFT
    while shift > 0 and bits_per_s > fastest_nic << SHIFT - shift:
        shift -= 1
    return shift
