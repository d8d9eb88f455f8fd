"""What several collective algorithms are made of: orders of ranks, rings, and transfers step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line, ring
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.layout import Layout, even_pieces, pieces

__all__ = ["Steps", "by_host", "chain", "cycle", "host_order", "natural", "units"]


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


def units(hosts: Sequence[tuple[int, ...]], span: range) -> Iterator[tuple[tuple[int, ...], range]]:
    """(the rank of each host whose share it is in, unit), for the units between the ends of any host's shares.

    The ranks of a host have even shares of ``span``.
    """
    layouts = [Layout.even(host, len(span)) for host in hosts]
    for unit in pieces(cut for layout in layouts for cut in layout.cuts):
        owners = tuple(layout.owner(unit.start) for layout in layouts)
        yield owners, range(span.start + unit.start, span.start + unit.stop)


def cycle(kind: CollectiveKind, order: Sequence[int], spans: Sequence[range]) -> Rows:
    """One implicit ring over ``order`` for an all-gather, reduce-scatter or all-reduce; ``order[i]`` has ``spans[i]``.

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


def chain(
    collective: Collective, order: Sequence[int], cut: Sequence[range], base: int = 0
) -> Iterator[tuple[Rows, Sequence[Sequence[int]]]]:
    """A broadcast or a reduce along ``order``, a ring of ranks, from the root or to it: the parts of a graph.

    One piece of ``cut`` after the other goes down the chain, where everybody passes it on or adds it to his own. With
    K pieces and n ranks, latency L and bandwidth B, S takes (K + n - 2) (L + S / K B).

    Args:
        base: Number of the first row.
    """
    add = collective.kind == "reduce"
    first = order.index(collective.ranks[collective.root or 0]) + add  # the root begins a broadcast and ends a reduce
    walk = [*order[first:], *order[:first]]
    for hop, (src, dst) in enumerate(pairwise(walk)):
        for number, piece in enumerate(cut):
            row = base + hop * len(cut) + number
            waits = [row - len(cut)] * (hop > 0) + [row - 1] * (number > 0)
            yield line(src, dst, piece, add=add), [waits]


def natural(collective: Collective, fabric: Fabric) -> TransferGraph:
    """Any kind as it is done where an algorithm has no way of its own.

    An all-reduce, all-gather or reduce-scatter is one ring in ``host_order``, a broadcast or a reduce a chain of 8
    pieces. A send-receive is one step. An all-to-all of n ranks is n - 1 steps: in step d everybody sends to the d-th
    after it, and waits until it has sent and received; it fills every port, with one transfer at a time (the pairwise
    exchange of MPICH: Thakur, Rabenseifner and Gropp 2005). With latency L and bandwidth B, S takes
    (n - 1) (L + S / n^2 B).
    """
    ranks, steps = collective.ranks, Steps()
    match collective.kind:
        case "broadcast" | "reduce":
            cut = even_pieces(collective.span, min(8, len(collective.span))) if collective.span else []
            return concatenate(list(chain(collective, host_order(ranks, fabric), cut)), (ranks,))
        case "all_to_all":
            blocks = collective.blocks()
            for distance in range(1, len(ranks)):
                targets = [(place + distance) % len(ranks) for place in range(len(ranks))]
                steps.add(line(ranks[src], ranks[dst], blocks[src][dst]) for src, dst in enumerate(targets))
        case "send_recv":
            sends = zip(ranks, [*ranks[1:], ranks[0]], collective.pieces(), strict=True)
            steps.add(line(src, dst, piece) for src, dst, piece in sends if src != dst)
        case kind:
            own, order = dict(zip(ranks, collective.pieces(), strict=True)), host_order(ranks, fabric)
            steps.add([cycle(kind, order, [own[rank] for rank in order])])
    return steps.graph(ranks)


class Steps:
    """Transfers under construction, one step after the other.

    A transfer waits until both of its ranks have sent and received all that they had in earlier steps. So two
    transfers of different steps never meet out of order; within a step, the algorithm sees to it.

    Where a rank had many transfers in a step, an empty one to itself, which costs nothing, gathers them: what waits is
    then linear in the transfers.

    Args:
        switches: Vertices that are no ranks: they send nothing to themselves.
    """

    _FEW = 4

    def __init__(self, switches: Container[int] = ()) -> None:
        self._switches = switches
        self._parts: list[tuple[Rows, Sequence[Sequence[int]]]] = []
        self._count = 0
        self._last: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, moves: Iterable[Rows]) -> None:
        """All ``moves`` at once: plain transfers and whole rings. Those that move nothing are left out."""
        kept = [move for move in moves if move.rounds and any(move.spans)]
        for rank in sorted({rank for move in kept for rank in (*move.src, *move.dst)}):
            if len(self._last[rank]) > self._FEW and rank not in self._switches:
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
