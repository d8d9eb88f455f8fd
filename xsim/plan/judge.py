"""The judge: executes any plan on symbols, and says whether everybody ends with the right data.

The tensor is cut at every boundary that a step or a layout mentions. For each (rank, piece) the judge notes a multiset
of whose contribution lies there: counts, where 2 stands for "more than once". A transfer overwrites the receiver's note
with the sender's, or adds to it; a collective does what its name says. Nobody may send, or add to, what was never
written; the zeros of a plan are written, and count for nothing. At the end each rank must hold each contribution
exactly once on its own part. A switch has no memory: it adds up what it is sent and gives the sum to one rank, or it
gives what one rank has sent it to many.

A plan may not rely on luck: two events that do not wait for each other must not touch the same (rank, piece) in
conflict. Up to ``EXACT`` events that is proven by ancestor sets; beyond, the plan is executed in several adversarial
orders.

A ``CommPlan`` is judged as its steps say: a step waits for all of its ``after``. Its lowered form waits for less, and
is judged as a graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective, CommPlan
from xsim.plan.layout import Layout
from xsim.plan.replay import Event, Write, adversarial_orders, check_order, events_of, zeros_of

__all__ = [
    "EXACT",
    "verify_collective",
    "verify_gather",
    "verify_move",
    "verify_reduce",
    "verify_reduce_scatter",
]

EXACT = 8192


@dataclass(frozen=True, slots=True)
class _Holding:
    """``rank`` has ``contribution`` on ``span`` before the first event."""

    rank: int
    span: range
    contribution: int = 0


def verify_move(plan: CommPlan | TransferGraph, source: Layout, target: Layout, element_bytes: int = 1) -> None:
    """Every target rank ends with the source's data on what it holds, or PlanError.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [_Holding(rank, span) for rank, span in _parts(source, unit)]
    _judge(plan, before, list(_parts(target, unit)), ("the data",))


def verify_reduce(plan: CommPlan | TransferGraph, layouts: Sequence[Layout], element_bytes: int = 1) -> None:
    """Every rank of every layout ends with each layout's contribution once on what it holds, or PlanError.

    The ranks of a replicated layout hold copies of one contribution: that of their group.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [_Holding(rank, span, i) for i, layout in enumerate(layouts) for rank, span in _parts(layout, unit)]
    after = [part for layout in layouts for part in _parts(layout, unit)]
    _judge(plan, before, after, tuple(f"layouts[{i}]" for i in range(len(layouts))))


def verify_reduce_scatter(
    plan: CommPlan | TransferGraph, layouts: Sequence[Layout], shards: Layout, element_bytes: int = 1
) -> None:
    """Every rank ends with each layout's contribution once on its shard, which lies in what it holds, or PlanError.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    _check_shards(layouts, shards)
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [_Holding(rank, span, i) for i, layout in enumerate(layouts) for rank, span in _parts(layout, unit)]
    _judge(plan, before, list(_parts(shards, unit)), tuple(f"layouts[{i}]" for i in range(len(layouts))))


def verify_gather(
    plan: CommPlan | TransferGraph, shards: Layout, layouts: Sequence[Layout], element_bytes: int = 1
) -> None:
    """Every rank of every layout ends with the data of the shards on what it holds, or PlanError.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    _check_shards(layouts, shards)
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [_Holding(rank, span) for rank, span in _parts(shards, unit)]
    _judge(plan, before, [part for layout in layouts for part in _parts(layout, unit)], ("the data",))


def _check_shards(layouts: Sequence[Layout], shards: Layout) -> None:
    """PlanError unless every shard lies in what its rank holds."""
    for rank, span in shards.shards():
        if span and not any(layout.holds(rank, span) for layout in layouts):
            raise PlanError(f"rank {rank} has the shard {span} and does not hold all of it")


def verify_collective(graph: TransferGraph, collective: Collective, element_bytes: int = 1) -> None:
    """``graph`` does what ``collective`` says, or PlanError.

    Args:
        element_bytes: What the spans of the collective are multiplied by to give those of the graph.
    """
    ranks, whole = collective.ranks, _times(collective.span, element_bytes)
    root = ranks[collective.root or 0]
    own = [(rank, _times(piece, element_bytes)) for rank, piece in zip(ranks, collective.pieces(), strict=True)]
    pieces = [_Holding(*part) for part in own]
    everything = [(rank, whole) for rank in ranks]
    each = [_Holding(rank, whole, i) for i, rank in enumerate(ranks)]
    names = tuple(f"rank {rank}" for rank in ranks)
    match collective.kind:
        case "all_reduce":
            _judge(graph, each, everything, names)
        case "reduce_scatter":
            _judge(graph, each, own, names)
        case "all_gather":
            _judge(graph, pieces, everything, ("the data",))
        case "broadcast":
            _judge(graph, [_Holding(root, whole)], everything, ("the data",))
        case "reduce":
            _judge(graph, each, [(root, whole)], names)
        case "all_to_all":
            columns = zip(ranks, zip(*collective.blocks(), strict=True), strict=True)
            after = [(rank, _times(block, element_bytes)) for rank, column in columns for block in column]
            _judge(graph, pieces, after, ("the data",))
        case "send_recv":
            shifted = [(rank, piece) for rank, (_, piece) in zip(ranks, [own[-1], *own[:-1]], strict=True)]
            _judge(graph, pieces, shifted, ("the data",))


def _parts(layout: Layout, unit: int) -> Iterator[tuple[int, range]]:
    for index, rank in enumerate(layout.ranks):
        yield rank, _times(layout.held(index), unit)


def _times(span: range, unit: int) -> range:
    return range(span.start * unit, span.stop * unit)


def _judge(
    plan: CommPlan | TransferGraph,
    before: Sequence[_Holding],
    after: Sequence[tuple[int, range]],
    contributions: Sequence[str],
) -> None:
    events, zeros = events_of(plan), zeros_of(plan)
    orders: Sequence[Sequence[int]] = [range(len(events))]
    if len(events) <= EXACT:
        check_order(events)
    else:
        orders = adversarial_orders(events)
    for order in orders:
        notes = _Notes(events, before, after, zeros, len(contributions), _switches(plan))
        for number in order:
            notes.perform(events[number])
        for rank, span in after:
            notes.expect_all_once(rank, span, contributions)


def _switches(plan: CommPlan | TransferGraph) -> frozenset[int]:
    """Vertices that are no ranks."""
    if isinstance(plan, CommPlan):
        return frozenset()
    return frozenset({*plan.src.tolist(), *plan.dst.tolist()}.difference(plan.ranks.tolist()))


class _Switch:
    """Of each piece at a switch, how many values are in the sum there, and whether it was given to somebody."""

    def __init__(self, pieces: int) -> None:
        self._values = np.zeros(pieces, dtype=np.int64)
        self._given = np.zeros(pieces, dtype=np.bool_)

    def give(self, pieces: slice) -> bool:
        """Somebody reads; False if that is a sum of several values that was read before."""
        gone = (self._values[pieces] > 1) & self._given[pieces]
        self._given[pieces] = True
        return not gone.any()

    def take(self, pieces: slice) -> NDArray[np.bool_]:
        """Somebody adds; which of the pieces begin anew with it."""
        given = self._given[pieces].copy()
        self._values[pieces] = np.where(given, 1, self._values[pieces] + 1)
        self._given[pieces] = False
        return given


class _Notes:
    """Whose contribution lies where: ``counts[rank][piece, contribution]`` is 0, 1 or 2.

    The last column stands for zeros: something that is there, and of which it does not matter how often.
    """

    def __init__(
        self,
        events: Sequence[Event],
        before: Sequence[_Holding],
        after: Sequence[tuple[int, range]],
        zeros: Sequence[tuple[int, range]],
        contributions: int,
        switches: frozenset[int],
    ) -> None:
        spans = [write.span for event in events for write in event.writes]
        spans += [holding.span for holding in before] + [span for _, span in (*after, *zeros)]
        self._cuts = sorted({edge for span in spans for edge in (span.start, span.stop)})
        self._piece = {cut: i for i, cut in enumerate(self._cuts)}
        ranks = {rank for event in events for write in event.writes for rank in (write.rank, *write.sources)}
        ranks |= {holding.rank for holding in before} | {rank for rank, _ in (*after, *zeros)}
        self._width = contributions + 1
        shape = (len(self._cuts), self._width)
        self._counts: dict[int, NDArray[np.uint8]] = {rank: np.zeros(shape, dtype=np.uint8) for rank in ranks}
        self._written = {rank: np.zeros(len(self._cuts), dtype=np.bool_) for rank in ranks}
        self._switches = {switch: _Switch(len(self._cuts)) for switch in switches}
        for holding in before:
            self._at(holding.rank, holding.span)[:, holding.contribution] = 1
        for rank, span in zeros:
            self._at(rank, span)[:] = [0] * contributions + [1]
        for rank, span in (*((holding.rank, holding.span) for holding in before), *zeros):
            self._written[rank][self._pieces(span)] = True

    def perform(self, event: Event) -> None:
        """All writes of the event at once, from what was there before it."""
        values = []
        for write in event.writes:
            pieces = self._pieces(write.span)
            rows = (*write.sources, write.rank) if write.add else write.sources
            for rank in rows if write.rank not in self._switches else write.sources:
                if not self._written[rank][pieces].all():
                    self._complain(rank, write.span, event)
            if self._switches:
                self._mind_switches(write, event)
            values.append((pieces, self._sum(rows, pieces)))
        for write, (pieces, value) in zip(event.writes, values, strict=True):
            self._counts[write.rank][pieces] = value
            self._written[write.rank][pieces] = bool(write.sources) or write.add

    def _sum(self, ranks: Sequence[int], pieces: slice) -> NDArray[np.uint8]:
        """What ``ranks`` have there together; nothing if there are none."""
        total = np.zeros((pieces.stop - pieces.start, self._width), dtype=np.uint8)
        for rank in ranks:
            total += self._counts[rank][pieces]
            np.minimum(total, 2, out=total)
        return total

    def _mind_switches(self, write: Write, event: Event) -> None:
        """PlanError if a switch is asked for what it cannot do; what it has given makes room for what comes now."""
        pieces = self._pieces(write.span)
        for source in write.sources:
            if source in self._switches and not self._switches[source].give(pieces):
                raise PlanError(f"{event.name}: {event.what} reads a sum that the switch has given to another")
        if write.rank in self._switches:
            if not write.add:
                raise PlanError(f"{event.name}: {event.what} overwrites what a switch has; it can only add")
            given = self._switches[write.rank].take(pieces)
            self._at(write.rank, write.span)[given] = 0
            self._written[write.rank][pieces] &= ~given

    def expect_all_once(self, rank: int, span: range, contributions: Sequence[str]) -> None:
        """PlanError unless ``rank`` holds each contribution exactly once all over ``span``."""
        for piece, contribution in np.argwhere(self._at(rank, span)[:, :-1] != 1)[:1]:
            found = self._at(rank, span)[piece, contribution]
            element = self._cuts[self._piece[span.start] + piece]
            times = "more than once" if found else "not at all"
            raise PlanError(f"at the end rank {rank} has {contributions[contribution]} {times} in element {element}")

    def _complain(self, rank: int, span: range, event: Event) -> NoReturn:
        """PlanError that names the first element of ``span`` that was never written."""
        element = self._cuts[self._piece[span.start] + int(self._written[rank][self._pieces(span)].argmin())]
        raise PlanError(f"{event.name}: rank {rank} does not hold element {element} for {event.what}")

    def _at(self, rank: int, span: range) -> NDArray[np.uint8]:
        return self._counts[rank][self._pieces(span)]

    def _pieces(self, span: range) -> slice:
        return slice(self._piece[span.start], self._piece[span.stop])
