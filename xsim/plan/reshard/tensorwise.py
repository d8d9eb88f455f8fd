"""A call per operator shard: what block-wise synchronisation is compared with in the ETH paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xsim.plan.blocks import blocks_of, in_turn
from xsim.plan.comm import Collective, CommPlan, finished, hand_over
from xsim.plan.contracts import Site
from xsim.plan.halves import gather_rings, reduce_scatter_rings
from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.spec.checks import at_least

__all__ = ["Tensorwise"]


@dataclass(frozen=True, slots=True)
class Tensorwise:
    """The blocks of ``blockwise``, each summed in several calls: the same bytes, more latency.

    A device takes part in one call at a time, as there. Calls on many streams at once would share the same ports; what
    such streams lose to each other on real devices is not modelled.

    Attributes:
        calls: Equal parts, and so calls, per block and layer; 13 are the operators of a layer as ETH counts them
            (section 4.3). A tensor that belongs to no layer takes one call per block.
    """

    calls: int = 13

    def __post_init__(self) -> None:
        at_least(self, "calls", 1)

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        parts, way = self._parts(layouts)
        calls = [
            Collective("all_reduce", tuple(layout.owner(part.start) for layout in layouts), part) for part in parts
        ]
        return replace(finished(in_turn(calls), layouts), strategy=way)

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        parts, way = self._parts(layouts)
        return CommPlan(tuple(in_turn(list(reduce_scatter_rings(parts, layouts, shards)))), way)

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        parts, way = self._parts(layouts)
        return CommPlan(tuple(in_turn(list(gather_rings(parts, layouts, shards)))), way)

    def _parts(self, layouts: Sequence[Layout]) -> tuple[list[range], str]:
        """What each call sums, and which way of cutting that is."""
        blocks = blocks_of(layouts)
        count = max(1, self.calls * layouts[0].layers)
        cuts = blocks or pieces(cut for layout in layouts for cut in layout.cuts)
        parts = [part for block in cuts for part in pieces(block.start + cut for cut in even_cuts(len(block), count))]
        return parts, "" if blocks else "cut_points"
