"""The whole again: whatever is done once instead of twice, or said otherwise, no number changes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.examples import FIG4, SMALL, TINY, backgrounds, experiments, load
from xsim.experiment import Experiment, Result, run
from xsim.families import build, names
from xsim.plan.workload import Action
from xsim.sim.background.none import Quiet
from xsim.sim.contracts import Background
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.scenario import Scenario


@settings(max_examples=settings().max_examples * 5 // 8)
@given(experiment=experiments())
def test_folding_changes_no_number(experiment: Experiment) -> None:
    check_folding(experiment)


@settings(max_examples=settings().max_examples * 3 // 8)
@given(experiment=experiments(), background=backgrounds())
def test_folding_changes_no_number_in_company(experiment: Experiment, background: Background) -> None:
    check_folding(replace(experiment, background=background, seed=7))


def check_folding(experiment: Experiment) -> None:
    """Accounts and figures are those of a run in which nothing is folded."""
    folded, walked = run(experiment), run(replace(experiment, fold=False, verify=True))

    check_account(folded.workload, folded.timeline)
    check_account(walked.workload, walked.timeline)
    assert (walked.timeline.walk >= 0).all()
    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    assert np.array_equal(folded.account.causes_ps, walked.account.causes_ps)
    assert np.array_equal(folded.account.operators_ps, walked.account.operators_ps)
    assert folded.metrics == walked.metrics
    check_optimality(folded)


def check_optimality(result: Result) -> None:
    """Nothing is faster than its bound, and the columns say how near all together come to it."""
    for found, total in (
        (result.optimality.moves, result.metrics.move_optimality),
        (result.optimality.syncs, result.metrics.sync_optimality),
    ):
        assert all(distance.bound_ps <= distance.alone_ps for distance in found)
        best_ps = sum(distance.times * distance.bound_ps for distance in found)
        alone_ps = sum(distance.times * distance.alone_ps for distance in found)
        assert total == (best_ps / alone_ps if alone_ps else 1)
    ran = result.timeline
    for move, distance in zip(result.workload.moves, result.optimality.moves, strict=True):
        sends = (ran.program == move.source) & (ran.chunk == move.source_chunk)
        kinds = ran.kind[sends].tolist()
        assert distance.times == sum(Action(kind, 0).carries == move.kind for kind in kinds) > 0


@pytest.mark.parametrize(("reshard", "percent"), [("lcm", (91, 99)), ("alpacomm", (91, 99)), ("hetauto", (41, 42))])
def test_how_near_strategies_come_to_the_optimum_on_fig4(reshard: str, percent: tuple[int, int]) -> None:
    """Of hand-overs and gradient syncs, rounded down: leaders carry what they gather for others once more."""
    result = run(Experiment(scenario=FIG4, memory="report", reshard=build("reshard", {"name": reshard})))

    check_optimality(result)
    assert (int(100 * result.metrics.move_optimality), int(100 * result.metrics.sync_optimality)) == percent


@settings(max_examples=settings().max_examples * 3 // 8)
@given(experiment=experiments(), background=st.one_of(st.just(Quiet()), backgrounds()))
def test_reuse_changes_no_number(experiment: Experiment, background: Background) -> None:
    experiment = replace(experiment, background=background)
    afresh = replace(experiment, network=build("network", {"name": "flow", "reuse": False}))

    assert run(experiment).metrics == run(afresh).metrics


def test_most_of_fig4_is_folded_where_nothing_disturbs_it() -> None:
    members = {"network": build("network", {"name": "analytic"})}

    timeline = run(Experiment(scenario=SMALL, memory="report", **members)).timeline

    assert (timeline.walk < 0).all()


def test_the_same_experiment_gives_the_same_bytes() -> None:
    experiment = Experiment(scenario=SMALL, memory="report")

    first, second = run(experiment), run(pickle.loads(pickle.dumps(experiment)))

    assert pickle.dumps(first.metrics) == pickle.dumps(second.metrics)
    for name in ("program", "start_ps", "end_ps", "reached_ps", "synced_ps"):
        assert np.array_equal(getattr(first.timeline, name), getattr(second.timeline, name))


def test_a_heterogeneous_twin_with_equal_devices_gives_the_same_numbers() -> None:
    cluster = load(ClusterSpec, "h100x4_a100x4")
    fast = cluster.hosts[0]
    alike = replace(cluster, hosts=(replace(fast, count=2),))
    slot = fast.devices[0]
    renamed = replace(slot, device=replace(slot.device, name="other"), count=2)
    twin = replace(cluster, hosts=(fast, replace(fast, devices=(renamed, replace(slot, count=2)))))
    plan = DeploymentPlan(
        replicas=tuple(
            Replica(
                micro_batch=2,
                micro_batches=4,
                stages=(
                    Stage(groups=(DeviceGroup(ranks=(base, base + 1), samples=2),), layers=(range(1, 3),)),
                    Stage(groups=(DeviceGroup(ranks=(base + 4, base + 5), samples=2),), layers=(range(3, 5),)),
                ),
            )
            for base in (0, 2)
        )
    )

    def metrics(hosts: ClusterSpec, reshard: str) -> object:
        question = Scenario(cluster=hosts, model=TINY, batch=16, deployment=plan)
        return run(Experiment(scenario=question, reshard=build("reshard", {"name": reshard}))).metrics

    for reshard in names("reshard"):
        assert metrics(alike, reshard) == metrics(twin, reshard)


def test_the_uniform_planner_and_the_same_plan_given_agree() -> None:
    question = replace(FIG4, cluster=load(ClusterSpec, "gpt3_1024"), deployment=None, batch=1024)
    uniform = Experiment(
        scenario=replace(question, cluster=_first_hosts(question.cluster, 2), batch=16),
        planner=build("planner", {"name": "uniform", "tp": 4, "pp": 2}),
        memory="report",
    )
    planned = run(uniform)

    given_plan = replace(uniform.scenario, deployment=planned.deployment)
    again = run(Experiment(scenario=given_plan, memory="report"))

    assert again.metrics == planned.metrics
    assert planned.account.cause_ps("straggler_wait").sum() == 0


def _first_hosts(cluster: ClusterSpec, count: int) -> ClusterSpec:
    return replace(cluster, hosts=(replace(cluster.hosts[0], count=count),))


def test_fig4_is_folded_in_part_where_transfers_pass() -> None:
    timeline = run(Experiment(scenario=SMALL, memory="report")).timeline

    whole = int((timeline.walk < 0).sum())
    assert 0 < whole < len(timeline.walk)
