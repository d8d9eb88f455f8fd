"""From the plans that a search ranks to the first that can be, or to what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xsim.errors import NoSeatError, SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.memory import deployment_memory
from xsim.plan.search.stage_runs import Shortage
from xsim.plan.sketch import Sketch, place
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["best_placed", "nothing_fits"]


def best_placed(
    found: Iterable[tuple[int, Sketch]], planner: str, scenario: Scenario, site: PlannerSite, shortage: Shortage
) -> DeploymentPlan:
    """Of plans and their values, the least that has room and memory; of equals the first.

    Args:
        found: A value is what an iteration takes in picoseconds, unless the sketch itself says that.
        shortage: What those lacked that are not among ``found``.

    Raises:
        SpecError: There is none; it says what is missing.
    """
    for value, sketch in sorted(found, key=lambda each: each[0]):
        named = replace(sketch, name=planner, source=planner, predicted_ps=sketch.predicted_ps or value)
        try:
            deployment = place(named, scenario)
        except NoSeatError:
            continue  # the hosts have no seats for groups of these sizes together
        verdict = deployment_memory(scenario, deployment, site.schedule.order)
        if verdict.fits:
            return deployment
        shortage.note(rank_devices(scenario.cluster)[verdict.rank].name, verdict.shortfall_bytes)
    raise nothing_fits(planner, scenario, shortage)


def nothing_fits(planner: str, scenario: Scenario, shortage: Shortage) -> SpecError:
    """Why a search came back without a plan: the memory that is missing, or else that no shape suits the batch."""
    if shortage.lacks_bytes is None:
        problem = f"no plan that {planner} can make gives {scenario.cluster.ranks} devices equal work of a whole batch"
        return SpecError("batch", scenario.batch, problem, "choose a batch with more divisors, or another planner")
    has = sum(device.memory_bytes for device in rank_devices(scenario.cluster))
    lacks, kind = shortage.lacks_bytes, shortage.kind
    problem = (
        f"no plan that {planner} can make fits the {has / 1e9:.0f} GB of {scenario.cluster.ranks} devices: "
        f"the nearest lacks {max(lacks / 1e9, 0.01):.2f} GB on a {kind}"
    )
    return SpecError("planner", planner, problem, "add devices or memory, or choose a smaller model or batch")
