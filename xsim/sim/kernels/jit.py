"""Numba's compiler with the project's one setting, and a type that mypy can follow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.misc import appdirs

from xsim.sim.kernels.turn import in_turn

__all__ = ["as_value", "disk_copies", "kernel", "part", "rare_kernel"]

P = ParamSpec("P")
T = TypeVar("T")


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, compiled on its first call and kept on disk for the next process.

    Kernels are inlined into each other, and count no references to the arrays that they are given: either would cost
    more than the work itself. So they create none. Other threads go on while they run. Processes that lack the same
    code at one time compile it once, see ``turn``.
    """
    return _compiled(function)


def part(function: Callable[P, T]) -> Callable[P, T]:
    """``function`` as a kernel that only other kernels call: Python cannot, and must not try to.

    What Python calls has to unpack its arguments, which is more to compile than many a kernel. A large one should be
    called at one place alone, as each call holds all of it.
    """
    return _compiled(function, no_cpython_wrapper=True)


def rare_kernel(function: Callable[P, T]) -> Callable[P, T]:
    """As ``part``, but called where it is used: what few simulations need stays out of the way of the others."""
    return _compiled(function, forceinline=False, no_cpython_wrapper=True)


def _compiled(function: Callable[P, T], **more: bool) -> Callable[P, T]:
    options: Any = {"cache": True, "error_model": "numpy", "forceinline": True, "nogil": True}
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    with disk_copies():
        return cast(Callable[P, T], in_turn(numba.njit(**(options | more))(function)))


def as_value(function: Callable[..., Any], signature: Any) -> Any:
    """``function`` as a value of the one type of its signature: a kernel that is given it is compiled once for all."""
    options: Any = {"cache": True, "error_model": "numpy", "_nrt": False}
    with disk_copies():
        return numba.cfunc(signature, **options)(function)


@contextmanager
def disk_copies() -> Iterator[None]:
    """What is declared within keeps its compiled code in a folder named by the contents of all files of kernels.

    Numba renews its disk copy when the function's own file changes, and only then, though kernels call kernels of other
    files and use their column numbers. The folder lies below ``NUMBA_CACHE_DIR`` if that is set, else below
    ``__pycache__`` beside the kernels, else in the user's cache.
    """
    settings: Any = numba.config  # a module whose names come from the environment
    before, settings.CACHE_DIR = settings.CACHE_DIR, _folder(settings.CACHE_DIR)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


@cache
def _folder(chosen: str) -> str:
    """Where compiled kernels of these very sources are kept."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(here.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    if chosen:
        return str(Path(chosen) / name)
    beside = here / "__pycache__"
    with suppress(OSError):
        beside.mkdir(exist_ok=True)
    if os.access(beside, os.W_OK):
        return str(beside / name)
    users: Any = appdirs.user_cache_dir  # an installation that its users may not write to
    return str(Path(users("numba", False)) / name)
