"""A sum of gradients in halves, for optimizer sharding: what resharding strategies share.

The first half brings the sum of every element to the rank whose shard has it, the second brings what that rank has made
of it back to all who hold the element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsim.plan.comm import Collective, CommPlan, Transfer
from xsim.plan.contracts import Site
from xsim.plan.layout import Layout, pieces

__all__ = ["DirectHalves", "RingHalves", "gather_rings", "reduce_scatter_rings"]


class RingHalves:
    """Halves in collectives of the owners of a piece, one for each piece between the cuts of any layout."""

    __slots__ = ()

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        return CommPlan(tuple(reduce_scatter_rings(_units(layouts), layouts, shards)), "rings")

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return CommPlan(tuple(gather_rings(_units(layouts), layouts, shards)), "rings")


class DirectHalves:
    """Halves without a detour: all holders send to the rank whose shard it is, and it sends to all of them."""

    __slots__ = ()

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        sent = (Transfer(other, home, piece, add=True) for home, other, piece in _apart(layouts, shards))
        return CommPlan(tuple(sent), "direct")

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        sent = (Transfer(home, other, piece) for home, other, piece in _apart(layouts, shards))
        return CommPlan(tuple(sent), "direct")


def reduce_scatter_rings(units: Sequence[range], layouts: Sequence[Layout], shards: Layout) -> Iterator[Collective]:
    """A reduce-scatter of each of ``units`` among its owners. No unit is cut by a layout; shards may cut it."""
    for unit in units:
        yield Collective("reduce_scatter", *_ring(unit, layouts, shards))


def gather_rings(units: Sequence[range], layouts: Sequence[Layout], shards: Layout) -> Iterator[Collective]:
    """An all-gather of each of ``units`` among its owners. No unit is cut by a layout; shards may cut it."""
    for unit in units:
        yield Collective("all_gather", *_ring(unit, layouts, shards))


def _units(layouts: Sequence[Layout]) -> tuple[range, ...]:
    return pieces(cut for layout in layouts for cut in layout.cuts)


def _ring(
    unit: range, layouts: Sequence[Layout], shards: Layout
) -> tuple[tuple[int, ...], range, None, tuple[int, ...]]:
    """The arguments of a collective: owners in the order of their shards, and where these cut ``unit``."""
    parts = pieces((unit.start, *(cut for cut in shards.cuts if unit.start < cut < unit.stop), unit.stop))
    having = [shards.owner(part.start) for part in parts]
    others = [rank for layout in layouts if (rank := layout.owner(unit.start)) not in having]
    cuts = (unit.start, *(part.stop for part in parts), *(unit.stop for _ in others))
    return (*having, *others), unit, None, cuts


def _apart(layouts: Sequence[Layout], shards: Layout) -> Iterator[tuple[int, int, range]]:
    """(whose shard it is, another owner, piece) of each piece between cuts."""
    for piece in pieces((*shards.cuts, *(cut for layout in layouts for cut in layout.cuts))):
        home = shards.owner(piece.start)
        yield from ((home, other, piece) for layout in layouts if (other := layout.owner(piece.start)) != home)
