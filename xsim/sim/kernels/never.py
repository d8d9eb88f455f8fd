"""The instant that does not come. Apart, so that whoever compares with it need not load numba."""

from __future__ import annotations

__all__ = ["NEVER_PS"]

NEVER_PS = 1 << 61  # 26 days, and durations may be added to it within int64
