"""Who holds which part of a tensor. Sizes are in elements; a tensor is one-dimensional here."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from xsim.errors import PlanError
from xsim.spec.shares import share_cuts

__all__ = ["Layout", "even_cuts", "even_pieces", "overlaps", "pieces"]


def even_cuts(size: int, parts: int) -> tuple[int, ...]:
    """Boundaries of ``parts`` pieces as even as can be: ``i * size // parts``."""
    return share_cuts(size, parts)


def even_pieces(span: range, count: int) -> list[range]:
    """``span`` in ``count`` pieces as even as can be; some are empty if it is too short."""
    cuts = even_cuts(len(span), count)
    return [range(span.start + start, span.start + stop) for start, stop in pairwise(cuts)]


def pieces(cuts: Iterable[int]) -> tuple[range, ...]:
    """What lies between neighbouring ``cuts``, which may repeat and come in any order; no piece is empty.

    >>> pieces((0, 2, 4, 0, 3, 4))
    (range(0, 2), range(2, 3), range(3, 4))
    """
    return tuple(range(start, stop) for start, stop in pairwise(sorted(set(cuts))))


@dataclass(frozen=True, slots=True)
class Layout:
    """Contiguous shards of ``0..size`` over ``ranks``: rank i holds ``cuts[i]..cuts[i + 1]``.

    Attributes:
        ranks: Holders in tensor order.
        cuts: Boundaries, one more than ranks, from 0 to size; equal neighbours are an empty shard.
        replicated: Every rank holds the whole; ``cuts`` then say who sends which part.
        layers: Of how many transformer layers the parameters lie in it; 0 for those of none, as a token table.
    """

    ranks: tuple[int, ...]
    cuts: tuple[int, ...]
    replicated: bool = False
    layers: int = 1

    def __post_init__(self) -> None:
        if len(self.cuts) != len(self.ranks) + 1 or self.cuts[0] != 0 or len(set(self.ranks)) != len(self.ranks):
            raise PlanError(f"a layout of {len(self.ranks)} distinct ranks needs one cut more, from 0: {self}")
        if any(a > b for a, b in pairwise(self.cuts)):
            raise PlanError(f"cuts must not fall: {self}")

    @classmethod
    def even(cls, ranks: tuple[int, ...], size: int, *, replicated: bool = False, layers: int = 1) -> Layout:
        """Shards as even as can be."""
        return cls(ranks, even_cuts(size, len(ranks)), replicated, layers)

    @property
    def size(self) -> int:
        """Elements of the whole tensor."""
        return self.cuts[-1]

    def shards(self) -> Iterator[tuple[int, range]]:
        """(rank, its part) in tensor order; the cut part, also if replicated."""
        for rank, (start, stop) in zip(self.ranks, pairwise(self.cuts), strict=True):
            yield rank, range(start, stop)

    def held(self, index: int) -> range:
        """What the rank at ``index`` holds: its shard, or the whole if replicated."""
        return range(self.size) if self.replicated else range(self.cuts[index], self.cuts[index + 1])

    def owner(self, element: int) -> int:
        """The rank whose shard has ``element``."""
        if not 0 <= element < self.size:
            raise PlanError(f"element {element} is outside {self}")
        return self.ranks[bisect_right(self.cuts, element) - 1]

    def holds(self, rank: int, span: range) -> bool:
        """Whether ``rank`` is one of the holders and has all of ``span``."""
        if rank not in self.ranks:
            return False
        held = self.held(self.ranks.index(rank))
        return held.start <= span.start and span.stop <= held.stop


def overlaps(source: Layout, target: Layout) -> Iterator[tuple[int, int, range]]:
    """(rank of source, rank of target, span) wherever a shard of one meets a shard of the other, in tensor order."""
    for piece in pieces((*source.cuts, *target.cuts)):
        yield source.owner(piece.start), target.owner(piece.start), piece
