"""TypeSplit: every pipeline has devices of one type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.eth_problem import EthProblem, Search, eth_problem, units_of
from xsim.plan.search.groupings import Composition
from xsim.plan.search.tables import tables
from xsim.plan.sketch import place
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Typesplit"]


@dataclass(frozen=True, slots=True)
class Typesplit:
    """Pipelines of one type of device each, with shares of the batch that end as early as can be.

    The baseline TypeSplit-HPP of ETH (https://arxiv.org/abs/2610.22035, section 7.5): devices are split by type, and
    each pipeline is configured by ETH's stage optimizer. Pipelines that cannot train idle.

    Attributes:
        pipelines: Of each type, equal ones; 0: as many as give the shortest iteration, the same number for each.
        stage_unit: Devices that are dealt to the stages of a pipeline together; 0: a power of two, no more than
            the smallest host has, nor than the ``unit`` that ``eth`` finds.
        budget: Configurations to look at for one sequence of stages and one size of micro-batches.
        stage_limit: Sequences of stages for a pipeline that are all tried; if there are more, only equal stages.
        recompute: Let stages that do not fit compute operators again.
        sequence_parallel: Cut activations between operators over the sequence.
    """

    pipelines: int = 1
    stage_unit: int = 0
    budget: int = 100
    stage_limit: int = 3000
    recompute: bool = True
    sequence_parallel: bool = False

    def __post_init__(self) -> None:
        for name in ("pipelines", "stage_unit"):
            at_least(self, name, 0)
        for name in ("budget", "stage_limit"):
            at_least(self, name, 1)
            at_most(self, name, MOST_TRIES)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        known = tables(scenario, site, sequence_parallel=self.sequence_parallel, apart=True)
        search = Search(
            limit=self.stage_limit,
            budget=self.budget,
            adaptive=False,
            bound=True,
            starts=0,
            most=0,
            rounds=3,
            exact=True,
            recompute=self.recompute,
            idle=False,
        )
        units = replace(units_of(known.kinds, 0, self.stage_unit), pipeline=1)
        problem = eth_problem(known, search, units, name="typesplit", sequence_parallel=self.sequence_parallel)
        splits = tuple(self._splits(problem, units.stage))
        each = {pipeline: problem.configured(pipeline) for split in splits for pipeline in split}
        found = [problem.balanced([each[pipeline] for pipeline in split]) for split in splits]
        best = min((own for own in found if own is not None), key=lambda own: own[0], default=None)
        if best is None:
            raise problem.nothing_fits(scenario)
        return place(replace(best[1], predicted_ps=best[0]), scenario)

    def _splits(self, problem: EthProblem, unit: int) -> Iterator[tuple[Composition, ...]]:
        """Pipelines of whole units of one type; what is left of a type idles."""
        units = [count // unit for count in problem.counts]
        most = max(units)
        if self.pipelines > min(units):
            problem_text = f"the least type has {min(units)} units of {unit} devices"
            fix = f"write {min(units)} or less, or a smaller stage_unit"
            raise SpecError("planner.pipelines", self.pipelines, problem_text, fix)
        for each in (self.pipelines,) if self.pipelines else range(1, most + 1):
            if any(own % each == 0 for own in units) or self.pipelines:
                yield tuple(
                    tuple(own // each * unit if other == kind else 0 for other in range(len(units)))
                    for kind, own in enumerate(units)
                    for _ in range(each)
                    if own >= each
                )
