"""TIMELY (Mittal and others, SIGCOMM 2015): the slope of the round-trip time sets the rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy import float64, int64
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels.packet_columns import BEGIN, FEEDBACK, LINE_BITS, OWN, RATE_BITS, SENT_AT
from xsim.sim.marking import Marking

__all__ = ["Timely"]

UNTIL, TRIP_BEFORE, SLOPE, RAISES = range(OWN, OWN + 4)
LOW, HIGH, SPAN, GAIN, CUT, STEP, LEAP, PATIENCE, LEAST = range(9)


@dataclass(frozen=True, slots=True)
class Timely:
    """Once a round trip: up while the trip is short or shortens, down in proportion to how it lengthens.

    The defaults are those that HPCC's authors publish for 100 Gb/s ports: simulation/run.py and
    src/point-to-point/model/rdma-hw.cc of https://github.com/alibaba-edu/High-Precision-Congestion-Control.

    Attributes:
        low_ns, high_ns: A shorter trip always raises the rate, a longer one always cuts it.
        span_ns: A change of the trip by so much is a slope of 1.
        gain: Weight of the newest change in the slope.
        cut: Share of the rate that a slope of 1 takes.
        step_mbps, leap_mbps: By how much the rate rises, and from the sixth raise in a row.
        least_mbps: No rate is lower.
    """

    low_ns: int = 50_000  # rdma-hw.cc: TimelyTLow
    high_ns: int = 500_000  # rdma-hw.cc: TimelyTHigh
    span_ns: int = 20_000  # rdma-hw.cc: TimelyMinRtt
    gain: float = 0.875  # rdma-hw.cc: TimelyAlpha
    cut: float = 0.8  # rdma-hw.cc: TimelyBeta
    step_mbps: int = 100  # run.py: RATE_AI, 10 for each 10 Gb/s
    leap_mbps: int = 500  # run.py: RATE_HAI, 50 for each 10 Gb/s
    least_mbps: int = 1000  # run.py: MIN_RATE

    remembers, positions = 4, (UNTIL - OWN,)
    records, record_bytes, windowed, repaces = True, 8, False, False
    asking = None

    def __post_init__(self) -> None:
        for name in ("low_ns", "high_ns", "span_ns", "step_mbps", "leap_mbps", "least_mbps"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is not positive", "choose at least 1")
        if self.low_ns > self.high_ns:
            raise SpecError("low_ns", self.low_ns, f"it is above high_ns = {self.high_ns}", "choose a shorter trip")
        for name in ("gain", "cut"):
            if not 0 < getattr(self, name) <= 1:
                raise SpecError(name, getattr(self, name), "it is no share", "choose above 0, up to 1")

    @property
    def law(self) -> Callable[..., None]:
        return _law

    def marking(self, bits_per_s: int) -> Marking | None:
        return None

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        per_ns = ticks_per_s // 10**9
        return (
            *(self.low_ns * per_ns, self.high_ns * per_ns, self.span_ns * per_ns, self.gain, self.cut),
            *(self.step_mbps * 1e6, self.leap_mbps * 1e6, 5, self.least_mbps * 1e6),
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
    """Rates are whole bits per second."""
    if event == BEGIN:
        state[RATE_BITS] = state[LINE_BITS]
    elif event == FEEDBACK and acked > state[UNTIL]:
        trip = float(now - seen[SENT_AT])
        if state[UNTIL] > 0.0:
            change = trip - state[TRIP_BEFORE]
            state[SLOPE] = (1.0 - knobs[GAIN]) * state[SLOPE] + knobs[GAIN] * change
            slope = state[SLOPE] / knobs[SPAN]
            rate = state[RATE_BITS]
            if trip < knobs[LOW] or (trip <= knobs[HIGH] and slope <= 0.0):
                rate += knobs[LEAP] if state[RAISES] >= knobs[PATIENCE] else knobs[STEP]
                state[RAISES] += 1.0
            else:
                if trip > knobs[HIGH]:
                    rate *= 1.0 - knobs[CUT] * (1.0 - knobs[HIGH] / trip)
                else:
                    rate *= max(0.0, 1.0 - knobs[CUT] * slope)
                state[RAISES] = 0.0
            state[RATE_BITS] = float(int(max(knobs[LEAST], min(state[LINE_BITS], rate))))
        state[UNTIL], state[TRIP_BEFORE] = sent, trip
