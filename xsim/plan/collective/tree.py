"""Double binary tree: two trees, each with half of the tensor, piece after piece."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import host_order, natural
from xsim.plan.protocol import ProtocolChoice, under
from xsim.spec.checks import at_least, at_most

__all__ = ["Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """Two binary trees, pipelined: who is in the middle of one is a leaf of the other, so every port is in full use.

    Of Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); the
    trees are those of NCCL 2.4. The edges have two colours such that neither the edges into a rank nor those out of it
    share one; a rank sends and receives one piece at a time, the colours taking turns. With K pieces for each tree a
    step takes L + S / (2 K B), for latency L and bandwidth B, and every port is busy for 2 K steps of a broadcast and
    4 K of an all-reduce, a sum up and a broadcast down. Besides, there are the steps to and from the farthest leaf, at
    most 2 per level each way: for n = 2 ** h >= 8 and K >= 4 it is 2 K + 2 h - 1 and 4 K + 4 h - 6 - h % 2 steps. A
    reduce is a broadcast backwards.

    All-gather and reduce-scatter are a ring, an all-to-all is pairs: like NCCL's, these trees have none.

    Attributes:
        pieces: Into how many pieces the half of each tree is cut. Few suit small tensors, many large ones.
        protocol: Of NCCL: what it takes of the wires and waits, see xsim/spec/protocols.yaml. None: ideal wires.
    """

    pieces: int = 16
    protocol: ProtocolChoice = "none"

    def __post_init__(self) -> None:
        at_least(self, "pieces", 1)
        at_most(self, "pieces", 10_000)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        return under(self.protocol, self._transfers(collective, site), site)

    def _transfers(self, collective: Collective, site: Site) -> TransferGraph:
        ranks, order = collective.ranks, host_order(collective.ranks, site.fabric)
        if collective.kind not in {"all_reduce", "broadcast", "reduce"}:
            return natural(collective, site.fabric)
        if len(ranks) == 1 or not collective.span:
            return concatenate((), (ranks,))
        spans = even_pieces(collective.span, min(2 * self.pieces, len(collective.span)))
        halves = spans[: (len(spans) + 1) // 2], spans[(len(spans) + 1) // 2 :]
        if collective.kind == "all_reduce":
            trees = _trees(order)
            return concatenate(list(_rows([*_up(trees, halves), *_down(trees, halves)])), (ranks,))
        root = ranks[collective.root or 0]
        first = order.index(root)
        trees = _trees(order[first + 1 :] + order[:first], root)
        sends = _down(trees, halves)
        return concatenate(list(_rows(sends if collective.kind == "broadcast" else _backwards(sends))), (ranks,))


Parents = Mapping[int, int]  # of each rank of one tree; the root has none


class _Send(NamedTuple):
    """A piece on its way along an edge.

    Attributes:
        turn: Step in which it would start if all pieces were equal.
        piece: (tree, number in it).
    """

    turn: int
    src: int
    dst: int
    piece: tuple[int, int]
    span: range
    add: bool


def _trees(order: Sequence[int], above: int | None = None) -> tuple[Parents, Parents]:
    """Two trees over ``order``, both hung under the rank ``above`` if there is one.

    The second is the first mirrored (an even number of ranks) or shifted by one (an odd number).
    """
    count = len(order)
    second = order[::-1] if count % 2 == 0 else [*order[1:], *order[:1]]
    found = []
    for places in (order, second):
        parents = {places[place]: places[_parent(place, count)] for place in range(1, count)}
        found.append(parents if above is None else {places[0]: above} | parents)
    return found[0], found[1]


def _parent(place: int, count: int) -> int:
    """In NCCL's binary tree over 0..count, whose root is 0 and whose leaves are odd."""
    bit = place & -place
    up = (place ^ bit) | bit << 1
    return up if up < count else place ^ bit


def _up(trees: Sequence[Parents], halves: Sequence[Sequence[range]]) -> list[_Send]:
    """Every child adds to its parent what it and those below it have."""
    colours = _colours(trees)
    found: list[_Send] = []
    for number, parents in enumerate(trees):
        turns: dict[int, int] = {}
        below: defaultdict[int, int] = defaultdict(lambda: -1)  # the last turn in which something reaches a rank
        for child in reversed(_top_down(parents)):
            turns[child] = _next(below[child], colours[number, child])
            below[parents[child]] = max(below[parents[child]], turns[child])
        found += _pipelined(
            number, halves[number], [(t, child, parents[child]) for child, t in turns.items()], add=True
        )
    return sorted(found, key=lambda send: (send.turn, send.src))


def _down(trees: Sequence[Parents], halves: Sequence[Sequence[range]]) -> list[_Send]:
    """Every parent hands on to its children what it has got."""
    colours = _colours(trees)
    found: list[_Send] = []
    for number, parents in enumerate(trees):
        turns: dict[int, int] = {}
        for child in _top_down(parents):
            turns[child] = _next(turns.get(parents[child], -1), colours[number, child])
        found += _pipelined(
            number, halves[number], [(t, parents[child], child) for child, t in turns.items()], add=False
        )
    return sorted(found, key=lambda send: (send.turn, send.src))


def _backwards(sends: Sequence[_Send]) -> list[_Send]:
    """Last turn first, and every transfer the other way, as a sum."""
    return [_Send(sends[-1].turn - turn, dst, src, piece, span, True) for turn, src, dst, piece, span, _ in sends[::-1]]


def _pipelined(
    tree: int, spans: Sequence[range], edges: Sequence[tuple[int, int, int]], *, add: bool
) -> Iterator[_Send]:
    """All pieces over all edges (turn of the first piece, src, dst); each edge has every second turn."""
    for turn, src, dst in edges:
        for number, span in enumerate(spans):
            yield _Send(turn + 2 * number, src, dst, (tree, number), span, add)


def _next(turn: int, colour: int) -> int:
    """The first turn of ``colour`` after ``turn``."""
    return turn + 1 + (turn + 1 + colour) % 2


def _top_down(parents: Parents) -> list[int]:
    """All ranks with a parent, each after its parent."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in parents.items():
        children[parent].append(child)
    found = [child for root in set(children).difference(parents) for child in children[root]]
    for rank in found:
        found += children.get(rank, ())
    return found


def _colours(trees: Sequence[Parents]) -> dict[tuple[int, int], int]:
    """0 or 1 for each edge (tree, child), unlike for two edges that have a child or a parent in common.

    No rank has more than two edges to parents, or more than two to children: the edges form paths and cycles of even
    length, along which the colours alternate.
    """
    meet: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    ends = {(number, child): parent for number, parents in enumerate(trees) for child, parent in parents.items()}
    for edge, parent in ends.items():
        meet["below", edge[1]].append(edge)
        meet["above", parent].append(edge)
    colours: dict[tuple[int, int], int] = {}
    for start in ends:
        colours.setdefault(start, 0)
        stack = [start]
        while stack:
            edge = stack.pop()
            for other in (*meet["below", edge[1]], *meet["above", ends[edge]]):
                if other not in colours:
                    colours[other] = 1 - colours[edge]
                    stack.append(other)
    return colours


def _rows(sends: Sequence[_Send]) -> Iterator[tuple[Rows, Sequence[Sequence[int]]]]:
    """A send waits for the one before it from its source, the one before it to its target, and for its data."""
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    arrived: dict[tuple[int, tuple[int, int]], int] = {}  # the last row that brought (rank, piece)
    for row, send in enumerate(sends):
        before = (sent.get(send.src), received.get(send.dst), arrived.get((send.src, send.piece)))
        yield line(send.src, send.dst, send.span, add=send.add), [sorted({wait for wait in before if wait is not None})]
        sent[send.src] = received[send.dst] = arrived[send.dst, send.piece] = row
