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
        ranks = tuple(rank for layout in layouts for rank in layout.ranks)
        return CommPlan((Collective("all_reduce", ranks, range(layouts[0].size)),), zeros=_padding(layouts))

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        call = Collective("reduce_scatter", shards.ranks, range(shards.size), cuts=shards.cuts)
        return CommPlan((call,), zeros=_padding(layouts))

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return CommPlan((Collective("all_gather", shards.ranks, range(shards.size), cuts=shards.cuts),))


def _padding(layouts: Sequence[Layout]) -> tuple[Zeros, ...]:
    """Zeros wherever a rank has no part of its own."""
    return tuple(
        Zeros(rank, span)
        for layout in layouts
        for rank, own in layout.shards()
        for span in (range(own.start), range(own.stop, layout.size))
        if span
    )
