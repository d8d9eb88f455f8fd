"""Double binary tree: two trees, each with half of the tensor, piece after piece."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.transfers import PAYLOAD_PPM, TransferGraph, concatenate
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

    pieces: int = 16  # our choice
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
        half = (len(spans) + 1) // 2
        halves = range(half), range(half, len(spans))
        if collective.kind == "all_reduce":
            trees = _trees(order)
            return _graph(_then(_up(trees, halves), _down(trees, halves)), spans, ranks)
        root = ranks[collective.root or 0]
        first = order.index(root)
        trees = _trees(order[first + 1 :] + order[:first], root)
        sends = _down(trees, halves)
        return _graph(sends if collective.kind == "broadcast" else _backwards(sends), spans, ranks)


Parents = Mapping[int, int]  # of each rank of one tree; the root has none


Ints = NDArray[np.int64]


class _Sends(NamedTuple):
    """Pieces on their way along edges, in columns of length N.

    Attributes:
        piece: Its number; those of the first tree come first.
        add: 1 if the receiver adds, 0 if it overwrites.
    """

    src: Ints
    dst: Ints
    piece: Ints
    add: Ints


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


def _up(trees: Sequence[Parents], halves: Sequence[range]) -> _Sends:
    """Every child adds to its parent what it and those below it have."""
    colours = _colours(trees)
    edges: list[list[tuple[int, int, int]]] = []
    for number, parents in enumerate(trees):
        turns: dict[int, int] = {}
        below: defaultdict[int, int] = defaultdict(lambda: -1)  # the last turn in which something reaches a rank
        for child in reversed(_top_down(parents)):
            turns[child] = _next(below[child], colours[number, child])
            below[parents[child]] = max(below[parents[child]], turns[child])
        edges.append([(turn, child, parents[child]) for child, turn in turns.items()])
    return _pipelined(edges, halves, add=1)


def _down(trees: Sequence[Parents], halves: Sequence[range]) -> _Sends:
    """Every parent hands on to its children what it has got."""
    colours = _colours(trees)
    edges: list[list[tuple[int, int, int]]] = []
    for number, parents in enumerate(trees):
        turns: dict[int, int] = {}
        for child in _top_down(parents):
            turns[child] = _next(turns.get(parents[child], -1), colours[number, child])
        edges.append([(turn, parents[child], child) for child, turn in turns.items()])
    return _pipelined(edges, halves, add=0)


def _pipelined(edges: Sequence[Sequence[tuple[int, int, int]]], halves: Sequence[range], *, add: int) -> _Sends:
    """All pieces of each tree over all its edges, turn by turn, in which each edge has every second.

    Args:
        edges: Of each tree, the turn in which the first piece would start if all pieces were equal, src and dst.
        halves: Of each tree, the numbers of its pieces.
    """
    columns = []
    for own, pieces in zip(edges, halves, strict=True):
        turn, src, dst = np.array(own, dtype=np.int64).T[:, :, np.newaxis]
        later = np.arange(len(pieces))
        columns.append(np.stack(np.broadcast_arrays(turn + 2 * later, src, dst, pieces.start + later)).reshape(4, -1))
    turn, src, dst, piece = np.concatenate(columns, axis=1)
    order = np.lexsort((src, turn))
    return _Sends(src[order], dst[order], piece[order], np.full(len(order), add))


def _then(first: _Sends, second: _Sends) -> _Sends:
    return _Sends(*map(np.concatenate, zip(first, second, strict=True)))


def _backwards(sends: _Sends) -> _Sends:
    """Last turn first, and every transfer the other way, as a sum."""
    src, dst, piece, add = (column[::-1] for column in sends)
    return _Sends(dst, src, piece, np.ones_like(add))


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


def _graph(sends: _Sends, spans: Sequence[range], ranks: tuple[int, ...]) -> TransferGraph:
    """A send waits for the one before it from its source, the one before it to its target, and for its data."""
    src, dst, piece, add = sends
    rows, nothing = len(src), np.zeros_like(src)
    edges = np.array([(span.start, span.stop) for span in spans])[piece]
    data = (place * len(spans) + piece for place in (dst, src))  # what a send brings, and what it must have
    waits = np.sort((_last(src, src), _last(dst, dst), _last(*data)), axis=0).T
    kept = np.diff(waits, axis=1, prepend=-1) > 0  # neither none nor twice the same
    return TransferGraph(
        src=src,
        dst=dst,
        start=edges[:, 0],
        stop=edges[:, 1],
        add=add,
        rounds=np.ones_like(src),
        add_rounds=nothing,
        cycle_base=np.arange(rows),
        cycle_len=nothing,
        delay_ps=nothing,
        wire_ppm=np.full(rows, PAYLOAD_PPM),
        pred_ptr=np.cumsum([0, *kept.sum(axis=1)]),
        pred=waits[kept],
        ranks=np.array(sorted(ranks)),
        party=np.zeros(len(ranks), dtype=np.int64),
        parties=1,
    )


def _last(given: Ints, wanted: Ints) -> Ints:
    """Of each row, the last row before it whose ``given`` is its ``wanted``; -1 without. Both are of length N."""
    rows = np.arange(len(given))
    known = np.sort(given * len(given) + rows)
    place = np.searchsorted(known, wanted * len(given) + rows) - 1
    value, row = np.divmod(known[place], len(given))
    return np.where((place >= 0) & (value == wanted), row, -1)
