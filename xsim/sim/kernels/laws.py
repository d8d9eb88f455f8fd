"""Laws of congestion control as the packet kernel calls them."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import types

from xsim.sim.kernels.jit import as_value
from xsim.sim.kernels.packet_control import Law

__all__ = ["compiled"]

_SIGNATURE = types.void(
    *(types.int64, types.int64, types.int64, types.int64, types.boolean),
    *(types.float64[::1], types.int64[::1], types.float64[::1]),
)


@cache
def compiled(law: Law) -> Any:
    """The law, a plain function, as a value of one type whatever it is: so the kernel is compiled once for all laws."""
    return as_value(law, _SIGNATURE)
