"""Whose turn it is to compile: of processes that lack the same code at one time, one compiles it and others wait."""

from __future__ import annotations

import fcntl
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["compiles", "in_turn", "waits"]

SELDOM = (20_000, 10, 1_000)  # the compiler makes much that stays: looking for cycles took a seventh of its time
FILE = "turn"  # in the folder of compiled kernels; locked by the process that compiles, as long as it lives


class _Turn:
    """Of this process; what may be compiled by several threads is guarded by numba's own lock."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self.thread: int | None = None  # that has it
        self.waits = False

    @contextmanager
    def taken_at_most_here(self) -> Iterator[None]:
        """What is taken within is given back at the end, unless it was taken before."""
        before = self._file
        try:
            yield
        finally:
            if before is None and self._file is not None:
                self._file.close()
                self._file = self.thread = None

    def take(self, folder: Path) -> bool:
        """Wait until nobody else compiles for ``folder``; False if it is this process's turn already."""
        if self._file is not None:
            return False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / FILE).open("a")
        except OSError:  # nothing can be kept there for others either
            return False
        self.waits = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: everybody compiles
            pass
        finally:
            self.waits = False
        self._file, self.thread = file, threading.get_ident()
        return True


_turn = _Turn()
_FunctionCache: Any = caching.FunctionCache  # of a library without types


class _Shared(_FunctionCache):  # type: ignore[misc]
    """Code on disk; who looks for what is not there has the turn to compile it, once it is still missing by then."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """As numba's."""
        found: Any = super().load_overload(sig, target_context)
        if found is None and _turn.take(Path(self.cache_path).parent):
            found = super().load_overload(sig, target_context)
        return found


def in_turn(dispatcher: Any) -> Any:
    """``dispatcher``, a function that numba compiles and keeps on disk; processes do not compile it side by side."""
    if not hasattr(dispatcher, "py_func"):  # numba is told not to compile
        return dispatcher
    compiles = dispatcher.compile

    def compile_in_turn(sig: Any) -> Any:
        if _turn.thread == threading.get_ident():  # what another kernel calls
            return compiles(sig)
        with global_compiler_lock, _turn.taken_at_most_here(), _fewer_collections():
            return compiles(sig)

    dispatcher.compile, dispatcher._cache = compile_in_turn, _Shared(dispatcher.py_func)  # noqa: SLF001
    return dispatcher


@contextmanager
def _fewer_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def compiles() -> bool:
    """Whether this process compiles kernels."""
    return _turn.thread is not None


def waits() -> bool:
    """Whether this process waits for another one that compiles kernels."""
    return _turn.waits
