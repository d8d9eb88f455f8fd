"""Numbers that all kernels share. Apart, so that who needs them need not load numba."""

from __future__ import annotations

__all__ = ["HALF_PPM", "LONGEST_PS", "NEVER_PS", "PPM"]

NEVER_PS = 1 << 61  # 26 days, and durations may be added to it within int64
LONGEST_PS = 1 << 59  # 6.7 days: no transfer is taken to last longer, and no simulation goes on for longer
PPM = 10**6  # bytes on the wire = (bytes * wire_ppm + HALF_PPM) // PPM, worked out so that the product fits
HALF_PPM = PPM // 2
