"""Blocks: as many as the largest tensor-parallel degree, one all-reduce each (ETH: partition, combine, fuse)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xsim.errors import SpecError
from xsim.plan.blocks import blocks_of, in_turn
from xsim.plan.comm import Collective, CommPlan, finished, hand_over
from xsim.plan.contracts import Site
from xsim.plan.halves import gather_rings, reduce_scatter_rings
from xsim.plan.layout import Layout, pieces

__all__ = ["Blockwise"]


@dataclass(frozen=True, slots=True)
class Blockwise:
    """One all-reduce per block of the finest cut, over all operators and layers of a bucket; a device takes turns.

    A group of t ranks cuts each shard into tp_max / t blocks. The calls that a device takes part in come one after
    another, as in one stream of a communication library. Hand-overs go from owner to owner.

    Attributes:
        indivisible: What to do where a shard is not whole blocks, as where t does not divide tp_max: cut wherever any
            shard ends (``cut_points``), which is beyond the published algorithm and noted in the plan, or ``refuse``.
    """

    indivisible: Literal["cut_points", "refuse"] = "cut_points"

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        blocks, way = self._blocks(layouts)
        calls = [
            Collective("all_reduce", tuple(layout.owner(block.start) for layout in layouts), block) for block in blocks
        ]
        return replace(finished(in_turn(calls), layouts), strategy=way)

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        blocks, way = self._blocks(layouts)
        return CommPlan(tuple(in_turn(list(reduce_scatter_rings(blocks, layouts, shards)))), way)

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        blocks, way = self._blocks(layouts)
        return CommPlan(tuple(in_turn(list(gather_rings(blocks, layouts, shards)))), way)

    def _blocks(self, layouts: Sequence[Layout]) -> tuple[tuple[range, ...], str]:
        """What each call sums, and which way of cutting that is."""
        blocks = blocks_of(layouts)
        if blocks is None and self.indivisible == "refuse":
            degrees = ", ".join(str(len(layout.ranks)) for layout in layouts)
            raise SpecError(
                "reshard.indivisible",
                self.indivisible,
                f"groups of {degrees} ranks are synchronised, whose shards are not whole blocks",
                "choose cut_points, or tensor-parallel degrees that divide the largest",
            )
        cuts = blocks or pieces(cut for layout in layouts for cut in layout.cuts)
        return cuts, "" if blocks else "cut_points"
