"""What other planners find competes as they have it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tests.plan.search.small import PlanningSite, question
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.contracts import Estimate
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search import trials
from xsim.plan.sketch import place
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


def test_the_plan_to_beat_is_simulated_however_long_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Sketch((Pipeline((SketchStage(range(1, 5), (Copies("slow", 1),)),), 1, 16),), name="mine")
    given = replace(ASKED, deployment=place(slow, ASKED))
    sites = [judge(), judge()]
    Xsim(others=(), warm_start=True).plan(given, sites[0])
    longest = max(plan.passes for plan in sites[0].seen if plan.name != "mine")
    monkeypatch.setattr(trials, "PASSES", sites[0].seen[0].passes + longest)

    Xsim(others=(), warm_start=True).plan(given, sites[1])

    assert sites[0].seen[0].name == sites[1].seen[0].name == "mine"
    assert 2 <= len(sites[1].seen) < len(sites[0].seen)
