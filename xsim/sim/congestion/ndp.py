"""NDP (Handley and others, SIGCOMM 2017): receivers ask for packets, and switches cut those that find no room."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.sim.contracts import Asking
from xsim.sim.marking import Marking

__all__ = ["Ndp"]

MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Ndp:
    """A receiver asks for one packet after the other, as fast as its port takes them, of all its senders in turn.

    A transfer begins with a window of packets that nobody has asked for. Queues of switches are short: a packet that
    finds no room is cut to its header, which overtakes all data, and the receiver has its sender send it again. So
    nothing is lost and nobody is paused. Acknowledgements and calls overtake data, too, and each counts as much as an
    acknowledgement. Queues of headers have no bound, where the switches of the paper return to its sender what they
    have no room for; senders that go back so soon that headers pile up are an error. It is meant for
    ``network.routing=spray``: where a hash puts two flows on one path, half of what comes there is cut. With
    ``flow_control=credit`` nothing comes without room, so that nothing is cut, and receivers pace their senders.

    Attributes:
        queue_packets: Full packets that wait for a port of a switch before it cuts others.
        first_packets: What a transfer begins with; 0 is what fits in an undisturbed round trip, and two.
    """

    queue_packets: int = 8  # Handley and others, SIGCOMM 2017: eight packets
    first_packets: int = 0

    law, positions = None, None
    remembers, records, record_bytes, windowed, repaces = 0, False, 0, False, False

    def __post_init__(self) -> None:
        for name, least in (("queue_packets", 1), ("first_packets", 0)):
            if not least <= getattr(self, name) <= MOST:
                problem, fix = f"it is not within {least} to {MOST}", "choose a number of packets"
                raise SpecError(name, getattr(self, name), problem, fix)

    @property
    def asking(self) -> Asking | None:
        return Asking(self.queue_packets, self.first_packets)

    def marking(self, bits_per_s: int) -> Marking | None:
        return None

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        return ()
