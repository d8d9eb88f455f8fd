"""What a packet network is set to, beside its wires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from xsim.errors import SpecError
from xsim.fabric.flows import CLASS, MOST_CLASS
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.none import Uncontrolled
from xsim.sim.contracts import CongestionControl
from xsim.sim.marking import Marking, marking_at

__all__ = ["FLOW_CONTROLS", "MOST_AHEAD", "Settings"]

FLOW_CONTROLS = ("pause", "credit", "none")
CLASS_ORDERS = ("round_robin", "strict")
ROUTINGS = ("hash", "round_robin", "rail", "spray", "adaptive")

REPLY_SAVES_BYTES = 2  # an acknowledgement's header is so much shorter than that of data
LEAST_SAMPLE_PS = 1000
MOST_AHEAD = 4096  # packets, two bits each of every flow that sends so many
MOST, MOST_SHIFT = 1 << 50, 40
OF_PACKETS = ("header_bytes", "scale_up_header_bytes", "ack_bytes", "pfc_bytes", "headroom", "headroom_packets")
OF_MEMORY = ("buffer_bytes", "reserve_bytes", "headroom", "headroom_packets", "pause_shift", "resume_gap_bytes")
LIMITED = (
    *OF_PACKETS,
    *("buffer_bytes", "credit_bytes", "reserve_bytes", "ack_every", "retries", "retry_ps", "nack_interval_ps"),
    "resume_gap_bytes",
)
MOST_PAYLOAD_BYTES = 1 << 20  # so that a packet's bits by the picoseconds of a second stay within 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The defaults are those of the public ns-3 model of RDMA hosts, with its clock of 1 ns made 1 ps.

    The model: https://github.com/alibaba-edu/High-Precision-Congestion-Control.

    Attributes:
        tick_ps: The clock: 1, or 1000 to agree with ns-3 to the nanosecond.
        payload_bytes: Of a full data packet.
        header_bytes: Of each data packet, besides.
        scale_up_payload_bytes, scale_up_header_bytes: The same, of packets whose way is the links of a scale-up fabric
            alone. NVLink's packets carry at most 256 bytes, 16 flits of 16 bytes, and one more flit as their header
            (Foley and Danskin, IEEE Micro 37(2), 2017). The defaults take 16 of them for one: as many bytes on the wire
            and far less to simulate, but stored and forwarded as a whole.
        ack_bytes, pfc_bytes: Whole acknowledgements and pause frames.
        ack_every: A receiver acknowledges when so many bytes are new to the sender, and the last byte always.
        flow_control: What a switch does as its memory fills. ``pause``: it pauses its neighbours, port by port (PFC).
            ``credit``: each link has a buffer of its own at its end, and its transmitter sends only what has room there
            (InfiniBand). ``none``: packets are lost. A switch that cuts packets, as the congestion control may have it,
            neither pauses nor loses any.
        credit_bytes: Of each link's buffer under credit. None: what the link carries in the time from the end of one
            packet to the return of its credit, and two packets, so that a flow alone runs at the rate of the link; with
            less it gets about ``credit_bytes`` per round trip.
        buffer_bytes: Shared memory of each switch, for the links that have no buffer of their own.
        reserve_bytes: Of it, kept for each port.
        headroom, headroom_packets: Bytes kept per port for what is under way when it pauses: so many times bandwidth
            times delay, and so many of the largest packets. Without packets, as in ns-3, cables shorter than these lose
            some in spite of pauses; with 3 none is ever lost (one at either end that has begun, one that was there).
        pause_shift: Beyond its reserve a port holds no more than the free memory of its switch shifted right by this, 3
            is an eighth. Of a port faster than the NICs it is one less for each time that its rate must be halved to be
            no more than theirs. What is beyond goes to the headroom, and the port pauses its neighbour.
        resume_gap_bytes: That goes on when the headroom is empty and so much less than the limit is held, or nothing.
        congestion: The congestion control of all flows.
        ecn: Marking by the port's bits per second; a port that is not listed takes that of the next slower one, or of
            the slowest. Empty: nothing is marked. None: as the congestion control wants it.
        window: What a flow may have under way: ``none`` is unlimited, ``bdp`` what fits in the longest undisturbed
            round trip of the flows, ``follows`` the same, shrinking with the flow's rate, ``path`` the same of the
            flow's own round trip, ``auto`` as the congestion control wants it.
        routing: Which of its shortest paths a packet takes. ``hash``: that which a hash of its flow has chosen (ECMP).
            ``round_robin``: the flows of a host take the paths in turn, as they begin. ``rail``: a flow takes the path
            of the number of its host's NIC. ``spray``: the packets of a flow take all paths in turn, in an order drawn
            anew each time. ``adaptive``: every switch sends every packet by the port with the shortest queue, of
            two drawn at random and that which it chose last (DRILL). Of more than 64 paths, 64 are used, evenly.
            Acknowledgements always take the way of the hash.
        receiver: What it does with a packet that comes before an earlier one. ``in_order`` drops it and asks for the
            earlier one, as the ns-3 model does. ``selective`` keeps it, never asks, and acknowledges every packet by
            itself; a sender goes back after ``retry_ps`` only, sends again what is not acknowledged, and has no more
            under way than ``MOST_AHEAD`` packets from the first of those on. ``auto``: ``selective`` if the packets of
            a flow take several paths, else ``in_order``.
        classes: Numbers of the traffic classes that flows have, 0 to 7. Each has queues, pauses, credit, marks and
            thresholds of its own.
        class_order: Which is served where several wait. ``round_robin``, as the ns-3 model: at switches class 0 before
            all others, neither counted in their memory nor paused or marked, and the others in turn, a packet each; at
            hosts flows in turn. ``strict``: everywhere the smaller number first, and all are counted alike.
        ack_priority: Acknowledgements are in class 0, and not in that of their flow.
        nack_interval_ps: A receiver asks for the same missing byte not more often than this.
        retry_ps: A sender goes back to what is not acknowledged after so long without progress. None: never, as in the
            ns-3 model: if the last packet of a flow is lost, that is an error.
        retries: How often it does so in a row before that is an error.
        completion: When a flow has ended for those that wait for it: at its last acknowledgement, or its last byte.
        sample_ps: How far apart the instants are at which the links are looked at; None: they are not.
        seed: Of the chances of marks and losses.
        fast_forward: Skip what goes on as it went, see ``skip``.
    """

    tick_ps: int = 1
    payload_bytes: int = 1000  # ns-3 model: PACKET_PAYLOAD_SIZE
    header_bytes: int = 48  # Ethernet 14, IPv4 20, UDP 8, and 6 of HPCC's ns-3 model
    scale_up_payload_bytes: int = 4096  # 16 packets of 256 bytes: Foley and Danskin, IEEE Micro 37(2), 2017
    scale_up_header_bytes: int = 256  # 16 headers of 16 bytes: the same
    ack_bytes: int = 60  # ns-3 model: rdma-hw.cc
    pfc_bytes: int = 43  # ns-3 model
    ack_every: int = 1  # ns-3 model: L2_ACK_INTERVAL
    flow_control: Literal["pause", "credit", "none"] = "pause"
    credit_bytes: int | None = None
    buffer_bytes: int = 32 << 20  # ns-3 model: BUFFER_SIZE at 100 Gb/s
    reserve_bytes: int = 4096  # ns-3 model: switch-mmu.cc
    headroom: int = 3  # times bandwidth times delay, as in the ns-3 model
    headroom_packets: int = 0
    pause_shift: int = 3  # ns-3 model: an eighth
    resume_gap_bytes: int = 3072  # ns-3 model: switch-mmu.cc
    congestion: CongestionControl = field(default_factory=Uncontrolled)
    ecn: Mapping[int, Marking] | None = None
    window: Literal["auto", "none", "bdp", "follows", "path"] = "auto"
    routing: Literal["hash", "round_robin", "rail", "spray", "adaptive"] = "hash"
    receiver: Literal["auto", "in_order", "selective"] = "auto"
    classes: tuple[int, ...] = (CLASS,)
    class_order: Literal["round_robin", "strict"] = "round_robin"
    ack_priority: bool = False
    nack_interval_ps: int = 500_000_000  # ns-3 model: rdma-hw.cc
    retry_ps: int | None = None
    retries: int = 7  # the most that an InfiniBand queue pair takes: retry_cnt has 3 bits
    completion: Literal["sender", "receiver"] = "sender"
    sample_ps: int | None = None
    seed: int = 0
    fast_forward: bool = False

    def __post_init__(self) -> None:
        if self.tick_ps not in (1, 1000):
            raise SpecError("tick_ps", self.tick_ps, "the clock has no such tick", "choose 1 or 1000")
        for name in ("payload_bytes", "scale_up_payload_bytes"):
            if not 1 <= getattr(self, name) <= MOST_PAYLOAD_BYTES:
                problem, fix = "a packet cannot carry that", f"choose 1 to {MOST_PAYLOAD_BYTES}"
                raise SpecError(name, getattr(self, name), problem, fix)
        positive = ("header_bytes", "scale_up_header_bytes", "ack_bytes", "pfc_bytes", "ack_every", "buffer_bytes")
        for name in (*positive, "nack_interval_ps"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is not positive", "choose at least 1")
        if self.retry_ps is not None and self.retry_ps < self.tick_ps:
            raise SpecError("retry_ps", self.retry_ps, "it is less than a tick", f"choose at least {self.tick_ps}")
        if self.selective and self.ack_every > 1:
            problem, fix = "a selective receiver acknowledges every packet", "leave it at 1"
            raise SpecError("ack_every", self.ack_every, problem, fix)
        self._check_sample()
        for name in (*OF_MEMORY, "seed", "retries"):
            if getattr(self, name) < 0:
                raise SpecError(name, getattr(self, name), "it is negative", "choose at least 0")
        for name in LIMITED:
            most = MOST_PAYLOAD_BYTES if name in OF_PACKETS else MOST
            if (getattr(self, name) or 0) > most:
                raise SpecError(
                    name, getattr(self, name), "it is more than the simulation counts", f"choose up to {most}"
                )
        self._check_memory()
        self._check_routing()
        self._check_classes()

    def _check_sample(self) -> None:
        if self.sample_ps is not None and (self.sample_ps < 1 or self.sample_ps % self.tick_ps):
            problem, fix = "it is no whole number of the clock's ticks", f"choose a multiple of {self.tick_ps} ps"
            raise SpecError("sample", f"{self.sample_ps} ps", problem, fix)
        if self.sample_ps is not None and self.sample_ps < LEAST_SAMPLE_PS:
            problem, fix = "links are looked at no more often than each ns", "choose at least 1 ns, better 1 us"
            raise SpecError("sample", f"{self.sample_ps} ps", problem, fix)

    def _check_memory(self) -> None:
        if self.pause_shift > MOST_SHIFT:
            problem, fix = "nothing of any memory would be left", f"choose 0 to {MOST_SHIFT}"
            raise SpecError("pause_shift", self.pause_shift, problem, fix)
        if self.flow_control not in FLOW_CONTROLS:
            problem, fix = "there is no such flow control", f"choose one of {', '.join(FLOW_CONTROLS)}"
            raise SpecError("flow_control", self.flow_control, problem, fix)
        if self.credit_bytes is not None and self.credit_bytes < self.largest_bytes:
            problem, fix = "a packet would never have room", f"choose at least {self.largest_bytes}, a packet"
            raise SpecError("credit_bytes", self.credit_bytes, problem, fix)
        least_bytes = self.reserve_bytes + self.largest_bytes
        if self.buffer_bytes < least_bytes:
            problem = "a switch holds at least a packet beside the reserve of a port"
            raise SpecError("buffer_bytes", self.buffer_bytes, problem, f"choose at least {least_bytes}")

    def _check_routing(self) -> None:
        if self.routing not in ROUTINGS:
            problem, fix = "packets are routed by no such rule", f"choose one of {', '.join(ROUTINGS)}"
            raise SpecError("routing", self.routing, problem, fix)
        if self.congestion.asking and self.receiver == "in_order":
            problem, fix = "receivers that ask for packets take them in any order", "choose auto or selective"
            raise SpecError("receiver", self.receiver, problem, fix)
        if self.scatters and not self.selective:
            problem, fix = "it drops packets that overtake others", f"choose selective: routing={self.routing}"
            raise SpecError("receiver", self.receiver, problem, fix)
        if self.scatters and isinstance(self.congestion, Hpcc):
            problem = "HPCC compares what the packets of a flow have seen on one way"
            raise SpecError("routing", self.routing, problem, "choose another congestion control, or hash")

    def _check_classes(self) -> None:
        if self.class_order not in CLASS_ORDERS:
            problem, fix = "classes are served in no such order", f"choose one of {', '.join(CLASS_ORDERS)}"
            raise SpecError("class_order", self.class_order, problem, fix)
        if not self.classes or not {*self.classes} <= {*range(MOST_CLASS + 1)}:
            raise SpecError("classes", self.classes, "there are no such classes", f"choose among 0 to {MOST_CLASS}")
        if self.congestion.asking and len(self.lanes) > 1:
            problem = "switches that cut packets know no classes: all but data goes first"
            field, value = ("ack_priority", True) if self.ack_priority else ("classes", self.classes)
            raise SpecError(field, value, problem, "choose another congestion control, or leave it out")

    @property
    def lanes(self) -> tuple[int, ...]:
        """The classes in their order, that of acknowledgements among them; there are others if one is exempt."""
        found = {*self.classes, *((0,) if self.ack_priority else ())}
        alone = self.class_order == "round_robin" and found == {0}
        return tuple(sorted(found | {CLASS} if alone else found))

    @property
    def exempts(self) -> bool:
        """Whether class 0 is in use, and beyond the memory of switches."""
        return self.class_order == "round_robin" and 0 in self.lanes

    @property
    def windowed(self) -> bool:
        """Whether flows have windows."""
        return self.window in ("bdp", "follows", "path") or (self.window == "auto" and self.congestion.windowed)

    @property
    def selective(self) -> bool:
        """Whether packets may overtake one another."""
        return (
            self.receiver == "selective"
            or (self.receiver == "auto" and self.scatters)
            or self.congestion.asking is not None
        )

    @property
    def scatters(self) -> bool:
        """Whether packets of one flow take several ways."""
        return self.routing in ("spray", "adaptive")

    @property
    def data_bytes(self) -> int:
        """Of a full data packet, all told."""
        return self.payload_bytes + self.overhead_bytes

    @property
    def largest_bytes(self) -> int:
        """Of any packet between hosts."""
        return max(self.data_bytes, self.reply_bytes)

    @property
    def scale_up_bytes(self) -> int:
        """Of a full packet in a scale-up fabric, all told."""
        return self.scale_up_payload_bytes + self.scale_up_header_bytes

    @property
    def overhead_bytes(self) -> int:
        """Of a data packet, beside its payload."""
        return self.header_bytes + self.congestion.record_bytes

    @property
    def reply_bytes(self) -> int:
        """Of an acknowledgement, all told: the record of the way grows it when the padding is used up."""
        return max(self.ack_bytes, self.overhead_bytes - REPLY_SAVES_BYTES)

    def marking(self, bits_per_s: int) -> Marking | None:
        """How a port of that rate marks."""
        if self.ecn is None:
            return self.congestion.marking(bits_per_s)
        return marking_at(bits_per_s, self.ecn) if self.ecn else None
