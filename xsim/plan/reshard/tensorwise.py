"""A call per operator shard: what block-wise synchronisation is compared with in the ETH paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.plan.blocks import blocks_of
from xsim.plan.calls import CallsInTurn
from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.spec.checks import at_least, at_most

__all__ = ["Tensorwise"]


@dataclass(frozen=True, slots=True)
class Tensorwise(CallsInTurn):
    """The blocks of ``blockwise``, each summed in several calls: the same bytes, more latency.

    A device takes part in one call at a time, as there. Calls on many streams at once would share the same ports; what
    such streams lose to each other on real devices is not modelled.

    Attributes:
        calls: Equal parts, and so calls, per block and layer; 13 are the operators of a layer as ETH counts them
            (section 4.3). A tensor that belongs to no layer takes one call per block.
    """

    calls: int = 13  # ETH, arxiv.org/abs/2610.22035, section 4.3

    def __post_init__(self) -> None:
        at_least(self, "calls", 1)
        at_most(self, "calls", 1_000)

    def parts(self, layouts: Sequence[Layout]) -> tuple[Sequence[range], str]:
        blocks = blocks_of(layouts)
        count = max(1, self.calls * layouts[0].layers)
        cuts = blocks or pieces(cut for layout in layouts for cut in layout.cuts)
        parts = [part for block in cuts for part in pieces(block.start + cut for cut in even_cuts(len(block), count))]
        return parts, "" if blocks else "cut_points"
