"""The packet kernel and its tables, which grow with what is under way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.lanes import lanes_of, ports_of
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.tables import Growing
from xsim.sim.packets.wires import Wires, below_of

__all__ = ["Engine"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MARGIN = 16  # rows that an event may take, beside one per flow that it starts
LOG = 4096  # durations that find room in the log
STORM, AT_EASE = 16, 1 << 20  # packets under way of each that may be sent unasked, beside so many
FEW = 64  # flows at one port that are looked at one after another


class Engine:
    """One simulation; columns of all tables in ``packet_columns``.

    Attributes:
        links, chances, switches: The wires, with the lanes of all classes.
        flows, memory: Flows, and what the congestion control knows of each.
        arrived: What both ends keep of packets that overtake others; whoever adds flows makes room in it.
        forks: Where ways part, if switches choose; as long as ``route`` then.
        route, turns, members: Ways; flows that take turns at a port; flows that follow one another.
        ended, log: Parties that are done, and durations of transfers.
        repeated: Durations of transfers that are not in the log, and how often each.
        sim: The state of the whole.
        rows, seen, wheel, bucket, heap: What is under way, and in which order it comes.
        control: The congestion control.
    """

    def __init__(
        self,
        wires: Wires,
        flows: Ints,
        memory: Floats,
        route: Ints,
        turns: Ints,
        members: Ints,
        width: int,
        settings: Settings,
    ) -> None:
        from xsim.sim.kernels.laws import compiled  # numba loads with the first simulation
        from xsim.sim.kernels.packet import run
        from xsim.sim.kernels.packet_crowd import no_crowd

        control = settings.congestion
        self._run, self._law, self._crowd = run, compiled(control.law or _idle), no_crowd()
        self.control, self._settings = control, settings
        self._knobs = np.array(control.knobs(10**12 // settings.tick_ps, settings.payload_bytes), dtype=np.float64)
        self.links, self.chances, self.switches = lanes_of(wires.links, settings), wires.chances, wires.switches
        self.flows, self.memory = flows, memory
        self.route, self.turns, self.members = route, turns, members
        self.forks: Ints = np.zeros((0, k.FORK_COLUMNS), dtype=np.int64)
        self.arrived: Ints = np.zeros(0, dtype=np.int64)
        self.ended: Ints = np.zeros(0, dtype=np.int64)
        self.log: Ints = np.zeros(0, dtype=np.int64)
        self.repeated: list[tuple[Ints, int]] = []
        self.sim = _sim(settings, width, len(wires.links))
        self.wheel = np.zeros(k.WHEEL, dtype=np.int64)
        self.wheel[: k.BUCKETS] = -1
        self._rows = Growing(k.ROW_COLUMNS)
        self.rows = self._rows.cells
        seen = k.SEEN_COLUMNS if control.records else k.CAME + 1 if settings.selective else 0
        self.seen: Ints = np.zeros((0, seen), dtype=np.int64)
        self.bucket: Ints = np.zeros((2, 0), dtype=np.int64)
        self.heap: Ints = np.zeros((3, 0), dtype=np.int64)
        self.sim[k.ROWS_FREE] = -1
        self.followed()
        self._set_up()

    def _set_up(self) -> None:
        """What an engine of another kind has besides."""

    def ports(self) -> Ints:
        """The links alone, with what all of their lanes have counted; not to be changed."""
        return ports_of(self.links, int(self.sim[k.LINKS]))

    def followed(self) -> None:
        """Make room for what one event may cause, now that there are these flows."""
        if self.links[:, k.ROOM].max(initial=0) // 2 > self.sim[k.FEW]:
            from xsim.sim.kernels.packet_crowd import compiled_crowd

            self._crowd = compiled_crowd()
        most = int((self.flows[:, k.FOLLOWERS_END] - self.flows[:, k.FOLLOWERS]).max(initial=0))
        self.sim[k.MARGIN] = margin = MARGIN + most
        self._grow(max(len(self.rows), 1024 + margin))
        self.heap = _wider(self.heap, max(self.heap.shape[1], 1024 + margin))
        if self.sim[k.LOGGED] + margin > len(self.log):
            self.log = np.append(self.log, np.zeros(LOG + margin, dtype=np.int64))

    def post(self, kind: int, subjects: Ints, at: Ints) -> None:
        """Make events of that kind, in order, at these ticks."""
        from xsim.sim.kernels.packet_clock import post

        missing = len(subjects) - int(self.sim[k.ROWS_LEFT])
        if missing > 0:
            self._grow(len(self.rows) + max(missing, len(self.rows) // 2))
        self.widen_heap(int(self.sim[k.HEAPED]) + len(subjects))
        post(kind, subjects, at, self.rows, self.wheel, self.heap, self.sim)

    def run(self, until: int) -> int:
        """Process events up to that tick; ``IDLE``, ``LATER`` or ``LOST_HOPE``, or ``GROW`` if the log is full."""
        while True:
            answer = self._run(
                self._law,
                self._crowd,
                until,
                self.rows,
                self.links,
                self.chances,
                self.switches,
                self.flows,
                self.memory,
                self._knobs,
                self.seen,
                self.arrived,
                self.route,
                self.forks,
                self.turns,
                self.members,
                self.ended,
                self.log,
                self.wheel,
                self.bucket,
                self.heap,
                self.sim,
            )
            if answer != k.GROW or len(self.log) < self.sim[k.LOGGED] + self.sim[k.MARGIN]:
                return answer
            if self.sim[k.ROWS_LEFT] < self.sim[k.MARGIN]:
                self._check_calm()
                self._grow(len(self.rows) * 3 // 2)
            if self.heap.shape[1] < self.sim[k.HEAPED] + self.sim[k.MARGIN]:
                self.heap = _wider(self.heap, 2 * self.heap.shape[1])

    def _check_calm(self) -> None:
        """Refuse what senders that are asked send again and again before an answer can have come.

        Nothing bounds the headers of what is cut: they wait ahead of all data, and each is answered by a header. Unless
        senders go back, each of their packets is under way once.
        """
        if not self.control.asking or len(self.rows) < AT_EASE:
            return
        flows = self.flows
        packets = -(-flows[:, k.BYTES_PER_ROUND] // np.maximum(1, flows[:, k.FULL_PAYLOAD]))
        unasked = int(np.minimum(packets, flows[:, k.FIRST_PACKETS]).sum())
        if len(self.rows) > AT_EASE + STORM * unasked and flows[:, k.GO_BACKS].any():
            problem = f"{len(self.rows)} packets are under way, of {unasked} that may be sent unasked: senders go back"
            problem += " before answers can have come through the queues"
            fix = "choose a longer network.retry_ps, a larger queue_packets or fewer first_packets"
            raise SpecError("network.retry_ps", self._settings.retry_ps, problem, fix)

    def next_tick(self) -> int:
        """When the next event comes; -1 if there is none."""
        from xsim.sim.kernels.packet_clock import next_tick

        return next_tick(self.rows, self.wheel, self.bucket, self.heap, self.sim)

    def check_empty(self) -> None:
        """Assert that, with no event left, what was sent is received, nothing is held, and all credit has come back."""
        held = self.links[:, [k.BACKLOG, k.TAKEN, k.OVER, k.PAUSING]]
        assert not held.any(), "a buffer is not empty"
        assert not (self.links[:, k.PAUSED] == 1).any(), "a port is paused"
        assert (self.credits() == self.links[:, k.BUFFER]).all(), "credit is missing"
        assert not self.switches[:, k.SHARED].any(), "a pool is not empty"
        travelled = self.flows[:, k.LAST_SIZE] > 0
        assert (self.flows[:, k.RECEIVED] == self.flows[:, k.POSTED])[travelled].all(), "a byte is missing"
        assert not self.arrived.any(), "a packet is kept that nobody waits for"

    def credits(self) -> Ints:
        """Bytes of credit per link: what the transmitter has, and what is on its way to it."""
        found = self.links[:, k.CREDITS].copy()
        for link in np.flatnonzero(self.links[:, k.BUFFER]).tolist():
            row = self.links[link, k.OWED]
            while row >= 0:
                found[link] += self.rows[row, k.SIZE]
                row = self.rows[row, k.NEXT]
        return found

    def widen_heap(self, count: int) -> None:
        """Make room for so many events in the heap."""
        self.heap = _wider(self.heap, count + int(self.sim[k.MARGIN]))

    def _grow(self, count: int) -> None:
        """So many rows."""
        old = len(self.rows)
        if count <= old:
            return
        self.rows = self._rows.grow(count)
        self.rows[old:, k.NEXT] = np.arange(old + 1, count + 1)
        self.rows[-1, k.NEXT] = self.sim[k.ROWS_FREE]
        self.sim[k.ROWS_FREE] = old
        self.sim[k.ROWS_LEFT] += count - old
        self.seen.resize((count, self.seen.shape[1]), refcheck=False)
        entries = self.bucket[:, : self.sim[k.LEFT]]
        self.bucket = np.zeros((2, count), dtype=np.int64)
        self.bucket[:, : self.sim[k.LEFT]] = entries


def _wider(table: Ints, columns: int) -> Ints:
    """The table with that many columns or more."""
    if columns <= table.shape[1]:
        return table
    wider = np.zeros((len(table), columns), dtype=np.int64)
    wider[:, : table.shape[1]] = table
    return wider


def _sim(settings: Settings, width: int, links: int) -> Ints:
    control, tick_ps = settings.congestion, settings.tick_ps
    lanes = len(settings.lanes)
    follows = settings.windowed and settings.window != "bdp"
    sim = np.zeros(k.SIM_COLUMNS, dtype=np.int64)
    for column, value in {
        k.CURSOR: -1,
        k.TURN: -1,
        k.GAVE_UP: -1,
        k.WIDTH: width,
        k.SCALE: 10**12 // tick_ps,
        k.BELOW: below_of(tick_ps),
        k.ACK_SIZE: settings.reply_bytes,
        k.PFC_SIZE: settings.pfc_bytes,
        k.ACK_EVERY: settings.ack_every,
        k.RESERVE: settings.reserve_bytes,
        k.RESUME_GAP: settings.resume_gap_bytes,
        k.GAP_TIME: settings.nack_interval_ps // tick_ps,
        k.RETRY_TIME: (settings.retry_ps or 0) // tick_ps,
        k.RETRIES: settings.retries,
        k.SELECTIVE: settings.selective,
        k.BY_PACKET: settings.selective,
        k.ADAPTIVE: settings.routing == "adaptive",
        k.QUEUE: control.asking.queue_packets * settings.data_bytes if control.asking else 0,
        k.AT_RECEIVER: settings.completion == "receiver",
        k.CONTROLLED: control.law is not None,
        k.RECORDED: control.records,
        k.REPACED: control.repaces,
        k.WINDOW_FOLLOWS: follows,
        k.CLASSES: lanes - 1,
        k.LINKS: links,
        k.STRICT: settings.class_order == "strict" and lanes > 1,
        k.EXEMPT: settings.exempts,
        k.KEPT: k.MARKED if settings.ack_priority else k.MARKED | k.LANES,
        k.FEW: FEW,
    }.items():
        sim[column] = value
    return sim


def _idle(event: int, now: int, acked: int, sent: int, marked: bool, state: Floats, seen: Ints, knobs: Floats) -> None:
    """The law of flows that have none; it is never called."""
