"""What several collective algorithms are made of: orders of ranks, rings, and transfers step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line, ring
from xsim.plan.comm import CollectiveKind
from xsim.plan.layout import even_cuts

__all__ = ["Steps", "by_host", "cycle", "even_pieces", "host_order"]


def by_host(ranks: Iterable[int], fabric: Fabric) -> list[tuple[int, ...]]:
    """``ranks`` of each host, sorted, hosts in order."""
    ordered = sorted(ranks, key=lambda rank: (fabric.hosts[rank], rank))
    return [tuple(members) for _, members in groupby(ordered, key=lambda rank: fabric.hosts[rank])]


def host_order(ranks: Iterable[int], fabric: Fabric, channel: int = 0, channels: int = 1) -> tuple[int, ...]:
    """``ranks`` host by host, so that a ring of h > 1 hosts leaves a host h times, the fewest there can be.

    Every second host is walked backwards: the ring enters a host at the end where it left the one before, which keeps
    the crossing on its rail when hosts are alike.

    Args:
        channel, channels: The walk through a host of m ranks is rotated by channel * m // channels of them, so that
            the orders of several channels cross at different ranks.
    """
    order: list[int] = []
    for number, members in enumerate(by_host(ranks, fabric)):
        first = channel * len(members) // channels
        walk = members[first:] + members[:first]
        order += reversed(walk) if number % 2 else walk
    return tuple(order)


def even_pieces(span: range, count: int) -> list[range]:
    """``span`` in ``count`` pieces as even as can be; some are empty if it is too short."""
    cuts = even_cuts(len(span), count)
    return [range(span.start + start, span.start + stop) for start, stop in pairwise(cuts)]


def cycle(kind: CollectiveKind, order: Sequence[int], spans: Sequence[range]) -> Rows:
    """One implicit ring over ``order``, for any kind but a broadcast; ``spans[i]`` belongs to ``order[i]``.

    A row starts with the piece of its own rank, and with the one before's to leave sums at home: a piece that starts
    at row p has passed every other rank after n - 1 rounds and lies on the rank before p.
    """
    rounds = len(order) - 1
    match kind:
        case "all_gather":
            return ring(order, spans, rounds=rounds, add_rounds=0)
        case "reduce_scatter":
            return ring(order, [spans[-1], *spans[:-1]], rounds=rounds, add_rounds=rounds)
        case _:
            return ring(order, spans, rounds=2 * rounds, add_rounds=rounds)


class Steps:
    """Transfers under construction, one step after the other.

    A transfer waits until both of its ranks have sent and received all that they had in earlier steps. So two
    transfers of different steps never meet out of order; within a step, the algorithm sees to it.

    Where a rank had many transfers in a step, an empty one to itself, which costs nothing, gathers them: what waits is
    then linear in the transfers.
    """

    _FEW = 4

    def __init__(self) -> None:
        self._parts: list[tuple[Rows, Sequence[Sequence[int]]]] = []
        self._count = 0
        self._last: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, moves: Iterable[Rows]) -> None:
        """All ``moves`` at once: plain transfers and whole rings. Those that move nothing are left out."""
        kept = [move for move in moves if move.rounds and any(move.spans)]
        for rank in sorted({rank for move in kept for rank in (*move.src, *move.dst)}):
            if len(self._last[rank]) > self._FEW:
                self._last[rank] = [self._append(line(rank, rank, range(0)), [self._last[rank]])]
        touched: defaultdict[int, list[int]] = defaultdict(list)
        for move in kept:
            ends = list(zip(move.src, move.dst, strict=True))
            row = self._append(move, [sorted({*self._last[src], *self._last[dst]}) for src, dst in ends])
            for number, (src, dst) in enumerate(ends, start=row):
                touched[src].append(number)
                touched[dst].append(number)
        self._last.update(touched)

    def graph(self, ranks: Sequence[int]) -> TransferGraph:
        """What was added, as one party of ``ranks``."""
        return concatenate(self._parts, (ranks,))

    def _append(self, rows: Rows, waits: Sequence[Sequence[int]]) -> int:
        """The number of the first of ``rows``."""
        first = self._count
        self._parts.append((rows, waits))
        self._count += len(rows)
        return first
