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

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective, CommPlan, ranks_of
from xsim.plan.layout import Layout
from xsim.plan.replay import adversarial_orders, check_order, events_of, waits_of, zeros_of
from xsim.plan.symbols import Holding, Notes
from xsim.plan.unrolled import unroll

__all__ = [
    "EXACT",
    "verify_collective",
    "verify_gather",
    "verify_move",
    "verify_reduce",
    "verify_reduce_scatter",
]

EXACT = 8192
_Fresh = Callable[[Iterable[int], Iterable[int]], Notes]  # the notes before the first event, of edges and vertices


def verify_move(plan: CommPlan | TransferGraph, source: Layout, target: Layout, element_bytes: int = 1) -> None:
    """Every target rank ends with the source's data on what it holds, or PlanError.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [Holding(rank, span) for rank, span in _parts(source, unit)]
    _judge(plan, before, list(_parts(target, unit)), ("the data",))


def verify_reduce(plan: CommPlan | TransferGraph, layouts: Sequence[Layout], element_bytes: int = 1) -> None:
    """Every rank of every layout ends with each layout's contribution once on what it holds, or PlanError.

    The ranks of a replicated layout hold copies of one contribution: that of their group.

    Args:
        element_bytes: Of a graph, whose spans are in bytes.
    """
    unit = element_bytes if isinstance(plan, TransferGraph) else 1
    before = [Holding(rank, span, i) for i, layout in enumerate(layouts) for rank, span in _parts(layout, unit)]
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
    before = [Holding(rank, span, i) for i, layout in enumerate(layouts) for rank, span in _parts(layout, unit)]
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
    before = [Holding(rank, span) for rank, span in _parts(shards, unit)]
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
    pieces = [Holding(*part) for part in own]
    everything = [(rank, whole) for rank in ranks]
    each = [Holding(rank, whole, i) for i, rank in enumerate(ranks)]
    names = tuple(f"rank {rank}" for rank in ranks)
    match collective.kind:
        case "all_reduce":
            _judge(graph, each, everything, names)
        case "reduce_scatter":
            _judge(graph, each, own, names)
        case "all_gather":
            _judge(graph, pieces, everything, ("the data",))
        case "broadcast":
            _judge(graph, [Holding(root, whole)], everything, ("the data",))
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
    before: Sequence[Holding],
    after: Sequence[tuple[int, range]],
    contributions: Sequence[str],
) -> None:
    zeros = zeros_of(plan)
    spans = [holding.span for holding in before] + [span for _, span in (*after, *zeros)]
    ranks = [holding.rank for holding in before] + [rank for rank, _ in (*after, *zeros)]

    def fresh(edges: Iterable[int], vertices: Iterable[int]) -> Notes:
        known = chain.from_iterable((span.start, span.stop) for span in spans)
        return Notes([*known, *edges], [*ranks, *vertices], before, zeros, len(contributions), _switches(plan))

    for notes in _ends(plan, fresh):
        for rank, span in after:
            notes.expect_all_once(rank, span, contributions)


def _ends(plan: CommPlan | TransferGraph, fresh: _Fresh) -> Iterator[Notes]:
    """What the notes say in the end, after each order in which the events may happen."""
    if isinstance(plan, TransferGraph) and int(plan.rounds.sum()) > EXACT:
        yield from _ends_of_graph(plan, fresh)
        return
    events = events_of(plan)
    orders: Iterable[Sequence[int]] = [range(len(events))]
    if len(events) <= EXACT:
        check_order(events)
    else:
        orders = (order.tolist() for order in adversarial_orders(*waits_of(events)))
    spans = {write.span for event in events for write in event.writes}
    edges = [edge for span in spans for edge in (span.start, span.stop)]
    vertices = {rank for event in events for rank in ranks_of(event.step)}
    for order in orders:
        notes = fresh(edges, vertices)
        for number in order:
            notes.perform(events[number])
        yield notes


def _ends_of_graph(graph: TransferGraph, fresh: _Fresh) -> Iterator[Notes]:
    """The same of a graph of many events, which are not made one by one."""
    unrolled = unroll(graph)
    full = graph.start < graph.stop
    edges = np.unique(np.concatenate([graph.start[full], graph.stop[full]])).tolist()
    vertices = np.unique(np.concatenate([graph.src, graph.dst])).tolist()
    for order in adversarial_orders(unrolled.ptr, unrolled.waits):
        notes = fresh(edges, vertices)
        unrolled.perform(order, notes)
        yield notes


def _switches(plan: CommPlan | TransferGraph) -> frozenset[int]:
    """Vertices that are no ranks."""
    if isinstance(plan, CommPlan):
        return frozenset()
    return frozenset({*plan.src.tolist(), *plan.dst.tolist()}.difference(plan.ranks.tolist()))
