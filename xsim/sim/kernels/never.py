"""The instant that does not come, and the longest time. Apart, so that who needs them need not load numba."""

from __future__ import annotations

__all__ = ["LONGEST_PS", "NEVER_PS"]

NEVER_PS = 1 << 61  # 26 days, and durations may be added to it within int64
LONGEST_PS = 1 << 59  # 6.7 days: no transfer is taken to last longer, and no simulation goes on for longer
