"""What each option of planner=xsim does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tests.plan.search.small import PlanningSite, question, tables_of
from xsim.errors import SpecError, TooLongError
from xsim.experiment import Experiment, run
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.contracts import Estimate
from xsim.plan.memory import deployment_memory
from xsim.plan.planner.xsim import Xsim
from xsim.plan.schedule.dualpipe import DualPipe
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.search import trials
from xsim.plan.search.price import price
from xsim.plan.sketch import sketch_of
from xsim.spec import deployment
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment

ASKED = question(("fast", 2), ("slow", 2), layers=4, batch=16)
TIGHT = question(("fast", 2), ("slow", 2), layers=6, batch=16, memory=0.1, hidden=512)


def site(asked: Scenario) -> PlanningSite:
    return PlanningSite(OneSwitch().build(asked.cluster), asked.dtype_bytes)


def planned(planner: Xsim, asked: Scenario = ASKED) -> DeploymentPlan:
    return planner.plan(asked, site(asked))


def priced_ps(plan: DeploymentPlan, asked: Scenario = ASKED) -> int:
    return price(sketch_of(plan, asked), tables_of(asked)).iteration_ps


@pytest.mark.parametrize("asked", [ASKED, TIGHT])
@pytest.mark.parametrize("objective", ["time", "cost", "energy", "pareto"])
def test_plans_have_seats_memory_and_all_samples(asked: Scenario, objective: str) -> None:
    found = check_deployment(planned(Xsim(objective=objective), asked), asked)  # type: ignore[arg-type]

    assert found.samples == asked.batch
    assert deployment_memory(asked, found, OneFOneB().order).fits


def test_what_is_predicted_is_its_price() -> None:
    found = planned(Xsim(top=0))

    assert found.predicted_ps == priced_ps(found)
    assert found.name == "xsim, proven best by price"


def test_without_a_proof_the_name_says_how_far_the_bound_is() -> None:
    found = planned(Xsim(top=0, proof=0))

    assert found.name.startswith("xsim, by price at most ")
    assert found.name.endswith("% above the bound")


@dataclass(frozen=True, slots=True)
class Contrary(PlanningSite):
    """Simulates the first plan as slow, and counts."""

    seen: list[DeploymentPlan] = field(default_factory=list)

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        self.seen.append(deployment)
        return Estimate(training_time_ps=9 if len(self.seen) == 1 else 5, fits=True)


def test_the_best_few_are_simulated_and_the_fastest_of_them_is_taken() -> None:
    judge = Contrary(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes)

    found = Xsim(top=3, others=()).plan(ASKED, judge)

    assert len(judge.seen) == 3
    assert found == judge.seen[1]
    assert [plan.predicted_ps for plan in judge.seen] == sorted(plan.predicted_ps or 0 for plan in judge.seen)


def test_of_long_plans_fewer_are_simulated_and_of_one_alone_none(monkeypatch: pytest.MonkeyPatch) -> None:
    judges = [Contrary(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes) for _ in range(3)]
    first = Xsim(top=3, others=()).plan(ASKED, judges[0])

    monkeypatch.setattr(trials, "PASSES", sum(plan.passes for plan in judges[0].seen) - 1)
    Xsim(top=3, others=()).plan(ASKED, judges[1])
    monkeypatch.setattr(trials, "PASSES", 1)
    alone = Xsim(top=3, others=()).plan(ASKED, judges[2])

    assert [len(judge.seen) for judge in judges] == [3, 2, 0]
    assert first == judges[0].seen[1]
    assert alone == judges[0].seen[0]


def test_plans_that_are_too_long_to_be_simulated_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned(Xsim(top=0))

    monkeypatch.setattr(deployment, "MOST_ACTIONS", first.passes - 1)
    assert planned(Xsim(top=0)).passes < first.passes
    monkeypatch.setattr(deployment, "MOST_ACTIONS", 1)
    with pytest.raises(TooLongError, match="more than 1 forward and backward passes"):
        planned(Xsim(top=0))


@pytest.mark.parametrize("proof", [0, 20_000])
def test_each_name_is_of_its_own_plan(proof: int) -> None:
    judge = Contrary(OneSwitch().build(ASKED.cluster), ASKED.dtype_bytes)

    Xsim(top=6, proof=proof).plan(ASKED, judge)

    whole = [plan for plan in judge.seen if not plan.zero]
    least_ps = min(plan.predicted_ps or 0 for plan in whole)
    assert {plan.name for plan in judge.seen if plan.zero} <= {"cephalo"}
    by_price = sorted(whole, key=lambda plan: plan.predicted_ps or 0)
    assert len({plan.name for plan in by_price}) >= 2
    if proof:
        assert {plan.name for plan in by_price if plan.predicted_ps == least_ps} == {"xsim, proven best by price"}
    for plan in by_price:
        if "above" in plan.name:
            above = float(plan.name.split()[5])
            bound_ps = (plan.predicted_ps or 0) / (1 + above / 100)
            assert bound_ps <= least_ps * 1.001  # rounded
            assert above > 0 or plan.predicted_ps == least_ps


def test_less_money_takes_more_time() -> None:
    fast, cheap = planned(Xsim(top=0)), planned(Xsim(top=0, objective="cost"))

    def usd(plan: DeploymentPlan) -> int:
        return priced_ps(plan) * sum(len(group.ranks) for _, group in plan.groups())  # all cost 1 an hour

    assert usd(cheap) < usd(fast)
    assert priced_ps(cheap) > priced_ps(fast)


def test_the_points_of_a_pareto_set_are_ever_slower_until_there_are_no_more() -> None:
    with pytest.raises(SpecError, match=r"planner.point = 99: the Pareto set has \d+ plans") as caught:
        planned(Xsim(objective="pareto", point=99))

    count = int(caught.value.problem.split()[-2])
    times = [priced_ps(planned(Xsim(objective="pareto", point=point))) for point in range(min(count, 4))]
    assert count >= 2
    assert times == sorted(times)


def test_limits_are_kept() -> None:
    wide = planned(Xsim(top=0, proof=0))
    narrow = planned(Xsim(top=0, proof=0, stages=1, width=1, micro_batch=1))

    assert {len(replica.stages) for replica in narrow.replicas} == {1}
    assert {replica.micro_batch for replica in narrow.replicas} == {1}
    assert priced_ps(narrow) >= priced_ps(wide)


def test_copies_take_as_many_samples_as_the_limit_says() -> None:
    """What the weights take to be read is shared by all samples that are taken at once."""
    asked = question(("fast", 1), layers=4, batch=32, hidden=256, memory=10.0)
    asked = replace(asked, model=replace(asked.model, seq_len=8))
    each = {most: planned(Xsim(top=0, stages=1, micro_batch=most), asked) for most in (8, 32)}

    assert {most: plan.replicas[0].micro_batch for most, plan in each.items()} == {8: 8, 32: 32}
    assert (each[32].predicted_ps or 0) < (each[8].predicted_ps or 0)


def test_copies_of_a_stage_are_found_where_they_help() -> None:
    """Slow devices that can hold nothing whole share a stage with as many copies as the fast one needs."""
    asked = question(("fast", 1), ("slow", 2), layers=4, batch=16, memory=0.11, hidden=512)
    with_copies, without = (planned(Xsim(top=0, width=width), asked) for width in (2, 1))

    assert priced_ps(with_copies, asked) <= priced_ps(without, asked)


def test_recomputation_is_used_only_if_allowed() -> None:
    asked = question(("fast", 1), ("slow", 1), layers=6, batch=16, memory=0.045, hidden=256)
    found, plain = (planned(Xsim(top=0, recompute=allowed), asked) for allowed in (True, False))

    assert any(stage.recompute for replica in found.replicas for stage in replica.stages)
    assert not any(stage.recompute for replica in plain.replicas for stage in replica.stages)
    assert priced_ps(found, asked) < priced_ps(plain, asked)


def test_sequence_parallel_stages_are_cut() -> None:
    found = planned(Xsim(top=0, sequence_parallel=True, proof=0))

    cut = {stage.sequence_parallel for r in found.replicas for stage in r.stages if stage.groups[0].tp > 1}
    assert cut == {True}


def test_a_small_budget_is_told() -> None:
    assert planned(Xsim(top=0, budget=3)).name == "xsim, cut short by its budget"


def test_memory_follows_the_schedule() -> None:
    roomy = planned(Xsim(top=0), TIGHT)
    full = Xsim(top=0).plan(TIGHT, replace(site(TIGHT), schedule=GPipe()))

    assert deployment_memory(TIGHT, check_deployment(full, TIGHT), GPipe().order).fits
    assert priced_ps(full, TIGHT) >= priced_ps(roomy, TIGHT)
    with pytest.raises(SpecError, match="schedule"):
        Xsim(top=0).plan(ASKED, replace(site(ASKED), schedule=DualPipe()))


@pytest.mark.parametrize(
    ("layers", "memory", "told"),
    [
        (4, 0.0005, r"the nearest lacks 1\.33 GB in all; add"),
        (24, 0.3, r"the nearest lacks 0\.2\d GB in all; add"),
    ],
)
def test_what_is_missing_is_told(layers: int, memory: float, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        planned(Xsim(), question(("fast", 1), ("slow", 1), layers=layers, memory=memory))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("objective", "speed"),
        ("stages", 0),
        ("point", -1),
        ("micro_batch", 0),
        ("budget", -1),
        ("width", 3),
        ("micro_batch", 12),
    ],
)
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(SpecError, match=option):
        Xsim(**{option: value})  # type: ignore[arg-type]


def test_the_whole_program_takes_it() -> None:
    result = run(Experiment(scenario=ASKED, planner=Xsim(top=2)))

    assert result.metrics.predicted_s is not None
    assert result.metrics.predicted_s == pytest.approx(result.timeline.makespan_ps / 1e12, rel=0.2)
