"""No other tool is asked."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.contracts import EstimateSite
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Unasked"]


@dataclass(frozen=True, slots=True)
class Unasked:
    """Nothing is estimated beside the simulation."""

    def time_ps(self, scenario: Scenario, deployment: DeploymentPlan, site: EstimateSite) -> int | None:
        return None
