"""ETH: pipelines of unlike devices that are balanced by data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.eth_problem import EthProblem, Search, eth_problem, units_of
from xsim.plan.search.grouping_search import GroupingSearch, Searched, Shortcuts
from xsim.plan.search.groupings import drawn_grouping
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Sketch, place
from xsim.spec.checks import MOST_TRIES, at_least, at_most, usual
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Eth"]

DYNAMIC = ("none", "orders", "knapsack")


@dataclass(frozen=True, slots=True)
class Eth:
    """Independent pipelines of unlike devices, each with its own share of the batch (https://arxiv.org/abs/2610.22035).

    Devices are grouped to pipelines in every way, and those of a pipeline to stages; stages are balanced by Aceso's
    moves, shares of the batch dealt out greedily, and stages chosen anew for them. ``docs/eth.md`` has the details, and
    what the paper leaves open.

    Attributes:
        unit: Devices of one kind that are dealt to pipelines together; 0: a power of two that leaves about 16 units
            of all kinds, or one to each.
        stage_unit: Likewise to the stages of a pipeline; it divides ``unit``. 0: no more than a host has, and as few as
            leave up to 32 units of all kinds.
        cache: Keep the configuration of pipelines of the same devices (section 5.1).
        skip: Leave out groupings whose bound is below the best found (5.2); it needs ``cache``.
        alpha: Factor of the approximate bound; 0: only the deterministic one.
        order: Look at groupings of little variance first (5.3).
        dynamic: What puts pipelines together once few groupings are skipped (5.4): ``orders``, devices in a row cut
            into pipelines; ``knapsack``, the best sums over all groupings; or ``none``.
        orders: How many rows are drawn besides those by type and alternating.
        bound: Leave out sequences of stages that cannot be best even with divisible layers and ample memory; the paper
            has no such bound, and it changes no result.
        starts: Sequences of stages and sizes of micro-batches from which a pipeline is balanced, those of the least
            bound first; 0: all.
        adaptive: Share out ``budget`` by variance (6).
        budget: Configurations to look at for one sequence of stages and one size of micro-batches.
        stage_limit: Sequences of stages for a pipeline that are all tried; if there are more, only those of stages of
            one type, or those of equal stages type by type.
        rounds: How often shares of the batch and configurations follow one another after the first time.
        exact: Shares with the earliest end, instead of greedy ones.
        idle: Leave out pipelines without which the others are faster; in the paper all devices work.
        recompute: Let stages that do not fit compute operators again.
        strip: Leave out of the plan what its stages recompute: it shows what that saves, and may not fit.
        sequence_parallel: Cut activations between operators over the sequence.
        evaluations: Configurations to look at in all; the best so far is the plan. 0: no limit.
        drawn: Look at one grouping alone, the one of this number of those drawn at random, and name the plan after it:
            ``eth_4.0_0.4`` are four units of one kind in a pipeline, and four of the other in a second. 0: at all.
    """

    unit: int = 0
    stage_unit: int = 0
    cache: bool = True
    skip: bool = True
    alpha: float = 1.5
    order: bool = True
    dynamic: str = "orders"
    orders: int = 2
    bound: bool = True
    starts: int = 300
    adaptive: bool = True
    budget: int = 100
    stage_limit: int = 3000
    rounds: int = 3
    exact: bool = False
    idle: bool = True
    recompute: bool = True
    strip: bool = False
    sequence_parallel: bool = False
    evaluations: int = 0
    drawn: int = 0

    def __post_init__(self) -> None:
        for name in ("unit", "stage_unit", "orders", "starts", "rounds", "evaluations", "drawn"):
            at_least(self, name, 0)
        for name in ("budget", "stage_limit"):
            at_least(self, name, 1)
        for name in ("budget", "stage_limit", "evaluations", "orders", "drawn"):
            at_most(self, name, MOST_TRIES)
        if not 0 <= self.alpha < math.inf:
            fix = "write 0 for the deterministic bound alone, or a number such as 1.5"
            raise SpecError("alpha", self.alpha, "a factor is 0 or more and finite", fix)
        if self.dynamic not in DYNAMIC:
            raise SpecError("dynamic", self.dynamic, "it is unknown", f"choose one of {', '.join(DYNAMIC)}")
        if self.dynamic != "orders" and self.orders != usual(self, "orders"):
            problem = f"dynamic: {self.dynamic} looks at no rows of devices"
            raise SpecError("orders", self.orders, problem, "leave it out, or write dynamic: orders")

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        problem = self.problem(scenario, site)
        found = self.search(problem, site.progress)
        if found.plan is None:
            raise problem.nothing_fits(scenario)
        plan = replace(found.plan, predicted_ps=found.iteration_ps)
        if self.drawn:
            plan = replace(plan, name="_".join(("eth", *(".".join(map(str, own)) for own in found.grouping))))
        return place(_stripped(plan) if self.strip else plan, scenario)

    def problem(self, scenario: Scenario, site: PlannerSite) -> EthProblem:
        """What is searched."""
        known = tables(scenario, site, sequence_parallel=self.sequence_parallel, apart=True)
        search = Search(
            limit=self.stage_limit,
            budget=self.budget,
            adaptive=self.adaptive,
            bound=self.bound,
            starts=self.starts,
            most=self.evaluations,
            rounds=self.rounds,
            exact=self.exact,
            recompute=self.recompute,
            idle=self.idle,
        )
        units = units_of(known.kinds, self.unit, self.stage_unit)
        return eth_problem(known, search, units, name="eth", sequence_parallel=self.sequence_parallel)

    def search(self, problem: EthProblem, told: Callable[[int, int, str], None] | None = None) -> Searched[Sketch]:
        """The search, and how much work it was."""
        shortcuts = Shortcuts(self.cache, self.skip, self.alpha, self.order, self.dynamic, self.orders)
        search = GroupingSearch(problem, shortcuts, *((told,) if told else ()))
        return search.only(drawn_grouping(problem.counts, self.drawn)) if self.drawn else search.run()


def _stripped(plan: Sketch) -> Sketch:
    return replace(
        plan,
        pipelines=tuple(
            replace(own, stages=tuple(replace(stage, recompute=()) for stage in own.stages)) for own in plan.pipelines
        ),
    )
