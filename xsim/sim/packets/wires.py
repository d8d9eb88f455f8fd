"""A graph's directed links and switches as the packet kernel's tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.graph import Graph
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.tables import in_lines

__all__ = [
    "NEVER_MARK",
    "UNLIMITED_BYTES",
    "Wires",
    "below_of",
    "empty_links",
    "give_credit",
    "mark_ports",
    "width_of",
    "wires_of",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BITS_PER_S_TO_PS = 8 * 10**12
NEVER_MARK = 1 << 62
UNLIMITED_BYTES = 1 << 60
WIDEST = 18  # bits: what the number of an event leaves in the key of the open bucket, see ``packet_clock``


@dataclass(frozen=True, slots=True, eq=False)
class Wires:
    """Tables of L links and S switches; see ``packet_columns``."""

    links: Ints
    chances: Floats
    switches: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", in_lines(self.links))


def wires_of(graph: Graph, settings: Settings, mute: frozenset[int] = frozenset()) -> Wires:
    """Directed link 2 i and 2 i + 1 are those of cable i; switches in order of their vertices.

    Args:
        mute: Switches that pause nobody and mark nothing.

    Raises:
        SpecError: A switch has less memory than its ports keep for themselves.
    """
    number = {vertex: place for place, vertex in enumerate(sorted(graph.switches))}
    cables = graph.cables
    rate = np.repeat(np.array([cable.bandwidth_bits_per_s for cable in cables], dtype=np.int64), 2)
    delay_ps = np.repeat(np.array([cable.delay_ps for cable in cables], dtype=np.int64), 2)
    links, chances = empty_links(rate, delay_ps, np.full(len(rate), settings.data_bytes), settings)
    mark_ports(links, chances, settings)
    start = np.array([vertex for cable in cables for vertex in (cable.a, cable.b)], dtype=np.int64)
    owner = np.array([number.get(vertex, -1) for vertex in start.tolist()], dtype=np.int64)
    links[:, k.BACK] = np.arange(2 * len(cables)) ^ 1
    links[:, k.INTO] = owner[links[:, k.BACK]]
    links[:, k.HEADROOM] = [
        bits_per_s * delay // BITS_PER_S_TO_PS * settings.headroom + settings.headroom_packets * settings.largest_bytes
        for bits_per_s, delay in zip(rate.tolist(), (links[:, k.DELAY] * settings.tick_ps).tolist(), strict=True)
    ]
    silent = np.isin(start, [*mute])
    links[silent, k.KMIN] = links[silent, k.KMAX] = NEVER_MARK
    links[:, k.SIGNALS] = ~silent[links[:, k.BACK]] & (settings.flow_control == "pause")
    if settings.flow_control == "credit":
        give_credit(links, np.arange(len(links)), settings)
    nic = int(rate[owner < 0].max(initial=1))
    links[:, k.SHIFT] = [max(0, settings.pause_shift - _halvings(bits_per_s, nic)) for bits_per_s in rate.tolist()]
    chances[:, k.LOSS] = np.repeat([cable.loss for cable in cables], 2)
    switches = np.zeros((len(number), k.SWITCH_COLUMNS), dtype=np.int64)
    switches[:, k.POOL] = settings.buffer_bytes
    ports = (links[:, k.INTO] >= 0) & (links[:, k.BUFFER] == 0)
    np.subtract.at(switches[:, k.POOL], links[ports, k.INTO], links[ports, k.HEADROOM] + settings.reserve_bytes)
    if settings.congestion.asking:  # they cut what finds no room, and need none else
        switches[:, k.POOL] = UNLIMITED_BYTES
    missing_bytes = -int(switches[:, k.POOL].min(initial=0))
    if missing_bytes > 0:
        vertex = sorted(graph.switches)[int(switches[:, k.POOL].argmin())]
        problem = f"the ports of switch {vertex} alone keep more, as their headroom and reserve"
        fix = f"choose at least {settings.buffer_bytes + missing_bytes}"
        raise SpecError("network.buffer_bytes", settings.buffer_bytes, problem, fix)
    return Wires(links, chances, switches)


def empty_links(rate: Ints, delay_ps: Ints, sizes: Ints, settings: Settings) -> tuple[Ints, Floats]:
    """Tables of links with nothing on them; ``rate`` in bits per second, ``sizes`` in bytes of their usual packet."""
    links = np.zeros((len(rate), k.LINK_COLUMNS), dtype=np.int64)
    scale, below = 10**12 // settings.tick_ps, below_of(settings.tick_ps)
    links[:, k.RATE], links[:, k.DELAY], links[:, k.SHIFT] = rate, delay_ps // settings.tick_ps, settings.pause_shift
    links[:, k.DATA_SIZE] = sizes
    links[:, k.DATA_TIME] = (sizes * 8 * scale - below) // rate
    links[:, k.ACK_TIME] = (settings.reply_bytes * 8 * scale - below) // rate
    links[:, [k.HEAD, k.URGENT, k.WAKE_ROW, k.FREE_SERIAL, k.OWED, k.ASKING]] = -1
    links[:, k.DICE] = np.random.default_rng(settings.seed).integers(
        -(1 << 63), 1 << 63, size=len(rate), dtype=np.int64
    )
    return links, np.zeros((len(rate), 2))


def give_credit(links: Ints, which: Ints, settings: Settings) -> None:
    """Let these links work by credit."""
    for link in which.tolist():
        rate, delay = int(links[link, k.RATE]), int(links[link, k.DELAY])
        under_way = -(-2 * delay * rate * settings.tick_ps // BITS_PER_S_TO_PS)
        largest = max(settings.largest_bytes, int(links[link, k.DATA_SIZE]))
        own_bytes = settings.credit_bytes or under_way + 2 * largest
        links[link, k.BUFFER] = links[link, k.CREDITS] = own_bytes


def mark_ports(links: Ints, chances: Floats, settings: Settings) -> None:
    """Set how each port marks."""
    links[:, [k.KMIN, k.KMAX]] = NEVER_MARK
    for bits_per_s in np.unique(links[:, k.RATE]).tolist():
        marking = settings.marking(bits_per_s)
        if marking is not None:
            same = links[:, k.RATE] == bits_per_s
            links[same, k.KMIN], links[same, k.KMAX] = marking.kmin_bytes, marking.kmax_bytes
            chances[same, k.PMAX] = marking.pmax


def width_of(links: Ints) -> int:
    """Bits of the width of a bucket of events: the wheel spans the longest hop of a full packet."""
    longest = int((links[:, k.DATA_TIME] + links[:, k.DELAY]).max(initial=1))
    return min(WIDEST, max(0, (longest // (k.BUCKETS - 1)).bit_length()))


def below_of(tick_ps: int) -> int:
    """1 if what lasts a whole number of ticks is to last one less.

    So it is in ns-3, whose durations are seconds in fixed point, rounded down, before they are nanoseconds: what would
    be whole falls short. Flows that are held to 1 Gb/s show it (HPCC with 16 senders at one receiver: 8720 ns a packet,
    of which ns-3 makes 8719).
    """
    return int(tick_ps == 1000)


def _halvings(rate: int, nic: int) -> int:
    """How often ``rate`` must be halved to be no more than the hosts'."""
    return max(0, (-(-rate // nic) - 1).bit_length())
