"""DCTCP (Alizadeh and others, SIGCOMM 2010), by rates: the share of marked packets says how much to give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy import float64, int64
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.kernels.packet_columns import BEGIN, FEEDBACK, LINE_BITS, OWN, RATE_BITS
from xsim.sim.marking import Marking

__all__ = ["Dctcp"]

ALPHA, MARKS, BATCH, UNTIL, REDUCED, REDUCED_UNTIL = range(OWN, OWN + 6)
GAIN, STEP, LEAST, PACKET = range(4)


@dataclass(frozen=True, slots=True)
class Dctcp:
    """Once a round trip the rate rises by a step, or falls by half of the smoothed share of marked packets.

    A flow has no more under way than a round trip's worth, less as its rate is less.
    The defaults are those that HPCC's authors publish for 100 Gb/s ports, simulation/run.py of
    https://github.com/alibaba-edu/High-Precision-Congestion-Control. A port marks all packets that leave more
    than 30 kB per 10 Gb/s behind.

    Attributes:
        gain: Weight of the last round trip in the share.
        step_mbps: By how much the rate rises.
        least_mbps: No rate is lower.
    """

    gain: float = 0.0625  # run.py: EWMA_GAIN, 1 / 16
    step_mbps: int = 615  # run.py: DCTCP_RATE_AI, a packet in each round trip of 13 us
    least_mbps: int = 1000  # run.py: MIN_RATE

    remembers, positions = 6, (UNTIL - OWN, REDUCED_UNTIL - OWN)
    records, record_bytes, windowed, repaces = False, 0, True, False
    asking = None

    def __post_init__(self) -> None:
        for name in ("step_mbps", "least_mbps"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "it is not positive", "choose at least 1")
        if not 0 < self.gain <= 1:
            raise SpecError("gain", self.gain, "it is no weight", "choose above 0, up to 1")

    @property
    def law(self) -> Callable[..., None]:
        return _law

    def marking(self, bits_per_s: int) -> Marking | None:
        limit_bytes = 30_000 * bits_per_s // 10**10  # run.py: KMIN_MAP and KMAX_MAP
        return Marking(limit_bytes, limit_bytes, 1.0)

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        return (self.gain, self.step_mbps * 1e6, self.least_mbps * 1e6, payload_bytes)


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
        state[RATE_BITS], state[ALPHA] = state[LINE_BITS], 1.0
    elif event == FEEDBACK:
        if marked:
            state[MARKS] += 1.0
        round_trip = acked > state[UNTIL]
        if round_trip:
            if state[UNTIL] == 0.0:
                state[BATCH] = sent // int(knobs[PACKET]) + 1
            else:
                share = min(1.0, state[MARKS] / state[BATCH])
                state[ALPHA] = (1.0 - knobs[GAIN]) * state[ALPHA] + knobs[GAIN] * share
                state[MARKS] = 0.0
                state[BATCH] = (sent - acked) // int(knobs[PACKET]) + 1
            state[UNTIL] = sent
        if state[REDUCED] > 0.0 and acked > state[REDUCED_UNTIL]:
            state[REDUCED] = 0.0
        if marked and state[REDUCED] == 0.0:
            state[RATE_BITS] = max(knobs[LEAST], float(int(state[RATE_BITS] * (1.0 - state[ALPHA] / 2.0))))
            state[REDUCED], state[REDUCED_UNTIL] = 1.0, sent
        if round_trip and state[REDUCED] == 0.0:
            state[RATE_BITS] = min(state[LINE_BITS], state[RATE_BITS] + knobs[STEP])
