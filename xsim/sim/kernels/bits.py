"""Bits of a word, for kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["trailing_zeros"]


def _trailing_zeros(_typing: Any, word: Any) -> Any:  # noqa: ARG001
    def build(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), build


# How many bits of an int64 lie below its lowest set one; 64 if none is set.
trailing_zeros = cast(Callable[[int], int], intrinsic(_trailing_zeros))
