"""From the plans that a search ranks to the first that can be, or to what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xsim.errors import NoSeatError
from xsim.plan.contracts import PlannerSite
from xsim.plan.memory import shortfall
from xsim.plan.search.shortage import Shortage, nothing_fits
from xsim.plan.sketch import Sketch, place
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["best_placed"]


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
    devices = rank_devices(scenario.cluster)
    for value, sketch in sorted(found, key=lambda each: each[0]):
        named = replace(sketch, name=planner, source=planner, predicted_ps=sketch.predicted_ps or value)
        try:
            deployment = place(named, scenario)
        except NoSeatError:
            continue  # the hosts have no seats for groups of these sizes together
        rank, lacks_bytes = shortfall(scenario, deployment, site.schedule.order)
        if not lacks_bytes:
            return deployment
        shortage.note(devices[rank].name, lacks_bytes)
    raise nothing_fits(planner, scenario, devices, shortage)
