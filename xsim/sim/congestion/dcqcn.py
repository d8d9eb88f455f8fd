"""DCQCN (Zhu and others, SIGCOMM 2015), as RDMA adapters have it: marks cut the rate, timers raise it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy import float64, int64
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels.packet_columns import ALARM, ALARMED, BEGIN, FEEDBACK, LINE_BITS, OWN, RATE_BITS
from xsim.sim.marking import PUBLISHED, Marking, marking_at

__all__ = ["Dcqcn"]

ALPHA, TARGET, STAGE, NOTED, CUT_NOTED, STARTED = range(OWN, OWN + 6)
ALPHA_TICKS, CUT_TICKS, RAISE_TICKS, GAIN, FAST, STEP, LEAP, LEAST, CLAMPS, NS = range(10)
LESSEN, CUT, RAISE = ALARMED, ALARMED + 1, ALARMED + 2


@dataclass(frozen=True, slots=True)
class Dcqcn:
    """A marked packet's echo cuts the rate by alpha / 2 at most once in a while; a timer brings it back.

    The defaults are those of the configuration that its authors' successors publish with HPCC for 100 Gb/s ports:
    simulation/run.py of https://github.com/alibaba-edu/High-Precision-Congestion-Control.

    Attributes:
        alpha_ns: How often alpha is renewed.
        cut_ns: The least time between cuts.
        raise_ns: The time between raises.
        gain: Weight of the newest in alpha.
        fast: How many raises go half way to the target before the target rises.
        step_mbps, leap_mbps: By how much the target rises, once and afterwards.
        least_mbps: No rate is lower.
        clamp: Whether every cut lowers the target, not only one after a raise.
        windowed: Whether a flow may have no more under way than a round trip's worth, less as its rate is less.
    """

    alpha_ns: int = 1000  # run.py: ALPHA_RESUME_INTERVAL 1 us
    cut_ns: int = 4000  # run.py: RATE_DECREASE_INTERVAL 4 us
    raise_ns: int = 300_000  # run.py: RP_TIMER 300 us
    gain: float = 0.00390625  # run.py: EWMA_GAIN, 1 / 256
    fast: int = 1  # run.py: FAST_RECOVERY_TIMES
    step_mbps: int = 20  # run.py: RATE_AI, 5 for each 25 Gb/s
    leap_mbps: int = 200  # run.py: RATE_HAI, 50 for each 25 Gb/s
    least_mbps: int = 1000  # run.py: MIN_RATE
    clamp: bool = False
    windowed: bool = False

    remembers, positions = 6, ()
    records, record_bytes, repaces = False, 0, False
    asking = None

    def __post_init__(self) -> None:
        for name in ("alpha_ns", "cut_ns", "raise_ns", "least_mbps"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is not positive", "choose at least 1")
        for name in ("fast", "step_mbps", "leap_mbps"):
            if getattr(self, name) < 0:
                raise SpecError(name, getattr(self, name), "it is negative", "choose at least 0")
        if not 0 < self.gain <= 1:
            raise SpecError("gain", self.gain, "it is no weight", "choose above 0, up to 1")

    @property
    def law(self) -> Callable[..., None]:
        return _law

    def marking(self, bits_per_s: int) -> Marking | None:
        return marking_at(bits_per_s, PUBLISHED)

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        per_ns = ticks_per_s // 10**9
        return (
            *(self.alpha_ns * per_ns, self.cut_ns * per_ns, self.raise_ns * per_ns),
            *(self.gain, self.fast, self.step_mbps * 1e6, self.leap_mbps * 1e6, self.least_mbps * 1e6),
            *(self.clamp, per_ns),
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
        state[RATE_BITS] = state[TARGET] = state[LINE_BITS]
    elif event == FEEDBACK:
        if marked:
            state[NOTED], state[CUT_NOTED] = state[STARTED], 1.0
            if state[STARTED] == 0.0:
                state[STARTED], state[ALPHA], state[TARGET] = 1.0, 1.0, state[RATE_BITS]
                state[ALARM] = now + knobs[ALPHA_TICKS]
                state[ALARM + 1] = now + knobs[CUT_TICKS] + knobs[NS]  # to come behind the other
    elif event == LESSEN:
        state[ALPHA] = (1.0 - knobs[GAIN]) * state[ALPHA] + (knobs[GAIN] if state[NOTED] > 0.0 else 0.0)
        state[NOTED] = 0.0
        state[ALARM] = now + knobs[ALPHA_TICKS]
    elif event == CUT:
        state[ALARM + 1] = now + knobs[CUT_TICKS]
        if state[CUT_NOTED] > 0.0:
            if knobs[CLAMPS] > 0.0 or state[STAGE] > 0.0:
                state[TARGET] = state[RATE_BITS]
            state[RATE_BITS] = max(knobs[LEAST], float(int(state[RATE_BITS] * (1.0 - state[ALPHA] / 2.0))))
            state[CUT_NOTED], state[STAGE] = 0.0, 0.0
            state[ALARM + 2] = now + knobs[RAISE_TICKS]
    elif event == RAISE:
        state[ALARM + 2] = now + knobs[RAISE_TICKS]
        if state[STAGE] >= knobs[FAST]:
            step = knobs[STEP] if state[STAGE] == knobs[FAST] else knobs[LEAP]
            state[TARGET] = min(state[LINE_BITS], state[TARGET] + step)
        state[RATE_BITS] = float(int(state[RATE_BITS] / 2.0) + int(state[TARGET] / 2.0))
        state[STAGE] += 1.0
