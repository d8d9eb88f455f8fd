"""HPCC (Li and others, SIGCOMM 2019): switches tell each packet how busy they are, and the rate follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy import float64, int64
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels.packet_columns import (
    BEGIN,
    FEEDBACK,
    HOP_RECORDS,
    HOPS_SEEN,
    LINE_BITS,
    MOST_RECORDS,
    OWN,
    RATE_BITS,
    RECORD,
    TRIP,
    TRIP_BYTES,
)
from xsim.sim.marking import Marking

__all__ = ["Hpcc"]

UNTIL, BASE, LOAD, STAGE, KEPT = range(OWN, OWN + 5)
AIM, STEP, LEAST, STAGES, BYTES_UNIT, QUEUE_UNIT, SECOND, FAST = range(8)


@dataclass(frozen=True, slots=True)
class Hpcc:
    """The window and the rate keep the busiest port of the way at a set share of its capacity.

    The defaults are those that its authors publish for 100 Gb/s ports: simulation/run.py of
    https://github.com/alibaba-edu/High-Precision-Congestion-Control.

    Attributes:
        aim: The share.
        step_mbps: Added to the rate each time.
        least_mbps: No rate is lower.
        stages: How many steps in a row are taken below the aim before the rate is set by the load again.
        unit: A record counts bytes sent in 128 times this, and queued bytes in 80 times this.
        react_to_all: Whether every acknowledgement changes the rate, not only one each round trip.
    """

    aim: float = 0.95  # run.py: U_TARGET
    step_mbps: int = 40  # run.py: RATE_AI, 10 for each 25 Gb/s
    least_mbps: int = 1000  # run.py: MIN_RATE
    stages: int = 0  # run.py: MI_THRESH
    unit: int = 4  # run.py: INT_MULTI, 1 for each 25 Gb/s
    react_to_all: bool = True  # run.py: FAST_REACT

    remembers, positions = 5 - 1 + RECORD * MOST_RECORDS, None
    records, record_bytes, windowed, repaces = True, 42, True, True
    asking = None

    def __post_init__(self) -> None:
        for name in ("step_mbps", "least_mbps", "unit"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is not positive", "choose at least 1")
        if self.stages < 0:
            raise SpecError("stages", self.stages, "it is negative", "choose at least 0")
        if not 0 < self.aim <= 1:
            raise SpecError("aim", self.aim, "it is no share", "choose above 0, up to 1")

    @property
    def law(self) -> Callable[..., None]:
        return _law

    def marking(self, bits_per_s: int) -> Marking | None:
        return None

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        return (
            *(self.aim, self.step_mbps * 1e6, self.least_mbps * 1e6, self.stages),
            *(128 * self.unit, 80 * self.unit, ticks_per_s, self.react_to_all),
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
        state[RATE_BITS] = state[BASE] = state[LINE_BITS]
        state[LOAD] = 1.0
    elif event == FEEDBACK:
        full = acked > state[UNTIL]
        if state[UNTIL] > 0.0 and (full or knobs[FAST] > 0.0):
            load, lasted = 0.0, 0.0
            for hop in range(seen[HOPS_SEEN]):
                new, old = HOP_RECORDS + RECORD * hop, KEPT + RECORD * hop
                took = float(seen[new]) - state[old]
                if took <= 0.0:  # of two packets that left in one tick the second says nothing
                    continue
                unit = knobs[BYTES_UNIT]
                sent_there = (seen[new + 1] // int(unit) - int(state[old + 1]) // int(unit)) * unit
                unit = knobs[QUEUE_UNIT]
                queued = min(seen[new + 2] // int(unit), int(state[old + 2]) // int(unit)) * unit
                line = float(seen[new + 3])
                busy = sent_there * 8.0 * knobs[SECOND] / took / line
                busy += queued * state[LINE_BITS] / line / state[TRIP_BYTES]
                if busy > load:
                    load, lasted = busy, took
            lasted = min(lasted, state[TRIP])
            state[LOAD] = (state[LOAD] * (state[TRIP] - lasted) + load * lasted) / state[TRIP]
            excess = state[LOAD] / knobs[AIM]
            if excess >= 1.0 or state[STAGE] >= knobs[STAGES]:
                rate, stage = float(int(state[BASE] / excess)) + knobs[STEP], 0.0
            else:
                rate, stage = state[BASE] + knobs[STEP], state[STAGE] + 1.0
            state[RATE_BITS] = max(knobs[LEAST], min(state[LINE_BITS], rate))
            if full:
                state[BASE], state[STAGE] = state[RATE_BITS], stage
        if full:
            state[UNTIL] = sent
        for place in range(RECORD * MOST_RECORDS):
            state[KEPT + place] = seen[HOP_RECORDS + place]
