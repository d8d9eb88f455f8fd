"""Where whose contribution lies: the notes that the judge keeps while it executes a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from xsim.errors import PlanError
from xsim.plan.replay import Event, Write

__all__ = ["Holding", "Notes"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Holding:
    """``rank`` has ``contribution`` on ``span`` before the first event."""

    rank: int
    span: range
    contribution: int = 0


class Notes:
    """Whose contribution lies where: ``counts[row of the rank, piece, contribution]`` is 0, 1 or 2.

    The last contribution stands for zeros: something that is there, and of which it does not matter how often.

    Attributes:
        counts: See above, V x P x C.
        written: Whether something is there, V x P.
        switch: Which of the V are switches.
        values, given: Of each piece at a switch, how many values are in the sum there, and whether it was given to
            somebody, V x P; empty if there are no switches.
    """

    def __init__(
        self,
        edges: Iterable[int],
        vertices: Iterable[int],
        before: Sequence[Holding],
        zeros: Sequence[tuple[int, range]],
        contributions: int,
        switches: frozenset[int],
    ) -> None:
        """Before the first event.

        Args:
            edges: Where spans begin and end, of what is there, will be moved and is looked at.
            vertices: All ranks and switches that will be asked for.
        """
        self._cuts = sorted(set(edges))
        self._piece = {cut: i for i, cut in enumerate(self._cuts)}
        self._row = {vertex: row for row, vertex in enumerate(sorted(set(vertices)))}
        shape = len(self._row), len(self._cuts)
        self.counts = np.zeros((*shape, contributions + 1), dtype=np.uint8)
        self.written = np.zeros(shape, dtype=np.bool_)
        self.switch = np.array([vertex in switches for vertex in self._row], dtype=np.bool_)
        self.values = np.zeros(shape if switches else (0, 0), dtype=np.int64)
        self.given = np.zeros(self.values.shape, dtype=np.bool_)
        for holding in before:
            self._at(holding.rank, holding.span)[:, holding.contribution] = 1
        for rank, span in zeros:
            self._at(rank, span)[:] = 0
            self._at(rank, span)[:, -1] = 1
        for rank, span in (*((holding.rank, holding.span) for holding in before), *zeros):
            self.written[self._row[rank], self._pieces(span)] = True

    def rows(self, vertices: Ints) -> Ints:
        """Rows of ranks and switches."""
        return np.searchsorted(np.array(list(self._row)), vertices)

    def pieces(self, edges: Ints) -> Ints:
        """Numbers of the pieces that begin there."""
        return np.searchsorted(np.array(self._cuts), edges)

    def perform(self, event: Event) -> None:
        """All writes of the event at once, from what was there before it."""
        sums: dict[tuple[tuple[int, ...], range], NDArray[np.uint8]] = {}  # in an all-reduce all get the same
        values = []
        for write in event.writes:
            rows = (*write.sources, write.rank) if write.add else write.sources
            if (rows, write.span) not in sums:
                self._mind(rows, write, event)
                sums[rows, write.span] = self._sum(rows, self._pieces(write.span))
            values.append(sums[rows, write.span])
        for write, value in zip(event.writes, values, strict=True):
            at = self._row[write.rank], self._pieces(write.span)
            self.counts[at] = value
            self.written[at] = bool(write.sources) or write.add

    def _mind(self, rows: Sequence[int], write: Write, event: Event) -> None:
        """PlanError if somebody is asked for what he does not have, or a switch for what it cannot do."""
        pieces = self._pieces(write.span)
        for rank in rows if not self.switch[self._row[write.rank]] else write.sources:
            if not self.written[self._row[rank], pieces].all():
                self._complain(rank, write.span, event)
        if len(self.values):
            self._mind_switches(write, pieces, event)

    def _sum(self, ranks: Sequence[int], pieces: slice) -> NDArray[np.uint8]:
        """What ``ranks`` have there together; nothing if there are none."""
        total = np.zeros((pieces.stop - pieces.start, self.counts.shape[2]), dtype=np.uint8)
        for rank in ranks:
            total += self.counts[self._row[rank], pieces]
            np.minimum(total, 2, out=total)
        return total

    def _mind_switches(self, write: Write, pieces: slice, event: Event) -> None:
        """PlanError if a switch is asked for what it cannot do; what it has given makes room for what comes now."""
        for row in (self._row[source] for source in write.sources):
            if self.switch[row]:
                if (self.given[row, pieces] & (self.values[row, pieces] > 1)).any():
                    raise PlanError(f"{event.name}: {event.what} reads a sum that the switch has given to another")
                self.given[row, pieces] = True
        row = self._row[write.rank]
        if self.switch[row]:
            if not write.add:
                raise PlanError(f"{event.name}: {event.what} overwrites what a switch has; it can only add")
            anew = self.given[row, pieces].copy()
            self.values[row, pieces] = np.where(anew, 1, self.values[row, pieces] + 1)
            self.given[row, pieces] = False
            self.counts[row, pieces][anew] = 0

    def expect_all_once(self, rank: int, span: range, contributions: Sequence[str]) -> None:
        """PlanError unless ``rank`` holds each contribution exactly once all over ``span``."""
        for piece, contribution in np.argwhere(self._at(rank, span)[:, :-1] != 1)[:1]:
            found = self._at(rank, span)[piece, contribution]
            element = self._cuts[self._piece[span.start] + piece]
            times = "more than once" if found else "not at all"
            raise PlanError(f"at the end rank {rank} has {contributions[contribution]} {times} in element {element}")

    def _complain(self, rank: int, span: range, event: Event) -> NoReturn:
        """PlanError that names the first element of ``span`` that was never written."""
        missing = int(self.written[self._row[rank], self._pieces(span)].argmin())
        element = self._cuts[self._piece[span.start] + missing]
        raise PlanError(f"{event.name}: rank {rank} does not hold element {element} for {event.what}")

    def _at(self, rank: int, span: range) -> NDArray[np.uint8]:
        return self.counts[self._row[rank], self._pieces(span)]

    def _pieces(self, span: range) -> slice:
        return slice(self._piece[span.start], self._piece[span.stop])
