"""What other planners find competes as they have it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.plan.search.small import PlanningSite, question
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.contracts import Estimate
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search import trials
from xsim.spec.deployment import DeploymentPlan

ASKED = question(("fast", 2), ("slow", 2), layers=4, batch=16)


@dataclass(frozen=True, slots=True)
class Partial(PlanningSite):
    """Simulates all plans as slow but those that share out states."""

    seen: list[DeploymentPlan] = field(default_factory=list)

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        self.seen.append(deployment)
        return Estimate(training_time_ps=5 if deployment.zero else 9, fits=True)


def judge() -> Partial:
    return Partial(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes)


def test_a_plan_that_shares_out_states_is_simulated_as_its_maker_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its buckets, and with the next weights gathered beside these."""
    monkeypatch.setattr(trials, "NEAR", 100.0)
    own, site = judge().planner("cephalo").plan(ASKED, judge()), judge()

    found = Xsim(others=("cephalo",)).plan(ASKED, site)

    assert [plan for plan in site.seen if plan.zero] == [own]
    assert (found.name, found.replicas, found.bucket_bytes) == ("xsim, cephalo", own.replicas, own.bucket_bytes)
    assert found.gather_overlap


def test_one_that_its_maker_thinks_is_far_from_the_best_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "NEAR", 0.1)
    site = judge()

    Xsim(others=("cephalo",)).plan(ASKED, site)

    assert site.seen
    assert not any(plan.zero for plan in site.seen)
