"""What a deployment says is what its JSON says: no field is lost on the way out and back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_sketch import TWO_KINDS, asked, drawn
from xsim.errors import SpecError
from xsim.interop.plans.as_json import SWITCHES, plan_json
from xsim.interop.plans.interchange import read_plan
from xsim.interop.plans.target import Target
from xsim.plan.sketch import Sketch, place, sketch_of
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.scenario import Scenario, check_deployment

OWN = {"replicas", "name", "bucket_bytes", "zero", "predicted_ps", *SWITCHES}


def written_and_read(deployment: DeploymentPlan, scenario: Scenario) -> DeploymentPlan:
    text = plan_json(sketch_of(deployment, scenario), scenario)
    return place(read_plan(text, Target(replace(scenario, deployment=None)), "plan").sketch, scenario)


@st.composite
def deployments(draw: st.DrawFn, case: tuple[Sketch, Scenario]) -> DeploymentPlan:
    """A plan of ``drawn`` that recomputes anywhere, and says whatever a plan can say besides."""
    sketch, scenario = case
    deployment = place(sketch, scenario)
    replicas = tuple(
        replace(replica, stages=tuple(draw(_recomputing(stage, scenario.model.layers)) for stage in replica.stages))
        for replica in deployment.replicas
    )
    zero = draw(st.integers(0, 3))
    switches: dict[str, Any] = {name: draw(st.booleans()) for name in SWITCHES}
    return replace(
        deployment,
        replicas=replicas,
        zero=zero,
        bucket_bytes=draw(st.none() | st.integers(1, 2**40)),
        predicted_ps=draw(st.none() | st.integers(1, 10**15)),
        **{**switches, "gather_overlap": switches["gather_overlap"] and zero > 0},
    )


@st.composite
def _recomputing(draw: st.DrawFn, stage: Stage, layers: int) -> Stage:
    held = [layer for layer in stage.layers[0] if 1 <= layer <= layers]
    found: list[Recompute] = []
    for operator in draw(st.lists(st.sampled_from(("qkv", "mlp_norm", "mlp_norm")), unique=True)):
        runs = sorted(draw(st.sets(st.sampled_from(held), min_size=1)))
        found += [Recompute(operator=operator, layers=range(layer, layer + 1)) for layer in runs]
    return replace(stage, recompute=tuple(found))


def joined_up(deployment: DeploymentPlan) -> DeploymentPlan:
    """With what is recomputed layer by layer, as runs of layers may be written in several ways."""
    return replace(
        deployment,
        replicas=tuple(
            replace(
                replica,
                stages=tuple(
                    replace(
                        stage,
                        recompute=tuple(
                            Recompute(operator=entry.operator, layers=range(layer, layer + 1))
                            for entry in stage.recompute
                            for layer in entry.layers
                        ),
                    )
                    for stage in replica.stages
                ),
            )
            for replica in deployment.replicas
        ),
    )


@given(drawn(), st.data())
def test_every_field_of_a_deployment_comes_back(case: tuple[Sketch, Scenario], data: st.DataObject) -> None:
    try:
        deployment = data.draw(deployments(case))
        check_deployment(deployment, case[1])
    except SpecError:  # no host has room for it, or its states cannot be shared out: nothing to write
        return

    assert joined_up(written_and_read(deployment, case[1])) == joined_up(deployment)


def test_a_new_field_of_a_deployment_has_to_be_written_too() -> None:
    assert {field.name for field in fields(DeploymentPlan)} == OWN


def one_stage(**more: Any) -> DeploymentPlan:
    groups = (DeviceGroup(ranks=(0, 1), samples=3), DeviceGroup(ranks=(8,), samples=1))
    stage = replace(Stage(groups=groups, layers=(range(8),)), **more)
    return DeploymentPlan(replicas=(Replica(stages=(stage,), micro_batch=4, micro_batches=2),))


@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "gather_overlap"])
def test_switches_and_buckets_are_kept_without_zero(name: str) -> None:
    scenario = asked(TWO_KINDS, 8)
    switched: dict[str, Any] = {name: True}
    deployment = replace(one_stage(), bucket_bytes=25_000_000, **switched)

    assert written_and_read(deployment, scenario) == deployment


def test_layers_that_recompute_are_listed_where_they_are_not_the_first() -> None:
    scenario = asked(TWO_KINDS, 8)
    deployment = one_stage(
        recompute=(
            Recompute(operator="qkv", layers=range(1, 3)),
            Recompute(operator="mlp_norm", layers=range(2, 4)),
            Recompute(operator="mlp_norm", layers=range(6, 7)),
        )
    )
    said = json.loads(plan_json(sketch_of(deployment, scenario), scenario))["pipelines"][0]["stages"][0]

    assert said["recompute"] == {"qkv": [0, 1], "mlp_norm": [1, 2, 5]}
    assert written_and_read(deployment, scenario) == deployment


def test_an_operator_by_two_names_is_refused() -> None:
    """Else which of the two is meant would be a guess."""
    scenario = asked(TWO_KINDS, 8)
    plan = json.loads(plan_json(sketch_of(one_stage(), scenario), scenario))
    plan["pipelines"][0]["stages"][0]["recompute"] = {"QKV": [2], "qkv": [3]}

    with pytest.raises(SpecError, match="it says qkv a second time; say it once"):
        read_plan(json.dumps(plan), Target(scenario), "plan")


@pytest.mark.parametrize(
    ("layers", "problem"), [([1, 9], "the stage has the transformer layers 1 to 6"), ([1, 1], "list each layer once")]
)
def test_layers_that_a_stage_does_not_have_are_refused(layers: list[int], problem: str) -> None:
    scenario = asked(TWO_KINDS, 8)
    plan = json.loads(plan_json(sketch_of(one_stage(), scenario), scenario))
    plan["pipelines"][0]["stages"][0]["recompute"] = {"qkv": layers}

    with pytest.raises(SpecError, match=problem):
        read_plan(json.dumps(plan), Target(scenario), "plan")


def test_micro_batches_of_a_stage_alone_are_refused() -> None:
    scenario = asked(TWO_KINDS, 8)
    first = Stage(groups=(DeviceGroup(ranks=(0, 1), samples=4),), layers=(range(4),))
    last = Stage(groups=(DeviceGroup(ranks=(8,), samples=2),), layers=(range(4, 8),), micro_batch=2)
    deployment = DeploymentPlan(replicas=(Replica(stages=(first, last), micro_batch=4, micro_batches=2),))

    with pytest.raises(SpecError, match=r"stages\[1\].micro_batch = 2: micro-batches of a stage's own cannot be said"):
        sketch_of(deployment, scenario)
