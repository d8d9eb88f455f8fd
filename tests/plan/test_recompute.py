"""What is dropped after the forward pass and computed again: its time, its collectives, its memory, and gradients of a
width of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, device, lowered, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.plan.attention import CORE
from xsim.plan.compute.roofline import Roofline
from xsim.plan.memory import deployment_memory
from xsim.plan.operator import ShardedOperator
from xsim.plan.operators import layer_operators
from xsim.plan.planner.uniform import Uniform
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.workload import Body, Collect, Compute
from xsim.spec.deployment import DeploymentPlan, Recompute
from xsim.spec.scenario import Scenario, check_deployment

GPT = model(layers=4, hidden=512, heads=8, ffn=2048, vocab=1000, seq_len=256)
NAMES = ("attention_norm", "qkv", "core", "out", "attention_residual", "mlp_norm", "up", "activation", "down")


def asked(*again: str, tp: int = 2, attention: str = "flash") -> Scenario:
    """Two stages of two layers, all of which compute ``again``."""
    entries = tuple(Recompute(operator=name, layers=range(1, 5)) for name in again)

    def own(ranks: tuple[int, ...], layers: range) -> tuple[Recompute, ...]:
        return tuple(replace(entry, layers=layers) for entry in entries)

    parts = ((tuple(range(tp)), range(1, 3)), (tuple(range(tp, 2 * tp)), range(3, 5)))
    stages = tuple(replace(stage(ranks, layers=layers), recompute=own(ranks, layers)) for ranks, layers in parts)
    question = scenario(cluster(2 * tp), GPT, plan(stages))
    return replace(question, attention=attention)  # type: ignore[arg-type]


def computed_ps(body: Body) -> int:
    return sum(step.durations_ps[0] for step in body.steps if isinstance(step, Compute))


def collects(body: Body) -> int:
    return sum(isinstance(step, Collect) for step in body.steps)


def forward_ps(question: Scenario, *names: str) -> int:
    """Of these operators, in both layers of a stage."""
    parts = layer_operators(question, 1, samples=1, tp=2, index=0, sequence_parallel=False)
    own = [part for part in parts if isinstance(part, ShardedOperator) and part.name in names]
    return 2 * sum(Roofline().time_ps(device(), operator, "forward") for operator in own)


def test_a_layer_that_is_recomputed_goes_forward_twice_with_its_collectives() -> None:
    usual, again = (lowered(asked(*names)).programs[1].bodies for names in ((), ("full",)))
    layers_ps = forward_ps(asked(), *NAMES, "mlp_residual")

    assert computed_ps(again["B", 0]) - computed_ps(usual["B", 0]) == layers_ps > 0
    assert collects(again["B", 0]) == collects(usual["B", 0]) + 4  # two of each layer's forward pass
    assert computed_ps(again["F", 0]) == computed_ps(usual["F", 0])


@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_what_is_recomputed_takes_its_forward_time_once_more(names: set[str]) -> None:
    usual, again = (lowered(asked(*some)).programs[1].bodies["B", 0] for some in ((), sorted(names)))

    assert computed_ps(again) - computed_ps(usual) == forward_ps(asked(), *names)


def test_selective_recomputation_is_attention_between_its_projections() -> None:
    usual, again = (
        lowered(asked(*some, attention="unfused")).programs[1].bodies["B", 0] for some in ((), ("selective",))
    )

    assert computed_ps(again) - computed_ps(usual) == forward_ps(asked(attention="unfused"), *CORE)
    assert collects(again) == collects(usual)


def test_the_first_half_of_a_backward_recomputes() -> None:
    usual, again = (lowered(asked(*some), ZbH1()).programs[0].bodies for some in ((), ("full",)))

    assert computed_ps(again["I", 0]) - computed_ps(usual["I", 0]) == forward_ps(asked(), *NAMES, "mlp_residual")
    assert again["W", 0].steps == usual["W", 0].steps


@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_recomputation_spares_memory_and_what_is_dropped_is_there_again_for_a_layer(attention: str) -> None:
    def peak(*names: str) -> int:
        question = asked(*names, attention=attention)
        assert question.deployment is not None
        needs = deployment_memory(question, check_deployment(question.deployment, question), OneFOneB().order).needs
        return needs[0][1].activation_bytes

    tokens = GPT.seq_len * GPT.hidden * 2
    inputs = 2 * 2 * tokens  # two layers keep their input for two micro-batches
    assert peak("full") < peak("selective") <= peak()
    assert inputs < peak("full") < inputs + peak() // 2


def test_gradients_have_a_width_of_their_own() -> None:
    deployment = plan(*((stage((rank,), layers=range(1, 5)),) for rank in range(2)))
    narrow = scenario(cluster(2), GPT, replace(deployment, zero=1))
    wide = replace(narrow, gradient_dtype="fp32")

    found = [run(Experiment(scenario=each)).workload.syncs for each in (narrow, wide)]

    for one, other in zip(*found, strict=True):
        assert other.size_bytes == one.size_bytes * (2 if one.does == "scatter" else 1)
        assert other.graph.stop.max() == one.graph.stop.max() * (2 if one.does == "scatter" else 1)


def test_an_operator_that_the_layers_do_not_have_is_refused() -> None:
    with pytest.raises(SpecError, match=r"stages\[0\].recompute\[0\].operator = 'gelu': no layer of this model has"):
        run(Experiment(scenario=asked("gelu")))
    question = replace(asked(), deployment=None, batch=8)
    with pytest.raises(SpecError, match=r"^planner\.recompute = 'gelu': no layer of this model has such an operator"):
        run(Experiment(scenario=question, planner=Uniform(tp=2, recompute="gelu")))


def test_layers_that_a_stage_does_not_have_are_refused() -> None:
    question = asked()
    assert question.deployment is not None
    first = question.deployment.replicas[0]
    stray = (Recompute(operator="full", layers=range(2, 4)),)
    stages = (replace(first.stages[0], recompute=stray), *first.stages[1:])
    broken = DeploymentPlan(replicas=(replace(first, stages=stages),))

    with pytest.raises(
        SpecError, match=r"stages\[0\].recompute\[0\].layers = .*: the stage has no transformer layer 3"
    ):
        check_deployment(broken, question)
