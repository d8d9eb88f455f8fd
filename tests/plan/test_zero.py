"""Optimizer sharding: who keeps what, what it needs, and what goes over the wires."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given

from tests.examples import TINY, experiments
from tests.plan.toy import cluster, device, lowered, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.memory import Verdict, deployment_memory
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.workload import Compute, Ready, Workload
from xsim.plan.zero import kept_states
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment
from xsim.tables import exchange_table

SPEC = model(layers=8, hidden=1024, heads=16, ffn=4096, vocab=2000, seq_len=64, gated=True, tied=False)


KINDS = ("dense", "embedding", "head")


def replicas(count: int, zero: int, *, bucket_bytes: int | None = None, serial_sync: bool = False) -> Scenario:
    """``count`` replicas of one rank, each with all layers."""
    deployment = plan(*((stage((rank,), layers=range(1, 9)),) for rank in range(count)), micro_batches=3)
    return scenario(
        cluster(*(1,) * count), SPEC, replace(deployment, zero=zero, bucket_bytes=bucket_bytes, serial_sync=serial_sync)
    )


def verdict(question: Scenario) -> Verdict:
    assert question.deployment is not None
    return deployment_memory(question, check_deployment(question.deployment, question), OneFOneB().order)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize(("zero", "whole", "shared"), [(0, 16, 0), (1, 4, 12), (2, 2, 14), (3, 0, 16)])
def test_bytes_per_parameter_as_in_the_zero_paper(count: int, zero: int, whole: int, shared: int) -> None:
    """https://arxiv.org/abs/1910.02054 section 5, figure 1: 16, 4 + 12 / N, 2 + 14 / N, 16 / N."""
    needs = [need for _, need in verdict(replicas(count, zero)).needs]

    fixed = [need.weight_bytes + need.gradient_bytes + need.optimizer_bytes for need in needs]
    assert sum(fixed) == (whole * count + shared) * SPEC.parameters
    assert max(fixed) - min(fixed) <= shared * 3  # a parameter for each of three buckets


@pytest.mark.parametrize("layers", [1, 2, 8])
def test_one_bucket_of_what_is_sharded_is_whole(layers: int) -> None:
    """Of gradients, then of weights too. The embedding and the head, each a bucket, are smaller than a layer."""
    bucket = layers * SPEC.layer_parameters(1)
    plain, gradients, weights = (verdict(replicas(2, zero, bucket_bytes=2 * bucket)).needs[0][1] for zero in (1, 2, 3))

    assert gradients.buffer_bytes == plain.buffer_bytes + 2 * bucket
    assert weights.buffer_bytes == plain.buffer_bytes + 2 * 2 * bucket


def test_what_sharding_saves_is_advised_where_it_is_enough() -> None:
    """States are two thirds of all, and sharding them over two ranks sends no more than a sum does."""
    deployment = plan(*((stage((rank,), layers=range(1, 9)),) for rank in range(2)), micro_batches=3)
    whole, sharded = (scenario(cluster(1, 1), SPEC, replace(deployment, zero=zero)) for zero in (0, 1))
    limit_gb = (verdict(whole).needs[0][1].total_bytes - 2 * 8 * SPEC.layer_parameters(1)) / 1e9
    small = cluster(1, 1, devices=(device(memory_gb=limit_gb),) * 2)

    assert verdict(replace(whole, cluster=small)).text.endswith("; set zero: 1 on the deployment")
    assert verdict(replace(sharded, cluster=small)).fits


@given(experiments())
def test_every_state_is_kept_once(experiment: Experiment) -> None:
    """By those who share it, or by the one group that holds it."""
    question = experiment.scenario
    assert question.deployment is not None
    kept = kept_states(question, check_deployment(question.deployment, question), experiment.schedule.order)

    assert sorted(kept) == sorted(rank for _, group in question.deployment.groups() for rank in group.ranks)
    assert sum(each.parameters for each in kept.values()) == question.model.parameters


def test_a_rank_with_more_memory_may_keep_more() -> None:
    """Shares of 3 and 1: https://arxiv.org/abs/2411.01075 takes what each keeps apart from what it computes."""
    asked = replicas(2, 1)
    assert asked.deployment is not None
    larger, smaller = asked.deployment.replicas
    group = replace(larger.stages[0].groups[0], state_shares=(3.0,))
    larger = replace(larger, stages=(replace(larger.stages[0], groups=(group,)),))
    unequal = replace(asked, deployment=replace(asked.deployment, replicas=(larger, smaller)))

    need = [need.optimizer_bytes for _, need in verdict(unequal).needs]
    bodies = [program.bodies["U", 0] for program in lowered(unequal).programs]
    update = [step.durations_ps[0] for body in bodies for step in body.steps if isinstance(step, Compute)]
    assert need[0] == pytest.approx(3 * need[1], rel=1e-5)
    assert update[0] == pytest.approx(3 * update[1], rel=1e-5)
    assert sum(need) == 12 * SPEC.parameters


def test_an_update_takes_as_long_as_the_shard() -> None:
    whole, sharded = (lowered(replicas(4, zero)) for zero in (0, 1))
    (before,), (after,) = (
        [step.durations_ps[0] for step in workload.programs[0].bodies["U", 0].steps if isinstance(step, Compute)]
        for workload in (whole, sharded)
    )

    assert after == pytest.approx(before / 4, rel=1e-6)


def sent_bytes(workload: Workload) -> Counter[str]:
    found: Counter[str] = Counter()
    for sync in workload.syncs:
        found[sync.does] += int(sync.graph.sent_bytes().sum())
    return found


def test_traffic_of_the_stages() -> None:
    """Both halves together are an all-reduce (ZeRO section 7.2.1); sharded gradients go out in every micro-batch.

    Sharded weights come for each forward and each backward.
    """
    plain, first, second, third = (sent_bytes(lowered(replicas(4, zero))) for zero in range(4))

    assert plain["sum"] == 2 * 3 * SPEC.parameters * 2
    assert first == {"scatter": plain["sum"] // 2, "gather": plain["sum"] // 2}
    assert second == {"scatter": 3 * first["scatter"], "gather": first["gather"]}
    assert third == {"scatter": 3 * first["scatter"], "fetch": 2 * 3 * first["gather"]}


@pytest.mark.parametrize(
    ("name", "way"), [("alpacomm", "rings"), ("ntp", "rings"), ("star", "direct"), ("paramserver", "direct")]
)
def test_halves_that_strategies_share_say_how_they_go(name: str, way: str) -> None:
    result = run(Experiment(scenario=replicas(2, 2), reshard=build("reshard", {"name": name}), memory="report"))
    table = exchange_table(result.workload, result.optimality)

    assert list(table["strategy"]) == [way] * 6
    assert list(table["exchange"]) == [f"sync {does} {x}" for does in ("scatter", "gather") for x in KINDS]
    assert list(table["times"]) == [3] * 3 + [1] * 3


def test_the_table_of_exchanges_names_what_fetches_weights() -> None:
    result = run(Experiment(scenario=replicas(2, 3), memory="report"))

    table = exchange_table(result.workload, result.optimality)

    assert {name.rpartition(" ")[0] for name in map(str, table["exchange"])} == {"sync fetch", "sync scatter"}
    times: Counter[str] = Counter()
    for name, count in zip(table["exchange"], table["times"], strict=True):
        times[str(name)] += int(count)
    assert times["sync fetch dense"] == 2 * times["sync scatter dense"] == 2 * 3


def test_each_micro_batch_has_its_own_syncs() -> None:
    workload = lowered(replicas(2, 2))

    assert [sync.does for sync in workload.syncs] == ["scatter"] * 9 + ["gather"] * 3
    announced = [step for step in workload.programs[0].bodies["B", 0].steps if isinstance(step, Ready)]
    assert announced == [Ready(2, 3), Ready(0, 3), Ready(1, 3)]


def test_serial_syncs_go_from_the_last_layers_to_the_first() -> None:
    workload = lowered(replicas(2, 1, serial_sync=True, bucket_bytes=2 * 4 * SPEC.layer_parameters(1)))

    order = [(sync.does, sync.kind, sync.layers.start) for sync in workload.syncs]
    one = [("head", 9), ("dense", 5), ("dense", 1), ("embedding", 0)]
    assert order == [(does, *each) for does in ("scatter", "gather") for each in one]


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("serial", [False, True])
def test_equal_replicas_have_no_stragglers(zero: int, tied: bool, serial: bool) -> None:
    pipelines = [
        (stage((a,), layers=range(1, 3)), stage((a + 1,), layers=range(3, TINY.layers + 1))) for a in (0, 2, 4)
    ]
    deployment = replace(plan(*pipelines), zero=zero, serial_sync=serial)
    question = scenario(cluster(1, 1, 1, 1, 1, 1), replace(TINY, tied=tied), deployment)

    result = run(Experiment(scenario=question, memory="report", verify=True))

    assert not result.account.cause_ps("straggler_wait").any()
    kinds = dict(result.metrics.operator_time_s)
    assert kinds["grad_gather"] > 0
    assert kinds["grad_param_comm"] > 0
    assert kinds["grad_sync"] == 0


def test_a_lone_replica_has_nothing_to_share() -> None:
    plain, *sharded = (run(Experiment(scenario=replicas(1, zero))).metrics for zero in (0, 2, 3))

    assert sharded == [plain, plain]


def test_unequal_counts_are_refused() -> None:
    deployment = plan((stage((0,), layers=range(1, 9)),), (stage((1,), layers=range(1, 9)),), micro_batches=4)
    unequal = (deployment.replicas[0], replace(deployment.replicas[1], micro_batches=2))
    with pytest.raises(SpecError) as caught:
        scenario(cluster(1, 1), SPEC, DeploymentPlan(replicas=unequal, zero=2))
    assert str(caught.value) == (
        "deployment.replicas[1].micro_batches = 2: replicas[0] has 4, and with zero: 2 gradients are summed after "
        "every micro-batch; give all replicas as many, or write zero: 1"
    )
