"""No search: the deployment that the scenario brings along."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.contracts import Site
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Given"]


@dataclass(frozen=True, slots=True)
class Given:
    """The scenario's own deployment, as it stands."""

    def plan(self, scenario: Scenario, site: Site) -> DeploymentPlan:
        if scenario.deployment is None:
            problem = "the planner 'given' takes the scenario's own deployment, and it has none"
            raise SpecError("deployment", None, problem, "name a deployment, or choose another planner such as uniform")
        return scenario.deployment
