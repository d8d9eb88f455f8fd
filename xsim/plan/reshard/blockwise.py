"""Blocks: as many as the largest tensor-parallel degree, one all-reduce each (ETH: partition, combine, fuse)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xsim.errors import SpecError
from xsim.plan.blocks import blocks_of
from xsim.plan.calls import CallsInTurn
from xsim.plan.layout import Layout, pieces

__all__ = ["Blockwise"]


@dataclass(frozen=True, slots=True)
class Blockwise(CallsInTurn):
    """One all-reduce per block of the finest cut, over all operators and layers of a bucket; a device takes turns.

    A group of t ranks cuts each shard into tp_max / t blocks. The calls that a device takes part in come one after
    another, as in one stream of a communication library. Hand-overs go from owner to owner.

    Attributes:
        indivisible: What to do where a shard is not whole blocks, as where t does not divide tp_max: cut wherever any
            shard ends (``cut_points``), which is beyond the published algorithm and noted in the plan, or ``refuse``.
    """

    indivisible: Literal["cut_points", "refuse"] = "cut_points"

    def parts(self, layouts: Sequence[Layout]) -> tuple[Sequence[range], str]:
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
