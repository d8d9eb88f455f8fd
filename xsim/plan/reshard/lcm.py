"""Equal chunks: as many as the least common multiple of the tensor-parallel degrees (paper sections 4.3, 4.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xsim.plan.comm import Collective, CommPlan, Transfer, complete, finished, phases
from xsim.plan.contracts import Site
from xsim.plan.halves import gather_rings, reduce_scatter_rings
from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.spec.checks import at_least

__all__ = ["Lcm"]


@dataclass(frozen=True, slots=True)
class Lcm:
    """LCM chunks, each sent by its owner or summed in a ring of its owners (Algorithms 2 and 3).

    Of L chunks a group of t ranks cuts L / t from each shard: chunk c belongs to rank ``c * t // L``.

    Attributes:
        max_concurrent_rings: How many rings of one sum are under way at a time; absent: all of them. NCCL assigns links
            and channels to communicators, so that rings of one device may follow each other (section 5.3 (5)).
    """

    max_concurrent_rings: int | None = None

    def __post_init__(self) -> None:
        if self.max_concurrent_rings is not None:
            at_least(self, "max_concurrent_rings", 1)

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        transfers = []
        for chunk in _chunks((source, target)):
            src, dst = source.owner(chunk.start), target.owner(chunk.start)
            if not source.holds(dst, chunk):
                transfers.append(Transfer(src, dst, chunk))
        return phases(transfers, complete(target))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        rings = (
            Collective("all_reduce", tuple(layout.owner(chunk.start) for layout in layouts), chunk)
            for chunk in _chunks(layouts)
        )
        return finished(self._in_turn(rings), layouts)

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        return CommPlan(self._in_turn(reduce_scatter_rings(_chunks(layouts), layouts, shards)))

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return CommPlan(self._in_turn(gather_rings(_chunks(layouts), layouts, shards)))

    def _in_turn(self, rings: Iterable[Collective]) -> tuple[Collective, ...]:
        """Each waits for the one so many before it."""
        most = self.max_concurrent_rings
        if most is None:
            return tuple(rings)
        return tuple(
            replace(ring, after=(number - most,)) if number >= most else ring for number, ring in enumerate(rings)
        )


def _chunks(layouts: Sequence[Layout]) -> tuple[range, ...]:
    """L chunks ``i * size // L``, cut again where an uneven shard ends inside one; empty ones are left out."""
    count = math.lcm(*(len(layout.ranks) for layout in layouts))
    return pieces((*even_cuts(layouts[0].size, count), *(cut for layout in layouts for cut in layout.cuts)))
