"""The fastest of the others, for each tensor and the links that it goes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.plan.comm import CommPlan
from xsim.plan.contracts import Reshard, Site
from xsim.plan.layout import Layout

__all__ = ["Best"]


@dataclass(frozen=True, slots=True)
class Best:
    """Simulates every hand-over and every sum alone, by each of the other strategies, and takes the fastest.

    Which one is noted in the plan, in the workload's moves and syncs, and in the timeline. Of equals the first counts.
    A tensor may meet other traffic in the iteration: the choice is the best for tensors one at a time.

    Attributes:
        among: Names of the strategies that are tried, with their default options, in this order; none: all.
    """

    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "best" in self.among:
            raise SpecError("among", self.among, "best chooses among the others", "leave it out")

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return self._fastest(site, lambda strategy: strategy.move(source, target, site))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return self._fastest(site, lambda strategy: strategy.reduce(layouts, site))

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        return self._fastest(site, lambda strategy: strategy.reduce_scatter(layouts, shards, site))

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return self._fastest(site, lambda strategy: strategy.gather(shards, layouts, site))

    def _fastest(self, site: Site, plan_of: Callable[[Reshard], CommPlan]) -> CommPlan:
        plans = (_named(plan_of(strategy), name) for name, strategy in self._others(site))
        return min(plans, key=lambda plan: site.price(plan, site.element_bytes))

    def _others(self, site: Site) -> Iterator[tuple[str, Reshard]]:
        for place, name in enumerate(self.among or site.reshards):
            try:
                strategy = site.reshard(name)
            except SpecError as error:
                path = f"reshard.among[{place}]" if self.among else error.field
                raise SpecError(path, name, error.problem, error.fix) from None
            if not isinstance(strategy, Best):
                yield name, strategy


def _named(plan: CommPlan, name: str) -> CommPlan:
    """The plan with the name of its strategy, and which of its ways that took."""
    return replace(plan, strategy=f"{name}, {plan.strategy}" if plan.strategy else name)
