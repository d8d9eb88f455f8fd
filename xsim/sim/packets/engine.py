"""The packet kernel and its tables, which grow with what is under way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import Wires, below_of

__all__ = ["Engine"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MARGIN = 16  # rows that an event may take, beside one per flow that it starts
RESUME_GAP_BYTES = 3072  # below its threshold, before a paused port is told to resume


class Engine:
    """One simulation; columns of all tables in ``packet_columns``.

    Attributes:
        links, chances, switches: The wires.
        flows, memory: Flows, and what the congestion control knows of each.
        route, members: Ways, and lists of flows.
        sim: The state of the whole.
    """

    def __init__(
        self, wires: Wires, flows: Ints, memory: Floats, route: Ints, members: Ints, width: int, settings: Settings
    ) -> None:
        from xsim.sim.kernels.laws import compiled  # numba loads with the first simulation
        from xsim.sim.kernels.packet import run

        control = settings.congestion
        self._run, self._law = run, compiled(control.law or _idle)
        self._knobs = np.array(control.knobs(10**12 // settings.tick_ps), dtype=np.float64)
        self.links, self.chances, self.switches = wires.links, wires.chances, wires.switches
        self.flows, self.memory, self.route, self.members = flows, memory, route, members
        self.sim = _sim(settings, width)
        self.sim[k.MARGIN] = MARGIN + int((flows[:, k.FOLLOWERS_END] - flows[:, k.FOLLOWERS]).max(initial=0))
        self._wheel = np.zeros(k.WHEEL, dtype=np.int64)
        self._wheel[: k.BUCKETS] = -1
        self._rows, self._seen, self._bucket, self._heap = _events(0, recorded=control.records)
        self.sim[k.ROWS_FREE] = -1
        self._grow(1024 + int(self.sim[k.MARGIN]))

    def post(self, kind: int, subjects: Ints, at: Ints) -> None:
        """Make events of that kind, in order, at these ticks."""
        from xsim.sim.kernels.packet_clock import post

        missing = len(subjects) - int(self.sim[k.ROWS_LEFT])
        if missing > 0:
            self._grow(len(self._rows) + max(missing, len(self._rows)))
        post(kind, subjects, at, self._rows, self._wheel, self._heap, self.sim)

    def run(self, until: int) -> int:
        """Process events up to that tick; ``IDLE``, ``LATER`` or ``LOST_HOPE``."""
        while True:
            answer = self._run(
                self._law,
                until,
                self._rows,
                self.links,
                self.chances,
                self.switches,
                self.flows,
                self.memory,
                self._knobs,
                self._seen,
                self.route,
                self.members,
                self._wheel,
                self._bucket,
                self._heap,
                self.sim,
            )
            if answer != k.GROW:
                return answer
            self._grow(2 * len(self._rows))

    def _grow(self, count: int) -> None:
        """More rows."""
        old = len(self._rows)
        rows, seen, bucket, heap = _events(count, recorded=self._seen.shape[1] > 0)
        rows[:old], seen[:old], bucket[:, :old], heap[:, :old] = self._rows, self._seen, self._bucket, self._heap
        rows[old:, k.NEXT] = np.append(np.arange(old + 1, count), self.sim[k.ROWS_FREE])
        self.sim[k.ROWS_FREE] = old
        self.sim[k.ROWS_LEFT] += count - old
        self._rows, self._seen, self._bucket, self._heap = rows, seen, bucket, heap


def _events(count: int, *, recorded: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Empty tables for ``count`` events."""
    return (
        np.zeros((count, k.ROW_COLUMNS), dtype=np.int64),
        np.zeros((count, k.SEEN_COLUMNS if recorded else 0), dtype=np.int64),
        np.zeros((2, count), dtype=np.int64),
        np.zeros((3, count), dtype=np.int64),
    )


def _sim(settings: Settings, width: int) -> Ints:
    control, tick_ps = settings.congestion, settings.tick_ps
    follows = settings.window == "follows" or (settings.window == "auto" and control.windowed)
    sim = np.zeros(k.SIM_COLUMNS, dtype=np.int64)
    for column, value in {
        k.CURSOR: -1,
        k.TURN: -1,
        k.GAVE_UP: -1,
        k.WIDTH: width,
        k.SCALE: 10**12 // tick_ps,
        k.BELOW: below_of(tick_ps),
        k.PAYLOAD: settings.payload_bytes,
        k.HEADER: settings.overhead_bytes,
        k.ACK_SIZE: settings.reply_bytes,
        k.PFC_SIZE: settings.pfc_bytes,
        k.ACK_EVERY: settings.ack_every,
        k.PFC: settings.pfc,
        k.RESERVE: settings.reserve_bytes,
        k.RESUME_GAP: RESUME_GAP_BYTES,
        k.GAP_TIME: settings.nack_interval_ps // tick_ps,
        k.RETRY_TIME: (settings.retry_ps or 0) // tick_ps,
        k.RETRIES: settings.retries,
        k.AT_RECEIVER: settings.completion == "receiver",
        k.CONTROLLED: control.law is not None,
        k.RECORDED: control.records,
        k.REPACED: control.repaces,
        k.WINDOW_FOLLOWS: follows,
    }.items():
        sim[column] = value
    return sim


def _idle(event: int, now: int, acked: int, sent: int, marked: bool, state: Floats, seen: Ints, knobs: Floats) -> None:
    """The law of flows that have none; it is never called."""
