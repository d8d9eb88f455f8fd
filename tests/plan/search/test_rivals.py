"""What other planners find competes as they have it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from tests.plan.search.small import PlanningSite, question
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.contracts import Estimate, Planner, PlannerSite
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.memory import shortfall
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search import trials
from xsim.plan.sketch import place
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.scenario import Scenario

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


@dataclass(frozen=True, slots=True)
class Insisting:
    """A planner that has one plan, whether or not it fits."""

    found: DeploymentPlan

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        return self.found


@dataclass(frozen=True, slots=True)
class Told(Partial):
    """A site whose only other planner has ``told``."""

    told: tuple[DeploymentPlan, ...] = ()

    def planner(self, name: str, **options: object) -> Planner:
        return Insisting(self.told[0])


def told(asked: Scenario, plan: DeploymentPlan) -> Told:
    return Told(OneSwitch().build(asked.cluster), asked.dtype_bytes, told=(plan,))


def sharing(predicted_ps: int) -> DeploymentPlan:
    """Cephalo's plan for devices with ample memory, and what its maker thinks of it."""
    found: DeploymentPlan = judge().planner("cephalo").plan(ASKED, judge())
    return replace(found, predicted_ps=predicted_ps)


@pytest.mark.parametrize("cp", [1, 2])
def test_a_plan_of_others_that_does_not_fit_never_wins(cp: int) -> None:
    """Whether it shares out states, or is cut over contexts."""
    short = question(("fast", 2), ("slow", 2), layers=4, batch=16, memory=0.15)
    plan = sharing(1)
    if cp > 1:
        groups = (DeviceGroup(ranks=(0, 1), samples=16, cp=2),)
        plan = DeploymentPlan(
            replicas=(Replica(stages=(Stage(groups=groups, layers=(range(6),)),), micro_batch=16, micro_batches=1),),
            predicted_ps=1,
        )
    roomy, tight = told(ASKED, plan), told(short, plan)
    assert shortfall(short, plan, tight.schedule.order)[1]

    Xsim(others=("cephalo",)).plan(ASKED, roomy)
    found = Xsim(others=("cephalo",)).plan(short, tight)

    assert plan in roomy.seen
    assert plan not in tight.seen
    assert not shortfall(short, found, tight.schedule.order)[1]


def test_a_plan_that_shares_out_states_competes_with_one_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other is taken as it is thought of; this one is simulated, and faster than that."""
    plan = sharing(10**12)
    own = Xsim(others=(), top=1).plan(ASKED, judge())
    assert plan.passes < own.passes
    monkeypatch.setattr(trials, "NEAR", math.inf)
    monkeypatch.setattr(trials, "PASSES", plan.passes)
    site = told(ASKED, plan)

    found = Xsim(others=("cephalo",), top=1).plan(ASKED, site)

    assert site.seen == [plan]
    assert found.name == "xsim, cephalo"


def test_what_is_short_enough_is_simulated_after_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "NEAR", math.inf)
    every = told(ASKED, sharing(10**12))
    Xsim(others=("cephalo",), top=3).plan(ASKED, every)
    longest = max(plan.passes for plan in every.seen)
    monkeypatch.setattr(trials, "PASSES", sum(plan.passes for plan in every.seen if plan.passes < longest))
    site = told(ASKED, sharing(10**12))

    Xsim(others=("cephalo",), top=3).plan(ASKED, site)

    assert len(site.seen) >= 2
    assert site.seen == [plan for plan in every.seen if plan.passes < longest]


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
