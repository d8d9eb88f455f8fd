"""Who synchronises which layers: data-parallel groups by a sweep line (paper section 4.3, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["CommGroup", "Holder", "dp_groups"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A device group and one contiguous range of layers that it holds.

    Attributes:
        experts: Which experts of each of them it has, if they have any; absent: all.
    """

    ranks: tuple[int, ...]
    layers: range
    experts: range | None = None


@dataclass(frozen=True, slots=True)
class CommGroup:
    """All who hold a segment of layers; one alone has nothing to synchronise.

    Attributes:
        members: Positions of the holders in the input.
        ranks: Theirs, in the same order.
    """

    layers: range
    members: tuple[int, ...]
    ranks: tuple[int, ...]


def dp_groups(holders: Iterable[Holder]) -> tuple[CommGroup, ...]:
    """One group per segment between neighbouring layer boundaries, in layer order; none where nobody holds it.

    Cost: O(D log D + D S) for D holders and S segments.
    """
    all_holders = tuple(holders)
    cuts = sorted({edge for holder in all_holders for edge in (holder.layers.start, holder.layers.stop)})
    groups = []
    for start, stop in pairwise(cuts):
        members = tuple(
            i for i, holder in enumerate(all_holders) if holder.layers.start <= start and stop <= holder.layers.stop
        )
        if members:
            ranks = tuple(rank for member in members for rank in all_holders[member].ranks)
            groups.append(CommGroup(range(start, stop), members, ranks))
    return tuple(groups)
