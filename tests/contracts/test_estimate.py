"""What every estimate owes, and the formulas of both on numbers that one can work out."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import SMALL, experiments, load
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.families import build, members
from xsim.metrics import Metrics
from xsim.plan.contracts import Estimator
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

EACH = pytest.mark.parametrize("estimate", [pytest.param(cls(), id=name) for name, cls in members("estimate")])


def simulated(scenario: Scenario, name: str, **options: object) -> Result:
    estimate: Estimator = build("estimate", {"name": name, **options})
    return run(Experiment(scenario=scenario, estimate=estimate, memory="report"))


def without(metrics: Metrics) -> Metrics:
    return replace(metrics, estimate_time_s=None, estimate_error=None)


@EACH
@settings(max_examples=max(4, settings().max_examples // 6))
@given(st.data())
def test_an_estimate_stands_beside_the_simulation_and_leaves_it_as_it_is(
    estimate: Estimator, data: st.DataObject
) -> None:
    experiment = replace(data.draw(experiments()), memory="report")
    alone = run(experiment)

    found = run(replace(experiment, estimate=estimate))

    assert without(found.metrics) == alone.metrics
    assert found.timeline.makespan_ps == alone.timeline.makespan_ps
    estimate_s, error = found.metrics.estimate_time_s, found.metrics.estimate_error
    if estimate_s is None:
        assert error is None
        assert "estimate_time_s" not in found.metrics.row()
    else:
        assert estimate_s > 0
        assert error == pytest.approx(estimate_s / found.metrics.training_time_s - 1)
    again = run(replace(experiment, estimate=pickle.loads(pickle.dumps(estimate))))
    assert again.metrics == found.metrics


@pytest.mark.parametrize("replicas", [1, 2])
def test_without_pipelines_and_unlike_devices_the_homogeneous_estimate_is_the_simulation(replicas: int) -> None:
    """But for one of the two syncs that two replicas have, which is partly hidden."""
    plan = DeploymentPlan(
        replicas=tuple(
            Replica(
                stages=(Stage(groups=(DeviceGroup(ranks=ranks, samples=1),), layers=(range(1, 9),)),),
                micro_batch=1,
                micro_batches=3,
            )
            for ranks in ((0, 1), (2, 3))[:replicas]
        )
    )
    cluster = load(ClusterSpec, "fig4")
    scenario = Scenario(cluster=cluster, model=SMALL.model, batch=plan.samples, deployment=plan)

    found = simulated(scenario, "homogeneous").metrics

    assert found.estimate_error is not None
    if replicas == 1:
        assert found.estimate_time_s == found.training_time_s
        assert found.estimate_error == 0
    else:
        assert 0 < found.estimate_error < 0.01


def test_a_homogeneous_estimate_knows_one_device_and_no_bubble() -> None:
    fast, slow, named = (simulated(SMALL, "homogeneous", device=device) for device in ("fastest", "slowest", "a100_40"))

    assert slow.metrics == named.metrics
    assert fast.metrics.estimate_time_s is not None
    assert slow.metrics.estimate_time_s is not None
    assert fast.metrics.estimate_time_s < slow.metrics.estimate_time_s / 1.5
    assert fast.metrics.estimate_time_s < fast.metrics.training_time_s
    with pytest.raises(SpecError, match=r"estimate\.device = 'b200': no rank of the deployment has it; choose one of"):
        simulated(SMALL, "homogeneous", device="b200")


def test_the_formula_of_hexiscale_term_by_term() -> None:
    """Two pipelines of two stages on four nodes of one device each, but for a pair that shares a stage."""
    model = ModelSpec(
        name="round",
        layers=4,
        hidden=1000,
        heads=10,
        kv_heads=10,
        ffn=4000,
        vocab=16_000,
        seq_len=600,
        gated=False,
        norm="layernorm",
        bias=False,
        learned_positions=False,
        tied=False,
    )
    cluster = load(ClusterSpec, "nodes_100g")  # 12.5 GB/s between any two
    device = cluster.hosts[0].devices[0].device
    pairs = (((0, 1), (2,)), ((3,), (4,)))
    layers = ((range(1, 4), range(4, 5)), (range(1, 2), range(2, 5)))
    plan = DeploymentPlan(
        replicas=tuple(
            Replica(
                stages=tuple(
                    Stage(groups=(DeviceGroup(ranks=ranks, samples=2),), layers=(own,))
                    for ranks, own in zip(pair, parts, strict=True)
                ),
                micro_batch=2,
                micro_batches=3,
            )
            for pair, parts in zip(pairs, layers, strict=True)
        )
    )
    scenario = Scenario(cluster=cluster, model=model, batch=12, deployment=plan)

    found = simulated(scenario, "hexiscale")

    layer_s = 72 * 2 * 600 * 1e6 * (1 + 0.1 + 0.25) / device.peak("bf16")
    tensor_s = 2 * 600 * 1000 * 2 / 12.5e9
    first = 3 * (layer_s / 2 + 8 * tensor_s / 2) + 2 * tensor_s, layer_s
    second = layer_s + 2 * tensor_s, 3 * layer_s
    pipelines = [one + 2 * max(one, two) + two for one, two in (first, second)]
    weights_s = 12 * 1e6 * 2 / 12.5e9
    alone, doubled = 2 * weights_s / (1 * 2), 2 * 2 * weights_s / (1 * 2)
    expected = 1.8 * max(pipelines) + 1.1 * (3 * doubled + alone)
    assert found.metrics.estimate_time_s == pytest.approx(expected)


def test_hexiscale_adds_half_to_the_syncs_of_sharded_weights() -> None:
    whole, sharded = (simulated(_equal(zero), "hexiscale").metrics.estimate_time_s for zero in (0, 3))

    assert whole is not None
    assert sharded is not None
    layer_s = 2 * 12 * SMALL.model.hidden**2 * 2 / 2 / 12.5e9
    assert sharded - whole == pytest.approx(0.55 * SMALL.model.layers * layer_s)


def _equal(zero: int) -> Scenario:
    """Two nodes, a replica each."""
    group = (Stage(groups=(DeviceGroup(ranks=(rank,), samples=1),), layers=(range(1, 9),)) for rank in range(2))
    replicas = tuple(Replica(stages=(stage,), micro_batch=1, micro_batches=2) for stage in group)
    plan = DeploymentPlan(replicas=replicas, zero=zero)
    return Scenario(cluster=load(ClusterSpec, "nodes_100g"), model=SMALL.model, batch=4, deployment=plan)
