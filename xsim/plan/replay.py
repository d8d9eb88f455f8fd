"""What the judge executes: plans and graphs as events, each a few writes that happen at once, with their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective, CommPlan, Step, Transfer
from xsim.plan.kernels import put_in_order

__all__ = ["Event", "Write", "adversarial_orders", "check_order", "events_of", "row_event", "waits_of", "zeros_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Write:
    """On ``span``, ``rank`` gets the sum of what ``sources`` have there, in place of what it has or added to it.

    No sources: what it has is spoilt.
    """

    rank: int
    span: range
    sources: tuple[int, ...]
    add: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One step, or one row of a graph in one round.

    Attributes:
        name: Where it stands: ``step 3``, ``row 7 round 1``.
        waits: Numbers of earlier events.
        step: What it does.
    """

    name: str
    waits: tuple[int, ...]
    step: Step
    writes: tuple[Write, ...]

    @property
    def what(self) -> str:
        """The step as one would type it, without its order."""
        if isinstance(self.step, Transfer):
            add = ", add=True" if self.step.add else ""
            return f"Transfer({self.step.src}, {self.step.dst}, span={self.step.span}{add})"
        return f"Collective({self.step.kind!r}, ranks={self.step.ranks}, span={self.step.span})"


def events_of(plan: CommPlan | TransferGraph) -> tuple[Event, ...]:
    """The events of ``plan``, each after those that it waits for.

    Raises:
        PlanError: A step or row waits for a later one.
    """
    return tuple(_unroll(plan) if isinstance(plan, TransferGraph) else _steps(plan))


def zeros_of(plan: CommPlan | TransferGraph) -> tuple[tuple[int, range], ...]:
    """(rank, span) where zeros lie before the first event of ``plan``, in its units."""
    if isinstance(plan, TransferGraph):
        return plan.zeros
    return tuple((part.rank, part.span) for part in plan.zeros)


def _steps(plan: CommPlan) -> Iterator[Event]:
    checked: tuple[int, ...] = ()
    for number, step in enumerate(plan.steps):
        if step.after is not checked:
            checked = step.after
            _check_earlier("step", number, checked)
        writes = _transfer(step) if isinstance(step, Transfer) else _collective(step)
        yield Event(f"step {number}", step.after, step, tuple(write for write in writes if write.span))


def _transfer(step: Transfer) -> Iterator[Write]:
    yield Write(step.dst, step.span, (step.src,), step.add)


def _collective(step: Collective) -> Iterator[Write]:
    """What each rank gets. A reduce-scatter spoils all but the rank's own piece, a reduce all but the root's span."""
    own = list(zip(step.ranks, step.pieces(), strict=True))
    root = step.ranks[step.root or 0]
    for place, rank in enumerate(step.ranks):
        match step.kind:
            case "all_reduce":
                yield Write(rank, step.span, step.ranks)
            case "broadcast" if rank != root:
                yield Write(rank, step.span, (root,))
            case "all_gather":
                yield from (Write(rank, piece, (owner,)) for owner, piece in own if owner != rank)
            case "reduce_scatter":
                yield from (Write(rank, piece, step.ranks if owner == rank else ()) for owner, piece in own)
            case "reduce":
                yield Write(rank, step.span, step.ranks if rank == root else ())
            case "all_to_all":
                rows = zip(step.ranks, step.blocks(), strict=True)
                yield from (Write(rank, row[place], (owner,)) for owner, row in rows if owner != rank)
            case "send_recv" if len(own) > 1:
                owner, piece = own[place - 1]
                yield Write(rank, piece, (owner,))


def _unroll(graph: TransferGraph) -> Iterator[Event]:
    """Rows in order, the rows of a cycle round by round."""
    last: dict[int, int] = {}  # row -> number of its last event
    number = base = 0
    while base < graph.rows:
        count = max(1, int(graph.cycle_len[base]))
        first = number
        for turn in range(int(graph.rounds[base])):
            for p in range(count):
                row = base + p
                if turn == 0:
                    before = tuple(graph.predecessors(row).tolist())
                    _check_earlier("row", base, before)
                    waits = tuple(last[wait] for wait in before)
                else:
                    back = first + (turn - 1) * count
                    waits = (back + p, back + (p - 1) % count)
                yield row_event(graph, row, base + (p - turn) % count, turn, waits)
                number += 1
        last.update((base + p, number - count + p) for p in range(count))
        base += count


def row_event(graph: TransferGraph, row: int, carried: int, turn: int, waits: tuple[int, ...]) -> Event:
    """``row`` in round ``turn``, in which it carries the span of the row ``carried``."""
    span = range(int(graph.start[carried]), int(graph.stop[carried]))
    add = turn < graph.add_rounds[row] if graph.cycle_len[row] else bool(graph.add[row])
    step = Transfer(int(graph.src[row]), int(graph.dst[row]), span, bool(add))
    name = f"row {row} round {turn}" if graph.cycle_len[row] else f"row {row}"
    return Event(name, waits, step, tuple(_transfer(step)) if span else ())


def _check_earlier(kind: str, number: int, waits: Sequence[int]) -> None:
    for wait in waits:
        if not 0 <= wait < number:
            raise PlanError(f"{kind} {number} waits for {kind} {wait}, which does not come before it")


def check_order(events: Sequence[Event]) -> None:
    """PlanError if two events touch the same element of a rank in conflict and neither waits for the other.

    Two that read agree, and so do two that add. Cost: O(E^2 / 64) for the ancestor sets of E events.
    """
    cuts = sorted({edge for event in events for w in event.writes for edge in (w.span.start, w.span.stop)})
    ancestors: list[int] = []
    shared: tuple[int, ...] = ()
    before = 0
    by_access: dict[str, defaultdict[tuple[int, int], int]] = {a: defaultdict(int) for a in _CLASHES}
    for number, event in enumerate(events):
        if event.waits is not shared:  # the steps of a phase have one tuple between them, as long as all before
            shared, before = event.waits, 0
            for wait in shared:
                before |= ancestors[wait] | 1 << wait
        ancestors.append(before)
        touches = [
            (access, (rank, cuts[i]))
            for access, rank, span in _accesses(event)
            for i in range(bisect_left(cuts, span.start), bisect_left(cuts, span.stop))
        ]
        for access, cell in touches:
            for other in _CLASHES[access]:
                unordered = by_access[other][cell] & ~before
                if unordered:
                    earlier = events[unordered.bit_length() - 1]
                    raise PlanError(
                        f"{earlier.name}, {earlier.what}, and {event.name}, {event.what}, both touch element {cell[1]} "
                        f"of rank {cell[0]}, and neither waits for the other"
                    )
        for access, cell in touches:
            by_access[access][cell] |= 1 << number


_CLASHES = {"read": ("add", "write"), "add": ("read", "write"), "write": ("read", "add", "write")}


def _accesses(event: Event) -> Iterator[tuple[str, int, range]]:
    read = set()  # in an all-reduce every rank reads the same
    for write in event.writes:
        if (write.sources, write.span) not in read:
            read.add((write.sources, write.span))
            for source in write.sources:
                yield "read", source, write.span
        yield "add" if write.add else "write", write.rank, write.span


def waits_of(events: Sequence[Event]) -> tuple[Ints, Ints]:
    """Which earlier events each one waits for, in CSR form."""
    ptr = np.cumsum([0, *(len(event.waits) for event in events)], dtype=np.int64)
    return ptr, np.array([wait for event in events for wait in event.waits], dtype=np.int64)


def adversarial_orders(ptr: Ints, waits: Ints) -> Iterator[Ints]:
    """Orders in which E events may happen: as given, the last possible first, and three at random.

    Args:
        ptr, waits: Which earlier events each one waits for, in CSR form.
    """
    count = len(ptr) - 1
    yield np.arange(count)
    yield put_in_order(np.arange(count)[::-1].copy(), ptr, waits)
    for seed in range(3):
        yield put_in_order(np.random.RandomState(seed).permutation(count), ptr, waits)  # a frozen stream
