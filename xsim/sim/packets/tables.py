"""Memory of the tables that are touched all over at every moment: lines of the cache, and large pages."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

__all__ = ["Growing", "in_lines"]

Ints = NDArray[np.int64]
LINE = 8  # numbers in a line of the cache
FEW = 1 << 16  # rows that need no pages of their own
AHEAD = 3  # times what is needed now: pages that nobody has touched take no memory


def in_lines(table: Ints) -> Ints:
    """The table, or a copy of it that begins with a line: columns that are used together stand eight to a line."""
    if not table.size or table.ctypes.data % (8 * LINE) == 0:
        return table
    memory = np.zeros(table.size + LINE, dtype=np.int64)
    begin = int(-memory.ctypes.data % (8 * LINE)) // 8
    found = memory[begin : begin + table.size].reshape(table.shape)
    found[:] = table
    return found


class Growing:
    """A table of zeros that grows. In pages of 2 MiB, where the system has them, a large one is half as slow again."""

    def __init__(self, columns: int) -> None:
        self._room: Ints = np.zeros((0, columns), dtype=np.int64)
        self.cells = self._room

    def grow(self, rows: int) -> Ints:
        """The table with so many rows, from now on."""
        if rows > len(self._room):
            self._room = _room(rows, self._room.shape[1])
            self._room[: len(self.cells)] = self.cells
        self.cells = self._room[:rows]
        return self.cells


def _room(rows: int, columns: int) -> Ints:
    if rows <= FEW:
        return np.zeros((rows, columns), dtype=np.int64)
    try:
        pages = mmap.mmap(-1, AHEAD * rows * columns * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as refusal:
        raise MemoryError(f"{rows} packets and events at once find no memory") from refusal
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.int64).reshape(-1, columns)
