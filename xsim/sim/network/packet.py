"""Every packet of every transfer: queues, pauses, acknowledgements and congestion control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import ceil, inf
from typing import Literal

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.flows import MOST_CLASS
from xsim.fabric.transfers import TransferGraph
from xsim.families import build, names
from xsim.sim.asked import check_time
from xsim.sim.contracts import Completion, CongestionControl, Fault, Network, NetworkStats, Purpose
from xsim.sim.kernels.never import LONGEST_PS, NEVER_PS
from xsim.sim.marking import markings_of
from xsim.sim.packets.alone import Alone
from xsim.sim.packets.fabric_wires import INSIDE_HOSTS, wires_of_fabric
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.unused import check_used
from xsim.sim.packets.wires import Wires
from xsim.sim.traffic.compiled import Compiled, Compiler
from xsim.sim.traffic.ledger import Ledger
from xsim.units import parse_time

__all__ = ["Packet"]

# How often in a row a sender goes back. Without congestion control those whose packets fill a queue go on to fill it,
# and it is always the same that find room, by the phase in which they come (Floyd and Jacobson, Computer Communication
# Review 21(2), 1991): who has not got in by the time that takes a full memory to drain twice never does. Where a link
# fails, its packets are lost until it works again.
RETRIES, LEAST_RETRIES, UNTIRING = 100, 7, 1 << 40
DRAINED = 2
PS_PER_S = 10**12


@dataclass(frozen=True, slots=True)
class Packet:
    """Transfers go packet by packet through ports with queues, as RDMA over lossless Ethernet or InfiniBand does it.

    A transfer is complete with its last byte at the receiver; an empty one is free. The busy time of a link is that in
    which it sends, headers and acknowledgements included; its bytes are those of the transfers, as in other backends.
    What stays in a host goes at the rate of its links, PCIe or scale-up, which work by credit; it has neither
    acknowledgements nor congestion control.

    Attributes:
        payload_bytes: Of a full packet.
        header_bytes: Of each packet, besides.
        scale_up_payload_bytes: Of a full packet that goes over links of a scale-up fabric alone. By default one stands
            for 16 packets of NVLink, each of 256 bytes and a header of 16.
        scale_up_header_bytes: Of each of those packets, besides.
        routing: Which of several paths of equal standing a packet takes between hosts. ``hash``: that of the pair of
            ranks (ECMP). ``round_robin``: the transfers of a rank take them in turn. ``rail``: that of the number of
            the NIC in its host. ``spray``: each packet another; ``adaptive``: each switch sends each packet by the
            port with the shortest queue, of two drawn at random and that which it chose last.
        flow_control: Between hosts. ``pause``: a switch that fills up pauses its neighbours (PFC). ``credit``: they
            send only what has room at the end of the link (InfiniBand). ``none``: packets are lost.
        credit_bytes: Of the buffer at the end of each link that works by credit; absent: just enough for its rate.
        retry_ps: Where packets are lost, a sender goes back after so long without progress; 100 times in a row in vain
            are an error. Without congestion control that is as often as this goes into the time that a full memory
            takes to drain twice, at least 7 times: who finds it full then always will.
        collective_class: Traffic class, 1 to 7, of collectives within stages. At every link each class has queues,
            pauses, credit and marks of its own.
        hand_over_class: That of what stages hand on.
        sync_class: That of gradient and parameter syncs.
        background_class: That of the traffic of others.
        class_order: Of classes that wait at one port. ``round_robin``: a packet of each in turn, as in the ns-3 model.
            ``strict``: of the smaller number first.
        ack_priority: Acknowledgements go before all classes, and not in that of their data.
        buffer_bytes: Shared memory of each switch; more where its ports alone would take more than half of it.
        reserve_bytes: Of that memory, what each port keeps for itself.
        headroom: Of that memory, what each port keeps for packets that come when it has paused its neighbour already:
            so many times bandwidth times delay, and ``headroom_packets`` besides.
        headroom_packets: So many of the largest packets besides ``headroom``. With 3 none is ever lost.
        pause_shift: Beyond its reserve, a port pauses its neighbour when it holds the free memory of the switch shifted
            right by this: 3 is an eighth.
        resume_gap_bytes: How far below that, or empty, it must be for the neighbour to go on.
        ecn: How ports mark packets, ``RATE:KMIN:KMAX:PMAX`` by their rate with spaces between:
            ``100Gbps:400KB:1600KB:0.2`` marks none with up to 400 KB behind it, all above 1600 KB, and between them
            by a chance that rises to 0.2. A rate that is not listed has what the next slower one has. ``none``: nothing
            is marked. Empty: as the congestion control wants it.
        ack_every: Bytes that are new to the sender before a receiver acknowledges; it always does the last.
        nack_interval_ps: A receiver asks for the same missing packet not more often than this.
        congestion: The congestion control of all flows.
        fast_forward: Work out what streams go on to do once they have become steady. Where all repeats itself exactly,
            nothing changes by it; else, where nobody pauses anybody, a stream goes on at the rate at which it has
            arrived, and rings go round as they went, if each row was at the same place in a round, to half a per cent,
            after the last two. It is not done where packets are lost or may overtake one another (``spray``,
            ``adaptive``, NDP), where the congestion control has slowed a stream or looks at more than marks (HPCC,
            Swift), where there are several classes, nor with ``sample`` or faults.
        reuse: Simulate a collective that is alone on its links once for all that are alike: of the same rows, on links
            of the same rates and delays, joined in the same way. No number changes by it. With a routing other than
            ``hash`` no two are alike.
        exact: Simulate every packet, whatever the options above say.
        sample: How far apart the instants are at which queues and rates of links are noted, with its unit: ``1 us``.
            Then every collective is simulated in its place, and as with ``exact``. Empty: they are not noted.
    """

    payload_bytes: int = 4096  # the largest MTU of InfiniBand and RoCE
    header_bytes: int = 48  # Ethernet 14, IPv4 20, UDP 8, and 6 of HPCC's ns-3 model
    scale_up_payload_bytes: int = 4096  # 16 packets of 256 bytes: Foley and Danskin, IEEE Micro 37(2), 2017
    scale_up_header_bytes: int = 256  # 16 headers of 16 bytes: the same
    routing: Literal["hash", "round_robin", "rail", "spray", "adaptive"] = "hash"
    flow_control: Literal["pause", "credit", "none"] = "pause"
    credit_bytes: int | None = None
    retry_ps: int = 500_000_000  # our choice: as nack_interval_ps
    collective_class: int = 3
    hand_over_class: int = 3
    sync_class: int = 3
    background_class: int = 3
    class_order: Literal["round_robin", "strict"] = "round_robin"
    ack_priority: bool = False
    buffer_bytes: int = 33_554_432  # 32 MiB: BUFFER_SIZE of HPCC's run.py at 100 Gb/s
    reserve_bytes: int = 4096  # ns-3 model: switch-mmu.cc
    headroom: int = 3  # times bandwidth times delay, as in the ns-3 model
    headroom_packets: int = 3  # see above: the least with which none is lost
    pause_shift: int = 3  # ns-3 model: an eighth
    resume_gap_bytes: int = 3072  # ns-3 model: switch-mmu.cc
    ecn: str = ""
    ack_every: int = 1  # ns-3 model: L2_ACK_INTERVAL
    nack_interval_ps: int = 500_000_000  # ns-3 model: rdma-hw.cc
    congestion: CongestionControl = field(default_factory=partial(build, "congestion", {"name": "none"}))
    fast_forward: bool = True
    reuse: bool = True
    exact: bool = False
    sample: str = ""

    def __post_init__(self) -> None:
        if self.sample:
            check_time(self, "sample")
        if not isinstance(self.congestion, CongestionControl):
            problem, fix = "it is no congestion control", f"build one of {', '.join(names('congestion'))}"
            raise SpecError("congestion", self.congestion, problem, fix)
        for purpose, number in self._classes().items():
            if not 1 <= number <= MOST_CLASS:
                problem, fix = "traffic has no such class", f"choose 1 to {MOST_CLASS}"
                raise SpecError(f"{purpose}_class", number, problem, fix)
        settings = self._settings(0, lossy=True)
        usual = {field.name: field.default for field in fields(self)}
        chosen = {name: value for name in usual if (value := getattr(self, name)) != usual[name]}
        chosen.pop("buffer_bytes", None)  # of one size, whatever flow controls and congestion controls are compared
        check_used(settings, chosen, credit_inside=True)
        scale_up_bytes = settings.scale_up_bytes
        if self.credit_bytes is not None and self.credit_bytes < scale_up_bytes:
            problem, fix = "a packet of a scale-up fabric would never have room", f"choose at least {scale_up_bytes}"
            raise SpecError("credit_bytes", self.credit_bytes, problem, fix)

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:
        settings = self._settings(seed, lossy=bool(faults))
        if settings.retries == RETRIES and self.congestion.law is None and self.congestion.asking is None:
            settings = replace(settings, retries=self._patience(fabric))
        return _PacketNetwork(fabric, settings, self._classes(), faults, reuse=self.reuse and not self.exact)

    def _patience(self, fabric: Fabric) -> int:
        """How often a sender goes back in vain before it is clear that it always will."""
        slowest = min(
            (
                rate
                for rate, link in zip(fabric.bandwidth_bytes_per_s.tolist(), fabric.links, strict=True)
                if link.kind not in INSIDE_HOSTS and rate > 0
            ),
            default=inf,
        )
        drains_ps = DRAINED * self.buffer_bytes / slowest * PS_PER_S
        return max(LEAST_RETRIES, ceil(min(UNTIRING, drains_ps / self.retry_ps)))

    def _classes(self) -> Mapping[Purpose, int]:
        return {
            "collective": self.collective_class,
            "hand_over": self.hand_over_class,
            "sync": self.sync_class,
            "background": self.background_class,
        }

    def _settings(self, seed: int, *, lossy: bool = False) -> Settings:
        return Settings(
            payload_bytes=self.payload_bytes,
            header_bytes=self.header_bytes,
            scale_up_payload_bytes=self.scale_up_payload_bytes,
            scale_up_header_bytes=self.scale_up_header_bytes,
            routing=self.routing,
            flow_control=self.flow_control,
            credit_bytes=self.credit_bytes,
            retry_ps=self.retry_ps if lossy or self.flow_control == "none" else None,
            retries=UNTIRING if lossy else RETRIES,
            classes=tuple(sorted({*self._classes().values()})),
            class_order=self.class_order,
            ack_priority=self.ack_priority,
            buffer_bytes=self.buffer_bytes,
            reserve_bytes=self.reserve_bytes,
            headroom=self.headroom,
            headroom_packets=self.headroom_packets,
            pause_shift=self.pause_shift,
            resume_gap_bytes=self.resume_gap_bytes,
            ecn=markings_of(self.ecn) if self.ecn else None,
            ack_every=self.ack_every,
            nack_interval_ps=self.nack_interval_ps,
            congestion=self.congestion,
            completion="receiver",
            sample_ps=parse_time(self.sample) if self.sample else None,
            seed=seed,
            fast_forward=self.fast_forward and not self.exact and not self.sample,
        )


class _PacketNetwork:
    contends = True

    def __init__(
        self,
        fabric: Fabric,
        settings: Settings,
        classes: Mapping[Purpose, int],
        faults: Sequence[Fault],
        *,
        reuse: bool,
    ) -> None:
        self.foldable = settings.sample_ps is None and not faults and settings.routing == "hash"  # paths known ahead
        self._compile = Compiler(fabric)
        self._ledger = Ledger()
        wires = wires_of_fabric(fabric, settings)
        self._alone = Alone(fabric, wires, replace(settings, classes=settings.classes[:1]), reuse=reuse)
        own = Wires(wires.links.copy(), wires.chances, wires.switches.copy())
        self._instances = Instances(fabric, settings, own, faults)
        self._opened: dict[int, int] = {}
        self._classes, self._class_of = classes, dict[int, int]()
        self._repeats: Counter[Compiled] = Counter()

    def submit(self, graph: TransferGraph, purpose: Purpose = "collective") -> int:
        handle = self._ledger.submit(self._compile(graph)).handle
        self._class_of[handle] = self._classes[purpose]
        return handle

    def release(self, handle: int, party: int, at_ps: int) -> None:
        instance = self._ledger.release(handle, party, at_ps)
        if instance is None:
            return
        if handle not in self._opened:
            self._opened[handle] = self._instances.open(handle, instance.compiled, self._class_of.pop(handle))
        self._instances.release(self._opened[handle], instance.compiled, party, at_ps)

    @property
    def now_ps(self) -> int:
        return max(self._ledger.now_ps, self._instances.now_ps)

    @property
    def next_ps(self) -> int | None:
        next_ps = min(self._ledger.next_ps, self._instances.next_ps)
        return next_ps if next_ps < NEVER_PS else None

    def advance(self, until_ps: int | None) -> list[Completion]:
        limit_ps = NEVER_PS - 1 if until_ps is None else until_ps
        while self._instances.next_ps <= (due_ps := min(limit_ps, self._ledger.next_ps, LONGEST_PS)):
            for handle, party, at_ps in self._instances.run(due_ps):
                self._ledger.expect(handle, party, at_ps)
        if self._ledger.next_ps > limit_ps:
            if until_ps is not None:
                self._ledger.now_ps = until_ps
            return []
        completions, ended = self._ledger.pop()
        for instance in ended:
            del self._opened[instance.handle]
        return completions

    def solo(self, graph: TransferGraph) -> int:
        return self._alone.run(self._compile(graph)).last_ps

    def repeat(self, graph: TransferGraph, times: int) -> None:
        self._repeats[self._compile(graph)] += times

    def stats(self) -> NetworkStats:
        """Totals of the transfers that are complete."""
        totals, counts = self._instances.totals(), self._instances.counts()
        for compiled, times in self._repeats.items():
            self._alone.add_to(totals, counts, compiled, times)
        return replace(totals.stats(), packets=counts, samples=self._instances.samples())
