"""Numba's compiler with the project's one setting, and a type that mypy can follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
T = TypeVar("T")


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, compiled on its first call and kept on disk for the next process.

    The disk copy is renewed when the function's own file changes, and only then: a kernel stands in one file with all
    kernels that it calls and all column numbers that it uses.
    """
    return cast(Callable[P, T], numba.njit(cache=True, error_model="numpy")(function))
