"""What the plain packet model takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from xsim.fabric.graph import Cable

__all__ = ["CLASSES", "Flow", "LinkCounters", "Marking", "Outcome", "PacketSettings", "round_trip"]


CLASSES = 8


@dataclass(frozen=True, slots=True)
class Flow:
    """One message between two hosts.

    Attributes:
        start_ps: Earliest start; of a flow that waits for another, how long after the end of that.
        after: Number of the flow that it waits for, or -1.
        path: Directed links of its data, not empty.
        back: Directed links of its acknowledgements, not empty.
        payload_bytes, header_bytes: Of its packets, if they are not like those of others.
        answered: Whether it has acknowledgements, and congestion control.
        traffic_class: 0 to 7.
        ways: Paths that are as good as ``path``, itself among them, sorted, all with the same first link.
        back_ways: Those that are as good as ``back``.
        without: Links that had failed when some of the ways were left out; empty if none is.
    """

    src: int
    dst: int
    size_bytes: int
    start_ps: int
    after: int
    path: tuple[int, ...]
    back: tuple[int, ...]
    payload_bytes: int | None = None
    header_bytes: int | None = None
    answered: bool = True
    traffic_class: int = 3
    ways: tuple[tuple[int, ...], ...] = ()
    back_ways: tuple[tuple[int, ...], ...] = ()
    without: frozenset[int] = frozenset()


class Marking(NamedTuple):
    """A packet that leaves up to ``kmin_bytes`` in its queue is not marked, one that leaves more than ``kmax_bytes``
    always, between them with a probability that rises to ``pmax``."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSettings:
    """The defaults are those of HPCC's public ns-3 model of RDMA hosts, its clock of 1 ns included.

    Attributes:
        tick_ps: The clock; every serialisation time is a whole number of ticks.
        below_whole: A serialisation time is the most ticks strictly below the exact one, else the most not above it.
            The two differ by one where it is whole: ns-3 truncates a binary fraction of a second.
        header_bytes: Of each data packet, beside its payload and what its congestion control adds.
        ack_bytes: Least size of an acknowledgement.
        ack_every: A receiver acknowledges when so many bytes are new to the sender, and the last byte always.
        headroom, headroom_bytes: Kept per port for what is under way when it pauses: so many times bandwidth times
            delay, and so many bytes.
        pause_shift: A port may hold the free pool shifted right by this, or less far if it is faster than the hosts'.
        resume_gap_bytes: So much less it holds before a neighbour that it paused may resume.
        credit: Of directed links that work by credit the bytes of the buffer at their end; what comes over the others
            is in the memory of the switch.
        mute: Switches that pause nobody and mark nothing.
        marking: By the bit/s of a port; one that is not listed takes that of the next slower, or of the slowest.
        window_bytes: Most that a flow at line rate has in flight: "path" is what its own path holds at the rate of its
            slowest link in one round trip without queues; None is unlimited.
        window_follows_rate: The window shrinks with the rate.
        round_trip_ps: What congestion control takes for the round trip time without queues.
        routes_by_start: Flows of one pair of hosts take their paths in the order in which they start, not in which they
            are listed: the reference numbers source ports so.
        routing: Each packet of a flow takes its ``path``; or its ``ways`` by turns; or that which the switches choose.
        selective: A receiver keeps what comes early and acknowledges each packet by itself; it never asks.
        ahead_packets: Then a sender has no more packets than this under way, from its first unacknowledged byte on.
        class_order: Which class is served where several wait. Round robin: at switches class 0 before all others, and
            not counted, paused or marked there, the others in turn; at hosts flows in turn. Strict: the smaller first.
        ack_priority: Acknowledgements are in class 0, else in that of their flow.
        nack_interval_ps: A receiver asks for the same missing byte not more often than this.
        retransmit_ps: A sender goes back after so long without progress; None is never, as in the reference.
        retries: How often in a row before it gives up.
        completion: When a flow has ended for those that wait for it: at its last acknowledgement, or at its last byte.
        seed: Of the chances of marks and losses.
    """

    tick_ps: int = 1000
    below_whole: bool = True
    payload_bytes: int = 1000
    header_bytes: int = 48
    ack_bytes: int = 60
    pfc_bytes: int = 43
    ack_every: int = 1
    pfc: bool = True
    credit: Mapping[int, int] = field(default_factory=dict)
    mute: frozenset[int] = frozenset()
    buffer_bytes: int = 32 << 20
    reserve_bytes: int = 4096
    headroom: int = 3
    headroom_bytes: int = 0
    pause_shift: int = 3
    resume_gap_bytes: int = 3072
    marking: Mapping[int, Marking] = field(default_factory=dict)
    window_bytes: int | Literal["path"] | None = None
    window_follows_rate: bool = False
    round_trip_ps: int = 0
    routes_by_start: bool = True
    routing: Literal["path", "spray", "adaptive"] = "path"
    selective: bool = False
    ahead_packets: int = 4096
    class_order: Literal["round_robin", "strict"] = "round_robin"
    ack_priority: bool = False
    nack_interval_ps: int = 500_000_000
    retransmit_ps: int | None = None
    retries: int = 7
    completion: Literal["sender", "receiver"] = "sender"
    seed: int = 0

    def ticks(self, time_ps: int) -> int:
        return time_ps // self.tick_ps

    def turns(self, last: int) -> list[int]:
        """Classes as a port tries them after it has served ``last``."""
        if self.class_order == "strict":
            return list(range(CLASSES))
        in_turn = [(last + step) % CLASSES for step in range(1, CLASSES + 1)]
        return [0, *(number for number in in_turn if number)]

    def exempt(self, traffic_class: int) -> bool:
        """Whether switches count, pause and mark it not."""
        return self.class_order == "round_robin" and traffic_class == 0

    def serialisation(self, size_bytes: int, bits_per_s: int) -> int:
        """Ticks to send so much at such a rate."""
        return (8 * size_bytes * (10**12 // self.tick_ps) - self.below_whole) // bits_per_s

    def marking_at(self, bits_per_s: int) -> Marking | None:
        slower = [rate for rate in self.marking if rate <= bits_per_s]
        return self.marking[max(slower, default=min(self.marking))] if self.marking else None


@dataclass(slots=True)
class LinkCounters:
    """Of one directed link.

    Attributes:
        sent_bytes: Of all frames begun to be sent on it.
        packets: How many those are, acknowledgements and pause frames included.
        marks: Packets that were marked as they left on it.
        pauses: How often the switch at its end told its start to pause.
        paused_ps: For how long its start was paused.
        drops: Packets for which the switch at its end had no room.
        lost: Packets that were lost on the wire, or waited for it or were to go over it when it had failed.
        carried_bytes: Of the payload of packets that have come to their targets by it, each byte once.
    """

    sent_bytes: int = 0
    packets: int = 0
    marks: int = 0
    pauses: int = 0
    paused_ps: int = 0
    drops: int = 0
    lost: int = 0
    carried_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of F flows and the directed links of the graph.

    Attributes:
        start_ps: When each flow began.
        sender_end_ps: When its sender had the last acknowledgement.
        receiver_end_ps: When its receiver had the last byte.
        go_backs: How often its sender went back to what was missing.
    """

    start_ps: tuple[int, ...]
    sender_end_ps: tuple[int, ...]
    receiver_end_ps: tuple[int, ...]
    go_backs: tuple[int, ...]
    links: tuple[LinkCounters, ...]


def round_trip(cables: Sequence[Cable], payload_bytes: int) -> tuple[int, int]:
    """Of one packet over a path without queues, headers and acknowledgements not counted: ps, and the bytes that the
    path holds in that time at the rate of its slowest link."""
    time_ps = sum(2 * cable.delay_ps + payload_bytes * 8 * 10**12 // cable.bandwidth_bits_per_s for cable in cables)
    return time_ps, time_ps * min(cable.bandwidth_bits_per_s for cable in cables) // (8 * 10**12)
