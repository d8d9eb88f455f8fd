"""Gradient syncs as calls of a communication library: one collective per part, and a device in one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from xsim.plan.blocks import in_turn
from xsim.plan.comm import Collective, CommPlan, finished, hand_over
from xsim.plan.contracts import Site
from xsim.plan.halves import gather_rings, reduce_scatter_rings
from xsim.plan.layout import Layout

__all__ = ["CallsInTurn"]


class CallsInTurn(ABC):
    """Sums and their halves in calls of the owners of a part, one after another; hand-overs from owner to owner."""

    __slots__ = ()

    @abstractmethod
    def parts(self, layouts: Sequence[Layout]) -> tuple[Sequence[range], str]:
        """What each call sums, cut by no layout, and which way of cutting that is."""

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        parts, way = self.parts(layouts)
        calls = [
            Collective("all_reduce", tuple(layout.owner(part.start) for layout in layouts), part) for part in parts
        ]
        return replace(finished(in_turn(calls), layouts), strategy=way)

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        parts, way = self.parts(layouts)
        return CommPlan(tuple(in_turn(list(reduce_scatter_rings(parts, layouts, shards)))), way)

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        parts, way = self.parts(layouts)
        return CommPlan(tuple(in_turn(list(gather_rings(parts, layouts, shards)))), way)
