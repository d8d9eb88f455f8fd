"""No congestion control: a flow sends at the rate of its port, and pause frames do the rest."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.sim.marking import Marking

__all__ = ["Uncontrolled"]


@dataclass(frozen=True, slots=True)
class Uncontrolled:
    """Every flow sends at the rate of its port; switches pause their neighbours when they must."""

    law, positions = None, ()
    remembers, records, record_bytes, windowed, repaces = 0, False, 0, False, False
    asking = None

    def marking(self, bits_per_s: int) -> Marking | None:
        return None

    def knobs(self, ticks_per_s: int, payload_bytes: int) -> tuple[float, ...]:
        return ()
