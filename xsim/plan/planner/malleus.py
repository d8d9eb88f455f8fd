"""Malleus: pipelines of unlike speed that share layers and micro-batches in proportion to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Seat
from xsim.plan.search.deals import deals
from xsim.plan.search.emit import best_placed
from xsim.plan.search.grids import powers_of_two
from xsim.plan.search.shares import least_maximum
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.checks import at_least
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Malleus"]

Timed = tuple[int, int, tuple[int, ...]]  # slowest stage and sum of all, picoseconds; layers of each


@dataclass(frozen=True, slots=True)
class Malleus:
    """Layers and micro-batches shared out by two integer programs (https://arxiv.org/abs/2410.13333 section 4).

    Devices are tied into tensor groups of ``tp``, all of one host; what is left of a host idles. The groups are dealt
    to ``dp`` pipelines of as many stages, one more or less, in every way that differs in kinds, up to ``evaluations``.
    In a pipeline layers are shared so that the slowest stage is as fast as can be and all fit; then the micro-batches
    so that the slowest pipeline is. Both are solved exactly, by bisection. Every stage comes before a larger one of its
    pipeline. A pipeline trains as many micro-batches as it has stages, or more.

    Attributes:
        tp: Tensor-parallel degree of all groups; 0: that of the shortest iteration.
        dp: How many pipelines; 0: likewise.
        micro_batch: Samples of one micro-batch; 0: likewise, of 1, 2, 4 and 8.
        evaluations: How many ways to deal out the groups are looked at for each ``tp``, ``dp`` and ``micro_batch``.
    """

    tp: int = 0
    dp: int = 0
    micro_batch: int = 0
    evaluations: int = 200

    def __post_init__(self) -> None:
        for name in ("tp", "dp", "micro_batch"):
            at_least(self, name, 0)
        at_least(self, "evaluations", 1)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        runs = StageRuns(tables(scenario, site))
        return best_placed(list(self._plans(scenario, runs)), "malleus", scenario, site, runs.shortage)

    def _plans(self, scenario: Scenario, runs: StageRuns) -> Iterator[tuple[int, Sketch]]:
        kinds = runs.tables.kinds
        largest = max(kind.per_host for kind in kinds)
        for tp in (self.tp,) if self.tp else powers_of_two(min(largest, scenario.model.heads)):
            groups = {kind.name: sum(own // tp for own in kind.hosts) for kind in kinds if kind.per_host >= tp}
            for micro_batch in (self.micro_batch,) if self.micro_batch else (1, 2, 4, 8):
                if scenario.batch % micro_batch:
                    continue
                total = scenario.batch // micro_batch
                most = min(sum(groups.values()), total)
                for dp in (self.dp,) if self.dp else range(1, most + 1):
                    found = self._dealt(scenario, runs, groups, tp, dp, micro_batch)
                    if found:
                        yield found
