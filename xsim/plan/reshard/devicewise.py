"""Padding to the whole: the simplest that ETH compares block-wise synchronisation with (section 3, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.plan.comm import Collective, CommPlan, Zeros, hand_over
from xsim.plan.contracts import Site
from xsim.plan.layout import Layout

__all__ = ["Devicewise"]


@dataclass(frozen=True, slots=True)
class Devicewise:
    """Every device pads its shard with zeros to the whole tensor; one all-reduce over all devices of the group.

    The whole tensor is what the group synchronises: a bucket. Replicas pad too, all but the cut part of each, so that
    their copies count once, and end with the whole without a gather. Filling with zeros takes no time, and the memory
    for it is not counted. The paper pads gradients only: hand-overs go from owner to owner.
    """

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        size = layouts[0].size
        shards = [shard for layout in layouts for shard in layout.shards()]
        padding = (
            Zeros(rank, span) for rank, own in shards for span in (range(own.start), range(own.stop, size)) if span
        )
        call = Collective("all_reduce", tuple(rank for rank, _ in shards), range(size))
        return CommPlan((call,), zeros=tuple(padding))
