"""Recursive halving and doubling: exchanges with partners at doubling distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xsim.fabric.transfers import TransferGraph, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import Steps, host_order, natural

__all__ = ["HalvingDoubling"]


@dataclass(frozen=True, slots=True)
class HalvingDoubling:
    """Recursive halving sums, recursive doubling spreads: log2(n) exchanges each, with ever fewer or more pieces.

    Of Rabenseifner, "Optimization of Collective Reduction Operations" (2004), as in MPICH (Thakur, Rabenseifner and
    Gropp 2005). For n a power of two, latency L and bandwidth B an all-reduce of S takes
    2 log2(n) L + 2 (n - 1) / n S / B, its two halves half of that each; a broadcast, a scatter along a binomial tree
    followed by the doubling, as much as an all-reduce, and so does a reduce, the halving followed by a gather along
    that tree.

    Otherwise the largest power of two takes part. Each of the e excess ranks has one of the first e of these as its
    partner, to whom it gives what it has before (L + S / B for a sum), and who gives it the result after.

    An all-reduce starts with the nearest partners, so that the largest pieces stay inside hosts. Where every rank has
    its own piece the order is that of the pieces. An all-to-all is n - 1 steps of pairs.
    """

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        ranks, steps = collective.ranks, Steps()
        match collective.kind:
            case "all_reduce":
                _all_reduce(steps, host_order(ranks, site.fabric), collective.span)
            case "reduce_scatter":
                _reduce_scatter(steps, ranks, collective.pieces())
            case "all_gather":
                _all_gather(steps, ranks, collective.pieces())
            case "broadcast":
                order = host_order(ranks, site.fabric)
                first = order.index(ranks[collective.root or 0])
                _broadcast(steps, order[first:] + order[:first], collective.span)
            case "reduce":
                order = host_order(ranks, site.fabric)
                first = order.index(ranks[collective.root or 0])
                _reduce(steps, order[first:] + order[:first], collective.span)
            case _:
                return natural(collective, site.fabric)
        return steps.graph(ranks)


@dataclass(frozen=True, slots=True)
class _Core:
    """Those that take part in the exchanges: of the first 2 e ranks every second one, and all others.

    Attributes:
        ranks: As many as a power of two.
        excess: (member of the core, its excess rank), e times.
    """

    ranks: tuple[int, ...]
    excess: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, order: Sequence[int]) -> _Core:
        paired = 2 * (len(order) - (1 << (len(order).bit_length() - 1)))
        core = (*order[:paired:2], *order[paired:])
        return cls(core, tuple(zip(order[:paired:2], order[1:paired:2], strict=True)))

    def near_first(self) -> list[int]:
        """Distances of partners: 1, 2, 4, ..."""
        return [1 << k for k in range(len(self.ranks).bit_length() - 1)]

    def blocks(self, pieces: Sequence[range]) -> list[range]:
        """Of each member its piece, together with that of its excess rank, which is the next one."""
        paired = 2 * len(self.excess)
        joined = [range(a.start, b.stop) for a, b in zip(pieces[:paired:2], pieces[1:paired:2], strict=True)]
        return [*joined, *pieces[paired:]]


def _all_reduce(steps: Steps, order: Sequence[int], span: range) -> None:
    core = _Core.of(order)
    blocks = even_pieces(span, len(core.ranks))
    steps.add(line(rank, partner, span, add=True) for partner, rank in core.excess)
    held = _halve(steps, core, blocks, core.near_first())
    _double(steps, core, blocks, held, reversed(core.near_first()))
    steps.add(line(partner, rank, span) for partner, rank in core.excess)


def _reduce_scatter(steps: Steps, order: Sequence[int], pieces: Sequence[range]) -> None:
    core = _Core.of(order)
    whole = range(pieces[0].start, pieces[-1].stop)
    steps.add(line(rank, partner, whole, add=True) for partner, rank in core.excess)
    _halve(steps, core, core.blocks(pieces), reversed(core.near_first()))
    own = dict(zip(order, pieces, strict=True))
    steps.add(line(partner, rank, own[rank]) for partner, rank in core.excess)


def _all_gather(steps: Steps, order: Sequence[int], pieces: Sequence[range]) -> None:
    core = _Core.of(order)
    own = dict(zip(order, pieces, strict=True))
    steps.add(line(rank, partner, own[rank]) for partner, rank in core.excess)
    _double(steps, core, core.blocks(pieces), _one_each(core), core.near_first())
    whole = range(pieces[0].start, pieces[-1].stop)
    steps.add(line(partner, rank, whole) for partner, rank in core.excess)


def _broadcast(steps: Steps, order: Sequence[int], span: range) -> None:
    """``order`` begins with the root, which halves what it has, as does everybody to whom it gave something."""
    core = _Core.of(order)
    blocks = even_pieces(span, len(core.ranks))
    for distance in reversed(core.near_first()):
        steps.add(
            line(
                core.ranks[place],
                core.ranks[place + distance],
                _span(blocks, range(place + distance, place + 2 * distance)),
            )
            for place in range(0, len(blocks), 2 * distance)
        )
    _double(steps, core, blocks, _one_each(core), core.near_first())
    steps.add(line(partner, rank, span) for partner, rank in core.excess)


def _reduce(steps: Steps, order: Sequence[int], span: range) -> None:
    """``order`` begins with the root, to whom comes what everybody has summed: a broadcast backwards."""
    core = _Core.of(order)
    blocks = even_pieces(span, len(core.ranks))
    steps.add(line(rank, partner, span, add=True) for partner, rank in core.excess)
    _halve(steps, core, blocks, reversed(core.near_first()))
    for distance in core.near_first():
        steps.add(
            line(
                core.ranks[place + distance],
                core.ranks[place],
                _span(blocks, range(place + distance, place + 2 * distance)),
            )
            for place in range(0, len(blocks), 2 * distance)
        )


def _halve(steps: Steps, core: _Core, blocks: Sequence[range], distances: Iterable[int]) -> list[range]:
    """Partners share the blocks for which both are responsible: each keeps one half and adds to the other's.

    Returns:
        The one block, as a range of block numbers, that is left to each.
    """
    held = [range(len(blocks))] * len(blocks)
    for distance in distances:
        halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in held]
        keep = [half[bool(place & distance)] for place, half in enumerate(halves)]
        steps.add(
            line(core.ranks[place], core.ranks[place ^ distance], _span(blocks, keep[place ^ distance]), add=True)
            for place in range(len(blocks))
        )
        held = keep
    return held


def _double(
    steps: Steps, core: _Core, blocks: Sequence[range], held: Sequence[range], distances: Iterable[int]
) -> None:
    """Partners give each other the neighbouring blocks that they hold."""
    for distance in distances:
        steps.add(
            line(core.ranks[place], core.ranks[place ^ distance], _span(blocks, held[place]))
            for place in range(len(blocks))
        )
        pairs = [
            sorted((held[place], held[place ^ distance]), key=lambda each: each.start) for place in range(len(blocks))
        ]
        held = [range(first.start, second.stop) for first, second in pairs]


def _one_each(core: _Core) -> list[range]:
    return [range(place, place + 1) for place in range(len(core.ranks))]


def _span(blocks: Sequence[range], numbers: range) -> range:
    return range(blocks[numbers.start].start, blocks[numbers.stop - 1].stop)
