"""How tensors get from layout to layout: the chosen strategies' plans as transfers, proven if that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.bound import Bounds
from xsim.plan.comm import CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, Reshard, Site
from xsim.plan.judge import verify_gather, verify_move, verify_reduce, verify_reduce_scatter
from xsim.plan.layout import Layout
from xsim.spec.scenario import Scenario

__all__ = ["Parties", "Wired", "Wires", "lower_comm"]

Parties = Sequence[Sequence[int]]  # ranks that take part together
Wired = tuple[TransferGraph, str, int]  # transfers, the strategy that was chosen if one chose, and the bound


@dataclass(frozen=True, slots=True)
class Wires:
    """Moves, sums and gathers of tensors between layouts, as ``Wired``.

    Sums of equal layouts, as those of equal buckets, are worked out once.
    """

    scenario: Scenario
    reshard: Reshard
    collective: CollectiveAlgorithm
    site: Site
    verify: bool
    bounds: Bounds
    _known: dict[tuple[object, ...], Wired] = field(default_factory=dict)

    def move(self, source: Layout, target: Layout) -> Wired:
        plan = self.reshard.move(source, target, self.site)
        between = (source, target)
        proven = self._proven("move", plan, (source.ranks + target.ranks,), between, verify_move, source, target)
        return *proven, self.bounds.move_ps(source, target)

    def reduce(self, layouts: Sequence[Layout], parties: Parties) -> Wired:
        return self._once("reduce", parties, layouts, lambda: self._reduce(layouts, parties))

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, parties: Parties) -> Wired:
        between = (*layouts, shards)
        return self._once("reduce_scatter", parties, between, lambda: self._reduce_scatter(layouts, shards, parties))

    def gather(self, shards: Layout, layouts: Sequence[Layout], parties: Parties) -> Wired:
        return self._once("gather", parties, (shards, *layouts), lambda: self._gather(shards, layouts, parties))

    def _once(self, method: str, parties: Parties, between: Sequence[Layout], work: Callable[[], Wired]) -> Wired:
        key = method, tuple(map(tuple, parties)), *between
        if key not in self._known:
            self._known[key] = work()
        return self._known[key]

    def _reduce(self, layouts: Sequence[Layout], parties: Parties) -> Wired:
        plan = self.reshard.reduce(layouts, self.site)
        proven = self._proven("reduce", plan, parties, layouts, verify_reduce, layouts)
        return *proven, self.bounds.reduce_ps(layouts)

    def _reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, parties: Parties) -> Wired:
        plan = self.reshard.reduce_scatter(layouts, shards, self.site)
        proven = self._proven("reduce_scatter", plan, parties, layouts, verify_reduce_scatter, layouts, shards)
        return *proven, self.bounds.reduce_scatter_ps(layouts, shards)

    def _gather(self, shards: Layout, layouts: Sequence[Layout], parties: Parties) -> Wired:
        plan = self.reshard.gather(shards, layouts, self.site)
        proven = self._proven("gather", plan, parties, layouts, verify_gather, shards, layouts)
        return *proven, self.bounds.gather_ps(shards, layouts)

    def _proven(
        self,
        method: str,
        plan: CommPlan,
        parties: Parties,
        between: Sequence[Layout],
        verify: Callable[..., None],
        *layouts: object,
    ) -> tuple[TransferGraph, str]:
        """The transfers of ``plan`` and who chose it, if asked after both have passed ``verify`` on ``layouts``."""
        graph = lower_comm(plan, parties, collective=self.collective, site=self.site)
        if self.verify:
            with _blamed(self.reshard, method, between):
                verify(plan, *layouts)
                verify(graph, *layouts, self.site.element_bytes)
        return graph, plan.strategy


@contextmanager
def _blamed(strategy: Reshard, method: str, layouts: Sequence[Layout]) -> Iterator[None]:
    """A judge's complaint, with whose plan it is."""
    try:
        yield
    except PlanError as error:
        between = " and ".join(str(list(layout.ranks)) for layout in layouts)
        raise PlanError(f"{type(strategy).__name__}.{method} between ranks {between}: {error}") from error


def lower_comm(
    plan: CommPlan,
    parties: Sequence[Sequence[int]],
    *,
    collective: CollectiveAlgorithm,
    site: Site,
) -> TransferGraph:
    """The transfers of ``plan``, its collectives expanded by ``collective``, in elements of ``site.element_bytes``."""
    return lower_plan(plan, parties, lambda step: collective.expand(step, site), site.element_bytes)
