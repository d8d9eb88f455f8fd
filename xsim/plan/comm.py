"""Communication plans as data: steps, their order, and how they become transfers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from xsim.errors import PlanError
from xsim.fabric.transfers import COLUMNS, IDEAL, Row, TransferGraph, graph_of
from xsim.plan.layout import Layout, even_pieces, overlaps
from xsim.spec.shares import share_cuts

__all__ = [
    "Collective",
    "CollectiveKind",
    "CommPlan",
    "Step",
    "Transfer",
    "Zeros",
    "complete",
    "finished",
    "hand_over",
    "in_bytes",
    "lower_plan",
    "phases",
    "ranks_of",
]

CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """``src`` sends ``span`` to ``dst``, which overwrites what it has, or adds to it.

    Attributes:
        after: Numbers of earlier steps of the plan that come first.
    """

    src: int
    dst: int
    span: range
    add: bool = False
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collective:
    """``ranks`` work together on ``span``, which has a piece for each of them.

    Piece i, of ``ranks[i]``, is the i-th of ``even_cuts(len(span), len(ranks))`` unless ``cuts`` gives the boundaries
    (absolute, from span.start to span.stop). What each rank holds before and after:

        all_reduce      its own values of the span   the sum of all of them
        reduce_scatter  its own values of the span   the sum on its piece; elsewhere anything
        all_gather      its piece                    the span
        broadcast       the root: the span           the span
        reduce          its own values of the span   the root: the sum; others: anything
        all_to_all      its piece                    block j of every piece, for the rank at j
        send_recv       its piece                    also the piece of the rank before it, the first that of the last

    The blocks of an all-to-all are n of each of the n pieces, see ``blocks``: the pieces are the rows of a matrix of
    which every rank ends with a column. A send-receive is the shift by one of NCCL's benchmark
    (github.com/NVIDIA/nccl-tests/blob/29f4114f027f/src/sendrecv.cu): every rank sends to the next, receives from the
    one before. What is sent stays where it was, too.

    Attributes:
        root: Position in ``ranks`` of the source of a broadcast, the target of a reduce; absent: the first.
        shares: Of an all-to-all, what each rank gets of every piece, in proportion; empty: as even as can be.
    """

    kind: CollectiveKind
    ranks: tuple[int, ...]
    span: range
    root: int | None = None
    cuts: tuple[int, ...] | None = None
    after: tuple[int, ...] = ()
    shares: tuple[int, ...] = ()

    def pieces(self) -> tuple[range, ...]:
        """Piece i, of ``ranks[i]``; may be empty."""
        if self.cuts is None:
            return tuple(even_pieces(self.span, len(self.ranks)))
        return tuple(range(*ends) for ends in pairwise(self.cuts))

    def blocks(self) -> tuple[tuple[range, ...], ...]:
        """Block j of piece i, which ``ranks[i]`` has for ``ranks[j]``: piece i cut by ``shares``."""
        return tuple(
            tuple(
                range(piece.start + start, piece.start + stop)
                for start, stop in pairwise(share_cuts(len(piece), len(self.ranks), self.shares))
            )
            for piece in self.pieces()
        )


Step = Transfer | Collective


@dataclass(frozen=True, slots=True)
class Zeros:
    """Padding: ``rank`` has zeros on ``span`` before the first step, in place of whatever it held there.

    Writing them is local and takes no time here: a device fills its memory at hundreds of gigabytes per second, tens of
    times what a network port carries. Nor does the memory account know the room that they take.
    """

    rank: int
    span: range


@dataclass(frozen=True, slots=True)
class CommPlan:
    """Steps in an order in which they may run; ``after`` points to earlier steps only.

    Attributes:
        strategy: Which way was taken, where a strategy has several: the name of the one chosen among others, what it
            falls back to, or how the halves of a sum go (``xsim.plan.halves``).
        zeros: Padding that the steps find.
    """

    steps: tuple[Step, ...]
    strategy: str = ""
    zeros: tuple[Zeros, ...] = ()

    def participants(self) -> tuple[int, ...]:
        """All ranks that a step names, sorted."""
        return tuple(sorted({rank for step in self.steps for rank in ranks_of(step)}))


def ranks_of(step: Step) -> tuple[int, ...]:
    """Ranks that take part in ``step``."""
    return (step.src, step.dst) if isinstance(step, Transfer) else step.ranks


def phases(*groups: Sequence[Step]) -> CommPlan:
    """The plan whose phases follow one another: each step waits for all steps of all phases before."""
    steps: list[Step] = []
    for group in groups:
        before = tuple(range(len(steps)))
        steps += [replace(step, after=before) for step in group]
    return CommPlan(tuple(steps))


def complete(layout: Layout) -> tuple[Collective, ...]:
    """What makes a replicated layout whole when each rank has its own shard: one all-gather, or nothing."""
    if not layout.replicated or len(layout.ranks) == 1:
        return ()
    return (Collective("all_gather", layout.ranks, range(layout.size), cuts=layout.cuts),)


def hand_over(source: Layout, target: Layout) -> CommPlan:
    """Each piece between neighbouring cuts goes from its owner to its owner, unless it is there; replicas follow."""
    sent = [Transfer(src, dst, span) for src, dst, span in overlaps(source, target) if not source.holds(dst, span)]
    return phases(sent, complete(target))


def finished(steps: Sequence[Step], layouts: Sequence[Layout]) -> CommPlan:
    """``steps`` as they are, and after all of them what makes the replicated of ``layouts`` whole."""
    before = tuple(range(len(steps)))
    return CommPlan((*steps, *(replace(step, after=before) for layout in layouts for step in complete(layout))))


def lower_plan(
    plan: CommPlan,
    parties: Sequence[Sequence[int]],
    expand: Callable[[Collective], TransferGraph],
    element_bytes: int = 1,
) -> TransferGraph:
    """The transfers of ``plan``.

    A row waits for those rows of its step's ``after`` steps that share one of its two ranks, for all of them if none
    does. What another that it waits for has waited for itself is left out, so that the predecessors do not outnumber
    the transfers. A step without rows (an empty span, a collective of one) hands on what it waits for.

    Args:
        plan: In elements.
        parties: Ranks of each party; together all that take part.
        expand: The collective algorithm; its spans are in elements too.
        element_bytes: Bytes of one element.

    Raises:
        PlanError: A rank takes part that belongs to no party.
    """
    strangers = set(plan.participants()).difference(*parties)
    if strangers:
        raise PlanError(f"rank {min(strangers)} takes part in the plan and belongs to no party of {list(parties)}")
    rows: list[Row] = []
    waits: list[Sequence[int]] = []
    last: list[Sequence[int]] = []  # of each step: its rows, or those that it hands on
    doors: dict[tuple[int, ...], _Door] = {}
    for step in plan.steps:
        if step.after not in doors:
            doors[step.after] = _Door(rows, waits, [row for number in step.after for row in last[number]])
        door, base = doors[step.after], len(rows)
        own, inner = _rows_of(step, expand, base)
        for row, wait in zip(own, inner, strict=True):
            through = {rank for before in wait for rank in own[before - base][:2]}
            waits.append((*door.before(row, through), *wait))
        last.append(range(len(rows), len(rows) + len(own)) if own else door.rows)
        rows += own
    zeros = [(part.rank, part.span) for part in plan.zeros]
    return graph_of(rows, waits, parties, element_bytes, zeros)


def in_bytes(graph: TransferGraph, element_bytes: int) -> TransferGraph:
    """``graph``, the spans of which are in elements of so many bytes; it zeroes nothing."""
    return replace(graph, start=graph.start * element_bytes, stop=graph.stop * element_bytes)


class _Door:
    """The rows that a step waits for, found by rank; without those that others of the same rank wait for."""

    def __init__(self, known: Sequence[Row], waits: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        self.rows = tuple(sorted(set(rows)))
        ends = {row: known[row][:2] for row in self.rows}
        self._by_rank: dict[int, set[int]] = {}
        for row, ranks in ends.items():
            for rank in ranks:
                self._by_rank.setdefault(rank, set()).add(row)
        awaited = set[int]()
        for row, ranks in ends.items():
            for before in ends.keys() & set(waits[row]):
                awaited.add(before)
                for rank in ranks:
                    if rank in ends[before]:
                        self._by_rank[rank].discard(before)
        self._all = tuple(row for row in self.rows if row not in awaited)

    def before(self, row: Row, through: Set[int]) -> Sequence[int]:
        """What ``row`` waits for, but for what it waits for through rows of its own step that share a rank."""
        ranks = [rank for rank in row[:2] if rank in self._by_rank]
        if not ranks:
            return self._all
        return sorted(set[int]().union(*(self._by_rank[rank] for rank in ranks if rank not in through)))


def _rows_of(
    step: Step, expand: Callable[[Collective], TransferGraph], base: int
) -> tuple[list[Row], list[Sequence[int]]]:
    """Rows of one step, numbered from ``base``, and what each waits for within the step."""
    if not step.span:
        return [], []
    if isinstance(step, Transfer):
        return [(step.src, step.dst, step.span.start, step.span.stop, int(step.add), 1, 0, base, 0, *IDEAL)], [()]
    graph = expand(step)
    columns = {name: getattr(graph, name) for name in COLUMNS} | {"cycle_base": graph.cycle_base + base}
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    return rows, [(graph.predecessors(row) + base).tolist() for row in range(graph.rows)]
