"""A call per operator shard: what block-wise synchronisation is compared with in the ETH paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    Attributes:
        calls: Equal parts, and so calls, per block of a bucket. A bucket knows no operators: 13 stands for those of one
            layer, and is what the paper counts where ``bucket_bytes`` is the gradient of one layer.
    """

    calls: int = 13

    def __post_init__(self) -> None:
        at_least(self, "calls", 1)

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        calls = [
            Collective("all_reduce", tuple(layout.owner(part.start) for layout in layouts), part)
            for part in self._parts(layouts)
        ]
        return finished(in_turn(calls), layouts)

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        return CommPlan(tuple(in_turn(list(reduce_scatter_rings(self._parts(layouts), layouts, shards)))))

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return CommPlan(tuple(in_turn(list(gather_rings(self._parts(layouts), layouts, shards)))))

    def _parts(self, layouts: Sequence[Layout]) -> list[range]:
        """What each call sums."""
        blocks = blocks_of(layouts) or pieces(cut for layout in layouts for cut in layout.cuts)
        return [
            part for block in blocks for part in pieces(block.start + cut for cut in even_cuts(len(block), self.calls))
        ]
