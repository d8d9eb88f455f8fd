"""The seam between training side and network side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.marking import Marking

Ints = NDArray[np.int64]
Purpose = Literal["collective", "hand_over", "sync", "background"]

__all__ = [
    "Asking",
    "Background",
    "Burst",
    "Completion",
    "CongestionControl",
    "Fault",
    "FlowTimes",
    "LinkCounts",
    "LinkSamples",
    "Network",
    "NetworkBackend",
    "NetworkStats",
    "Purpose",
    "Stream",
    "no_faults",
]


class Completion(NamedTuple):
    """A party of a submitted graph is done: each of its ranks has sent and received its last byte."""

    handle: int
    party: int
    at_ps: int


@dataclass(frozen=True, slots=True)
class FlowTimes:
    """A multiset of flow completion times: ``counts[i]`` flows took ``durations_ps[i]``; int64, sorted, distinct.

    A flow is one row of a graph in one round, from the moment it may start to its last byte at the receiver.
    """

    durations_ps: NDArray[np.int64]
    counts: NDArray[np.int64]

    def percentile_ps(self, percent: int) -> int:
        """The smallest time that at least ``percent`` in a hundred of the flows do not exceed (nearest rank); 0 of
        none.
        """
        if not len(self.counts):
            return 0
        cumulated = np.cumsum(self.counts)
        wanted = -(-int(cumulated[-1]) * percent // 100)
        return int(self.durations_ps[np.searchsorted(cumulated, wanted)])


@dataclass(frozen=True, slots=True, eq=False)
class LinkCounts:
    """What packets did on each of L directed links; all int64.

    Attributes:
        sent_bytes, packets: Begun to be sent, headers, acknowledgements and pause frames included.
        marks: Packets marked as they left its queue.
        pauses: How often the switch at its end told its transmitter to pause.
        paused_ps: For how long its transmitter was paused.
        drops: Packets that found no room in the switch at its end.
        lost: Packets lost on the wire.
        cuts: Packets of which the switch at its start sent the header alone.
        go_backs: How often the senders of flows that begin at it went back, and sent again from what was missing.
    """

    sent_bytes: NDArray[np.int64]
    packets: NDArray[np.int64]
    marks: NDArray[np.int64]
    pauses: NDArray[np.int64]
    paused_ps: NDArray[np.int64]
    drops: NDArray[np.int64]
    lost: NDArray[np.int64]
    cuts: NDArray[np.int64]
    go_backs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LinkSamples:
    """Links at instants an interval apart, in order; all columns int64. A link without a row is idle at that instant.

    Attributes:
        time_ps, link: The instant, and who is looked at.
        queued_bytes: Waiting at its port; what is being sent does not wait, nor do flows that take turns at a host.
        sent_bytes: Begun to be sent within the interval that ends then.
    """

    interval_ps: int
    time_ps: NDArray[np.int64]
    link: NDArray[np.int64]
    queued_bytes: NDArray[np.int64]
    sent_bytes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NetworkStats:
    """What went over the wires.

    Attributes:
        link_bytes: Bytes per link, int64, L.
        link_busy_ps: Time during which a link carried at least one flow, int64, L.
        flows: Completion times of all flows.
        packets: Per link, of a network that has packets.
        samples: Of links over time, if it was asked to take any.
    """

    link_bytes: NDArray[np.int64]
    link_busy_ps: NDArray[np.int64]
    flows: FlowTimes
    packets: LinkCounts | None = None
    samples: LinkSamples | None = None


class Network(Protocol):
    """The state of one simulation. Time never goes back.

    A party released with ``at_ps`` ahead of the current instant starts then. A graph starts moving bytes as soon as
    parties of a row are released; a party that no row touches is done at its release.
    """

    @property
    def contends(self) -> bool:
        """Whether graphs that share a link slow each other."""

    @property
    def foldable(self) -> bool:
        """Whether ``repeat`` may stand for graphs that nobody disturbs; not where somebody looks on meanwhile."""

    @property
    def now_ps(self) -> int:
        """Up to where it has simulated; other threads may read it at any time."""

    def submit(self, graph: TransferGraph, purpose: Purpose = "collective") -> int:
        """A handle of a new instance of ``graph``; nothing moves before a release.

        Args:
            purpose: What it is for, by which a network may tell traffic apart.
        """

    def release(self, handle: int, party: int, at_ps: int) -> None:
        """The ranks of ``party`` are ready from ``at_ps`` on."""

    @property
    def next_ps(self) -> int | None:
        """The earliest pending instant at which something may complete or must be processed, or None."""

    def advance(self, until_ps: int | None) -> list[Completion]:
        """Process up to the earliest instant that completes a party, and no further than ``until_ps``.

        Returns all completions of that one instant, ordered by handle and party; empty if none falls at or before
        ``until_ps``.
        """

    def solo(self, graph: TransferGraph) -> int:
        """Picoseconds that ``graph`` takes alone, all parties released together. No effect on the state."""

    def repeat(self, graph: TransferGraph, times: int) -> None:
        """Count ``times`` isolated runs of ``graph`` in the statistics: the executor folded them."""

    def stats(self) -> NetworkStats:
        """Totals so far; at the end of a run, of everything."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A link between hosts fails, and the link the other way with it.

    Attributes:
        at_ps: When. What is on the link then, or waits for it at a switch, is lost.
        link: Its name.
        until_ps: When both work again; None: never.
    """

    at_ps: int
    link: str
    until_ps: int | None = None

    def __post_init__(self) -> None:
        if self.at_ps < 0:
            raise SpecError("at", self.at_ps, "nothing is before the beginning", "choose at least 0")
        if self.until_ps is not None and self.until_ps <= self.at_ps:
            raise SpecError("until", self.until_ps, "it is no later than the failure", "choose a later instant")


class NetworkBackend(Protocol):
    """How transfers share the wires."""

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:
        """A fresh simulation.

        Raises:
            SpecError: The fabric has no such link, or the backend knows of no links that fail.
        """


def no_faults(network: str, faults: Sequence[Fault]) -> None:
    """Refuse them: links of ``network`` do not fail."""
    if faults:
        problem, fix = f"links of network={network} do not fail", "choose network=packet, or leave them out"
        raise SpecError("faults", tuple(fault.link for fault in faults), problem, fix)


class Burst(NamedTuple):
    """Transfers that begin at ``at_ps``, or when the burst before them is through, if that is later."""

    at_ps: int
    graph: TransferGraph


@dataclass(frozen=True, slots=True)
class Stream:
    """What others send, one burst after another.

    Attributes:
        graphs: All that it may send, so many that a network may keep what it knows of each; each has one party.
        bursts: Endless, of these very ``graphs``; their instants never go back.
    """

    graphs: tuple[TransferGraph, ...]
    bursts: Iterator[Burst]


class Background(Protocol):
    """Who else is on the network while the training runs, and what they send."""

    def traffic(self, fabric: Fabric, seed: int) -> tuple[Stream, ...]:
        """Fresh streams from instant 0 on, the same for the same fabric and seed.

        Raises:
            SpecError: The fabric does not have what the options name; the field begins with ``background``.
        """


class Asking(NamedTuple):
    """How receivers ask for packets, and switches cut what finds no room; see ``packet_pull`` and ``packet_trim``.

    Attributes:
        queue_packets: Full packets that wait for a port of a switch before it cuts others.
        first_packets: What a transfer sends unasked; 0 is what fits in an undisturbed round trip, and two.
    """

    queue_packets: int
    first_packets: int

    def first(self, held: Ints, payload_bytes: int) -> Ints:
        """Packets that transfers send unasked, of which so many bytes fit in an undisturbed round trip."""
        return np.full_like(held, self.first_packets) if self.first_packets else -(-held // payload_bytes) + 2


@runtime_checkable
class CongestionControl(Protocol):
    """How a flow of packets adapts its rate and its window.

    Its law is a plain function that is compiled for the packet kernel, and so uses numbers, its arrays and ``math``
    only, and calls no function of its own:

        law(event, now, acked, sent, marked, state, seen, knobs)

    ``event`` is ``BEGIN``, ``FEEDBACK`` (an acknowledgement) or ``ALARMED`` + n; ``now`` is in ticks; ``acked`` and
    ``sent`` are the bytes that the acknowledgement confirms and that have been sent so far; ``marked`` is its mark.
    ``state`` is the flow's own row: the law reads what it is told of the flow there, writes the rate, the window and
    the instants at which it wants to be called, and keeps what it must remember from ``OWN`` on. ``seen`` is what the
    packet has seen on its way. ``knobs`` are the parameters. The columns stand in ``packet_columns``.
    """

    @property
    def law(self) -> Callable[..., None] | None:
        """The function; None if a flow is to send at the rate of its port, come what may."""

    @property
    def remembers(self) -> int:
        """How many numbers a flow keeps for it."""

    @property
    def positions(self) -> tuple[int, ...] | None:
        """Which of them, counted from ``OWN``, are bytes of the flow's stream.

        None if others grow with time, or if ``seen`` is read beyond ``SENT_AT``: such flows are not fast-forwarded.
        """

    @property
    def records(self) -> bool:
        """Whether packets must record what they see on their way."""

    @property
    def record_bytes(self) -> int:
        """Bytes that the record takes in a data packet and its acknowledgement."""

    @property
    def windowed(self) -> bool:
        """Whether a flow may have no more under way than what fits in a round trip, less as its rate is less."""

    @property
    def repaces(self) -> bool:
        """Whether a new rate holds for the pause after the last packet already."""

    @property
    def asking(self) -> Asking | None:
        """Whether packets are sent as their receivers ask for them, and how; None: as their senders see fit."""

    def marking(self, bits_per_s: int) -> Marking | None:
        """How it wants a port of that rate to mark; None: not at all."""

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        """The parameters as the law wants them, times in ticks; a full packet carries ``payload_bytes``."""
