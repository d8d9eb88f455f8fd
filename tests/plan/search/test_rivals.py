"""What other planners find competes as they have it, and so does the plan that a search begins with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from tests.plan.search.small import PlanningSite, question
from tests.plan.search.test_planner_xsim import ASKED, planned, priced_ps
from xsim.errors import NoPlanError, SpecError, TooLongError
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.contracts import Estimate, Planner, PlannerSite
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.memory import shortfall
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search import trials
from xsim.plan.sketch import place
from xsim.spec import deployment
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.scenario import Scenario


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


def test_a_warm_start_keeps_the_given_plan_unless_there_is_better() -> None:
    best = planned(Xsim(top=0))
    given = replace(ASKED, deployment=replace(best, name="mine"))
    slow = Sketch((Pipeline((SketchStage(range(1, 5), (Copies("slow", 1),)),), 1, 16),))

    same = planned(Xsim(top=0, budget=2, warm_start=True), given)
    better = planned(Xsim(top=0, warm_start=True), replace(ASKED, deployment=place(slow, ASKED)))

    assert priced_ps(same) == priced_ps(best)
    assert priced_ps(better) == priced_ps(best)
    with pytest.raises(SpecError, match="warm_start"):
        planned(Xsim(warm_start=True))


@dataclass(frozen=True, slots=True)
class Fond(PlanningSite):
    """Simulates the plan of one name as the fastest, and counts."""

    seen: list[str] = field(default_factory=list)
    best_ps: int = 4

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        self.seen.append(deployment.name)
        return Estimate(training_time_ps=self.best_ps if deployment.name == "mine" else 5, fits=True)


@pytest.mark.parametrize("top", [1, 3])
def test_a_warm_start_is_simulated_first_and_stays_if_that_says_so(top: int) -> None:
    slow = Sketch((Pipeline((SketchStage(range(1, 5), (Copies("slow", 1),)),), 1, 16),), name="mine")
    given = replace(ASKED, deployment=place(slow, ASKED))
    judge = Fond(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes)

    found = Xsim(top=top, warm_start=True, others=()).plan(given, judge)

    assert judge.seen[0] == "mine"
    assert len(judge.seen) == top + 1
    assert replace(found, predicted_ps=None) == given.deployment
    with pytest.raises(SpecError, match=r"planner.warm_start .* uses rank 2, which is lost"):
        planned(Xsim(warm_start=True, lost=(2,)), given)


def test_a_warm_start_stays_beside_a_rival_that_is_no_better() -> None:
    slow = Sketch((Pipeline((SketchStage(range(1, 5), (Copies("slow", 1),)),), 1, 16),), name="mine")
    given = replace(ASKED, deployment=place(slow, ASKED))
    judge = Fond(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes, best_ps=5)

    found = Xsim(top=1, warm_start=True, others=("hexiscale", "malleus")).plan(given, judge)

    assert len(judge.seen) > 2
    assert found.name == "mine"


@dataclass(frozen=True, slots=True)
class Alone:
    """A planner that puts all on the first rank."""

    def plan(self, scenario: Scenario, _: PlannerSite) -> DeploymentPlan:
        stage = SketchStage(range(1, scenario.model.layers + 1), (Copies("fast", 1),))
        return place(Sketch((Pipeline((stage,), 1, scenario.batch),)), scenario)


@dataclass(frozen=True, slots=True)
class Rival(PlanningSite):
    """Has one other planner, whose plan it simulates as the fastest."""

    def planner(self, name: str, **options: object) -> Alone:
        assert (name, options) == ("malleus", {})
        return Alone()

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        return Estimate(training_time_ps=5 if _on_one_rank(deployment) else 9, fits=True)


def _on_one_rank(plan: DeploymentPlan) -> bool:
    return [group.ranks for _, group in plan.groups()] == [(0,)]


def test_plans_of_other_planners_compete_by_simulation() -> None:
    there = Rival(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes)

    assert _on_one_rank(Xsim(others=("malleus",)).plan(ASKED, there))
    assert not _on_one_rank(Xsim(others=()).plan(ASKED, there))
    assert not _on_one_rank(Xsim(others=("malleus",), top=0).plan(ASKED, there))


@dataclass(frozen=True, slots=True)
class Silent(PlanningSite):
    """Has no other planner, and hears of no progress."""

    def planner(self, name: str, **options: object) -> Alone:
        raise SpecError("planner", name, "there is none", "choose another")

    def progress(self, done: int, of: int, what: str) -> None:
        raise AssertionError(what)


def test_a_planner_that_there_is_not_is_refused_before_the_search() -> None:
    with pytest.raises(SpecError, match="there is none"):
        Xsim(others=("nothing",)).plan(ASKED, Silent(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes))


def test_only_that_another_planner_finds_nothing_is_passed_over() -> None:
    nothing = NoPlanError("planner", "malleus", "no plan fits", "add devices")
    long = TooLongError("replicas[0].micro_batches", 10**7, "more than are simulated", "lower it")
    broken = SpecError("schedule", "odd", "it is refused", "choose another")

    Xsim(others=("malleus",)).plan(ASKED, asking(Steps(nothing)))
    Xsim(others=("malleus",)).plan(ASKED, asking(Steps(long)))
    with pytest.raises(SpecError, match="it is refused"):
        Xsim(others=("malleus",)).plan(ASKED, asking(Steps(broken)))


@dataclass(frozen=True, slots=True)
class Steps:
    """A planner that tells of its progress without end, or until it is stopped."""

    error: Exception | None = None

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        if self.error is not None:
            raise self.error
        for step in range(10**6):
            site.progress(step, 10**6, "steps")
        return Alone().plan(scenario, site)


@dataclass(frozen=True, slots=True)
class Asking(PlanningSite):
    """Has one other planner."""

    other: Steps = field(default_factory=Steps)

    def planner(self, name: str, **options: object) -> Steps:
        return self.other

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        return Estimate(training_time_ps=5, fits=True)


def asking(other: Steps) -> Asking:
    return Asking(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes, other=other)


def test_what_other_planners_do_counts_in_the_budget() -> None:
    found = Xsim(others=("malleus",), budget=300, proof=0).plan(ASKED, asking(Steps()))

    assert found.name == "xsim, cut short by its budget"


def test_others_may_find_what_is_not_too_long_to_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned(Xsim(top=0))

    monkeypatch.setattr(deployment, "MOST_ACTIONS", first.passes - 1)
    assert Xsim().plan(ASKED, asking(Steps())).passes < first.passes
