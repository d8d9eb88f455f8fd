"""Flows between vertices of a graph, in columns: what is listed to be replayed on a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError

__all__ = ["CLASS", "MOST_CLASS", "PORT", "FlowList", "rows_in_csr"]

Ints = NDArray[np.int64]

CLASS, MOST_CLASS = 3, 7  # the traffic class of a flow that names none, and the last there is
PORT = 100  # the destination port of a flow that names none; that of the reference's flow files


@dataclass(frozen=True, slots=True, eq=False)
class FlowList:
    """N flows in the order of their list; all columns int64 of length N unless said.

    Attributes:
        number: What each is called: distinct, at least 0.
        src, dst: The vertices that send and receive; never the same.
        size_bytes: Payload, at least 0.
        start_ps: The earliest start; of a flow that waits for others, how long after the last of them it starts.
        port: Destination port, 0 to 65535: one of the numbers that are hashed where paths divide.
        after_ptr, after: Rows of the flows that each waits for, in CSR form; ``after_ptr`` has N + 1 entries.
        awaited: At which end a flow is complete for those that wait for it: when the sender has its last
            acknowledgement, or the receiver its last byte.
        classes: Traffic class, 0 to 7; if none is given, that of flows that name none.

    Raises:
        SpecError: A flow has one vertex as both of its ends, or waits for its own end.
    """

    number: Ints
    src: Ints
    dst: Ints
    size_bytes: Ints
    start_ps: Ints
    port: Ints
    after_ptr: Ints
    after: Ints
    awaited: Literal["sender", "receiver"] = "sender"
    classes: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.classes):
            object.__setattr__(self, "classes", np.full(len(self.number), CLASS))
        for row in np.flatnonzero(self.src == self.dst)[:1].tolist():
            raise SpecError(
                f"flow {self.number[row]}", f"{self.src[row]} -> {self.dst[row]}", "it ends where it begins", "name two"
            )
        self.order()

    def __len__(self) -> int:
        return len(self.number)

    def awaits(self, row: int) -> Ints:
        """Rows that ``row`` waits for."""
        return self.after[self.after_ptr[row] : self.after_ptr[row + 1]]

    def depths(self) -> Ints:
        """How many flows each has before it in the longest chain of those that wait for one another, N."""
        found = [0] * len(self)
        if len(self.after):
            ptr, after = self.after_ptr.tolist(), self.after.tolist()
            for row in self.order().tolist():
                found[row] = max((found[other] + 1 for other in after[ptr[row] : ptr[row + 1]]), default=0)
        return np.array(found, dtype=np.int64)

    def order(self) -> Ints:
        """All rows, each behind those that it waits for; as they are listed, if that will do."""
        waits = np.diff(self.after_ptr)
        rows = np.arange(len(self))
        if np.all(self.after < np.repeat(rows, waits)):
            return rows
        followers: list[list[int]] = [[] for _ in rows]
        for row, before in zip(np.repeat(rows, waits).tolist(), self.after.tolist(), strict=True):
            followers[before].append(row)
        left = waits.tolist()
        found = [row for row, count in enumerate(left) if not count]
        for row in found:
            for follower in followers[row]:
                left[follower] -= 1
                if not left[follower]:
                    found.append(follower)
        if len(found) < len(self):
            raise self._circle(left)
        return np.array(found, dtype=np.int64)

    def _circle(self, left: Sequence[int]) -> SpecError:
        """Names a flow that waits for itself; others of which ``left`` counts waits only wait for such flows."""
        row, seen = next(row for row, count in enumerate(left) if count), set[int]()
        while row not in seen:
            seen.add(row)
            row = self._unended(row, left)
        field, waited = f"flow {self.number[row]} after", int(self.number[self._unended(row, left)])
        return SpecError(field, waited, "it waits for its own end", "let one of them start")

    def _unended(self, row: int, left: Sequence[int]) -> int:
        return next(int(before) for before in self.awaits(row) if left[before])


def rows_in_csr(lists: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """Where each list begins, and all of them behind one another."""
    members = [tuple(own) for own in lists]
    return np.cumsum([0, *map(len, members)], dtype=np.int64), np.array([*chain(*members)], dtype=np.int64)
