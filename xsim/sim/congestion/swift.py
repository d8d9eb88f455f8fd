"""Swift (Kumar and others, SIGCOMM 2020): windows that keep the delay of each packet near a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from numpy import float64, int64
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels.packet_columns import (
    BEGIN,
    FEEDBACK,
    HOPS,
    LINE_BITS,
    OWN,
    RATE_BITS,
    SENT_AT,
    TRIP_BYTES,
    WINDOW_BYTES,
)
from xsim.sim.marking import Marking

__all__ = ["Swift"]

PACKETS, CUT_AT, CONFIRMED, SENT = range(OWN, OWN + 4)
BASE, HOP, RANGE, SLOPE, SHIFT, STEP, CUT, MOST_CUT, LEAST, PAYLOAD, SECOND = range(11)


@dataclass(frozen=True, slots=True)
class Swift:
    """Up by a step each round trip while packets come back in time, else down, once a round trip, by how late they are.

    The target is ``base_ns`` and ``hop_ns`` for each link of the way, and more for a small window, since many flows
    cannot hold a short queue: it rises by up to ``range_ns`` as the window falls from ``many`` to ``few`` packets, in
    proportion to one over its root. A window of less than a packet sends one after a longer pause. A flow begins with
    what fits in a round trip, and never has more under way than its port sends in the target. The defaults are those
    of htsim, sim/swift.cpp of https://github.com/Broadcom/csg-htsim.

    Attributes:
        base_ns, hop_ns, range_ns: Of the target.
        few, many: Windows between which the target depends on them, in packets.
        step: Packets by which the window rises each round trip.
        cut: A late packet takes this share of the part of its delay that is above the target from the window.
        most_cut: None takes more of the window; what was lost takes as much.
        least: No window is smaller, in packets.
    """

    base_ns: int = 20_000  # swift.cpp: _base_delay
    hop_ns: int = 3_053  # swift.cpp: _h, _base_delay / 6.55
    range_ns: int = 100_000  # swift.cpp: _fs_range, 5 * _base_delay
    few: float = 0.1  # swift.cpp: _fs_min_cwnd
    many: float = 100.0  # swift.cpp: _fs_max_cwnd
    step: float = 1.0  # swift.cpp: _ai
    cut: float = 0.8  # swift.cpp: _beta
    most_cut: float = 0.5  # swift.cpp: _max_mdf
    least: float = 0.001  # swift.cpp: _min_cwnd, 10 bytes, of a packet of 9000 or so

    remembers, positions = 4, None
    records, record_bytes, windowed, repaces = True, 8, False, False
    asking = None

    def __post_init__(self) -> None:
        if self.base_ns < 1:
            raise SpecError("base_ns", self.base_ns, "it is not positive", "choose at least 1")
        for name in ("hop_ns", "range_ns"):
            if getattr(self, name) < 0:
                raise SpecError(name, getattr(self, name), "it is negative", "choose at least 0")
        for name in ("few", "step", "least"):
            if not 1e-6 <= getattr(self, name) <= 1e6:
                raise SpecError(name, getattr(self, name), "it is not within 1e-6 to 1e6", "choose a number in between")
        if not self.few < self.many <= 1e6:
            problem, fix = f"it is not above few = {self.few}", "choose a larger one, up to 1e6"
            raise SpecError("many", self.many, problem, fix)
        for name in ("cut", "most_cut"):
            if not 0 < getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is no share", "choose between 0 and 1")

    @property
    def law(self) -> Callable[..., None]:
        return _law

    def marking(self, bits_per_s: int) -> Marking | None:
        return None

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        per_ns = ticks_per_s // 10**9
        range_ticks = self.range_ns * per_ns
        slope = range_ticks / (1 / math.sqrt(self.few) - 1 / math.sqrt(self.many))
        return (
            *(self.base_ns * per_ns, self.hop_ns * per_ns, range_ticks, slope, -slope / math.sqrt(self.many)),
            *(self.step, self.cut, self.most_cut, self.least, payload_bytes, ticks_per_s),
        )


def _law(
    event: int,
    now: int,
    acked: int,
    sent: int,
    marked: bool,
    state: NDArray[float64],
    seen: NDArray[int64],
    knobs: NDArray[float64],
) -> None:
    """The window is in packets; a sender that has gone back has lost some."""
    if event == BEGIN:
        state[RATE_BITS] = state[LINE_BITS]
        state[PACKETS] = max(1.0, state[TRIP_BYTES] / knobs[PAYLOAD])
        state[WINDOW_BYTES] = math.floor(state[PACKETS]) * knobs[PAYLOAD]
    elif event == FEEDBACK:
        delay, window = max(1.0, float(now - seen[SENT_AT])), state[PACKETS]
        scaled = knobs[SLOPE] / math.sqrt(window) + knobs[SHIFT]
        target = knobs[BASE] + knobs[HOP] * state[HOPS] + max(0.0, min(knobs[RANGE], scaled))
        lost, late = sent < state[SENT], delay >= target
        if not lost and not late:
            came = max(0.0, acked - state[CONFIRMED]) / knobs[PAYLOAD]
            window += knobs[STEP] * came / max(1.0, window)
        elif now - state[CUT_AT] >= delay:
            share = knobs[MOST_CUT] if lost else min(knobs[MOST_CUT], knobs[CUT] * (delay - target) / delay)
            window *= 1.0 - share
            state[CUT_AT] = now
        most = state[LINE_BITS] * target / (8.0 * knobs[SECOND] * knobs[PAYLOAD])
        window = max(knobs[LEAST], min(max(1.0, most), window))
        state[PACKETS], state[SENT], state[CONFIRMED] = window, sent, max(state[CONFIRMED], float(acked))
        state[RATE_BITS], state[WINDOW_BYTES] = state[LINE_BITS], max(1.0, math.floor(window)) * knobs[PAYLOAD]
        if window < 1.0:
            paced = knobs[PAYLOAD] * 8.0 * window * knobs[SECOND] / delay
            state[RATE_BITS] = max(1.0, min(state[LINE_BITS], math.floor(paced)))
