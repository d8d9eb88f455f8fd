"""Mixtures of experts: who has which, what goes where, who waits, and what each rank holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import load
from tests.plan.mixtures import DENSE, MIXED, Parts, asked, exchanged, parts, plan, simulated
from tests.plan.toy import cluster, lowered, model
from xsim.errors import SpecError
from xsim.families import build
from xsim.plan.mixture import experts_of
from xsim.plan.operator import PASSES, ShardedOperator
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.shard import Routing
from xsim.plan.workload import Compute
from xsim.spec.deployment import DeploymentPlan, Recompute, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario


def flops(found: Parts) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for operator in (part for part in found if isinstance(part, ShardedOperator)):
        counted.update({(operator.name, pass_): operator.work(pass_).flops for pass_ in PASSES})
    return counted


def test_mixtral_has_its_parameters_and_flops() -> None:
    """Table 1 and the abstract of https://arxiv.org/abs/2401.04088: 47 billion parameters, 13 of them for a token."""
    mixtral = load(ModelSpec, "mixtral_8x7b")
    active = mixtral.parameters - 32 * (8 - 2) * mixtral.expert_parameters

    assert mixtral.parameters == 46_702_792_704
    assert round(active / 1e9, 1) == 12.9
    table = mixtral.vocab * mixtral.hidden  # looked up, not multiplied; norms are no products either
    norms = 65 * mixtral.hidden
    attention = 12 * mixtral.layers * mixtral.hidden * mixtral.seq_len
    assert mixtral.flops_per_sample == mixtral.seq_len * (6 * (active - table - norms) + attention)


specs = st.builds(
    lambda experts, top, shared, gated: replace(
        model(layers=1, hidden=48, heads=4, ffn=36, vocab=60, seq_len=24, gated=gated),
        bias=False,
        experts=experts,
        experts_per_token=min(top, experts),
        shared_ffn=shared,
    ),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from((0, 20)),
    st.booleans(),
)


@given(specs, st.integers(1, 4), st.sampled_from((1, 2, 3)), st.sampled_from((1, 2)), st.data())
def test_all_ranks_together_do_what_one_would_for_all_tokens(
    spec: ModelSpec, ep: int, tp: int, cp: int, data: st.DataObject
) -> None:
    """However experts, their width, sequences and samples are cut, and whatever the load of each expert."""
    ep = min(ep, spec.experts)
    share = st.floats(0.1, 10)
    load = data.draw(st.just(()) | st.lists(share, min_size=spec.experts, max_size=spec.experts).map(tuple))
    whole = flops(parts(spec, Routing(load=load)))
    together: Counter[tuple[str, str]] = Counter()
    for position in range(ep):
        for index in range(tp):
            for _ in range(cp):
                together.update(flops(parts(spec, Routing(ep, position, load), tp, index, cp)))

    for (name, pass_), count in whole.items():
        assert together[name, pass_] == ep * count, (name, pass_)


@given(specs, st.integers(1, 4), st.sampled_from((1, 2)))
def test_expert_parallel_ranks_share_out_parameters_and_what_is_kept(spec: ModelSpec, ep: int, tp: int) -> None:
    ep = min(ep, spec.experts)
    experts = [experts_of(spec.experts, ep, position) for position in range(ep)]

    assert [expert for own in experts for expert in own] == list(range(spec.experts))
    dense = spec.held_parameters(range(3), 0)
    assert sum(spec.held_parameters(range(3), len(own)) - dense for own in experts) == (
        spec.experts * spec.expert_parameters
    )
    one = sum(t.size_bytes for t in kept_tensors(parts(spec, Routing(), tp)))
    many = [sum(t.size_bytes for t in kept_tensors(parts(spec, Routing(ep, position), tp))) for position in range(ep)]
    assert sum(many) == ep * one


def test_what_is_sorted_again_is_sent_again() -> None:
    """Of what is dropped after it was sent only the sender has the source."""
    entries = (Recompute(operator="permute", layers=range(1, 5)),)
    once, twice = (exchanged(asked(plan(4, recompute=again)), "B") for again in ((), entries))

    assert recomputed(entries, 1, parts(MIXED, Routing(4))) == {"permute"}
    assert len(twice) - len(once) == MIXED.layers


def test_a_shared_expert_sees_every_token() -> None:
    shared = replace(MIXED, shared_ffn=2048)
    question = asked(plan(2), shared)
    kinds = Counter(
        step.kind for step in lowered(question).programs[0].bodies["F", 0].steps if isinstance(step, Compute)
    )

    assert kinds["mlp"] == MIXED.layers
    assert shared.parameters - MIXED.parameters == MIXED.layers * 3 * 512 * 2048


def test_the_planner_spreads_experts_over_neighbouring_copies() -> None:
    question = Scenario(cluster=cluster(16), model=MIXED, batch=16)
    member = build("planner", {"name": "uniform", "tp": 2, "ep": 2, "pp": 2, "sequence_parallel": True})
    found = member.plan(question, None)

    assert found.name == "uniform_tp2_ep2_pp2_dp4"
    ranks = [[[group.ranks for group in stage.groups] for stage in replica.stages] for replica in found.replicas]
    assert ranks == [[[(0, 1), (2, 3)], [(8, 9), (10, 11)]], [[(4, 5), (6, 7)], [(12, 13), (14, 15)]]]
    assert {stage.ep for replica in found.replicas for stage in replica.stages} == {2}
    assert found.samples == 16
    with pytest.raises(SpecError, match=r"planner.ep = 3: it does not divide the 16 data-parallel copies of a stage"):
        build("planner", {"name": "uniform", "tp": 1, "ep": 3}).plan(question, None)


def test_hexiscale_estimates_no_mixture() -> None:
    found = simulated(asked(plan(2)), estimate=build("estimate", {"name": "hexiscale"}))

    assert found.metrics.estimate_time_s is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experts_per_token": 9}, "experts_per_token = 9: a token goes to 1 to 8 of its experts"),
        ({"experts": 0, "expert_ffn": 8}, "experts_per_token = 2: the model has no experts"),
        ({"bias": True}, "bias = True: experts with biases are not simulated; write bias: false"),
    ],
)
def test_models_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        replace(MIXED, **change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("deployment", "spec", "changes", "message"),
    [
        (plan(2), DENSE, {}, "stages[0].ep = 2: the model has no experts; write ep: 1"),
        (plan(2), MIXED, {"expert_load": (1.0, 2.0)}, "expert_load = [1.0, 2.0]: 2 shares for 8 experts"),
        (
            plan(2),
            MIXED,
            {"expert_load": (0.0,) * 8},
            "shares are 0 or more and less than 1e+06, and not all of them 0",
        ),
        (plan(2), MIXED, {"capacity_factor": -1.0}, "capacity_factor = -1.0: it is not within 0 and 1000"),
        (plan(1), DENSE, {"capacity_factor": 1.0}, "capacity_factor = 1.0: the model has no experts; leave it out"),
    ],
)
def test_scenarios_that_cannot_be(
    deployment: DeploymentPlan, spec: ModelSpec, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        asked(deployment, spec, **changes)
    assert message in str(caught.value)


def refused(stage: Stage) -> str:
    replica = Replica(stages=(stage,), micro_batch=stage.samples, micro_batches=1)
    with pytest.raises(SpecError) as caught:
        asked(DeploymentPlan(replicas=(replica,)))
    return str(caught.value)


def test_groups_that_share_out_experts_come_out_even_and_alike() -> None:
    stage = plan(4).replicas[0].stages[0]
    unlike = replace(stage.groups[0], samples=2)
    wide = replace(stage.groups[0], ranks=(0, 4))

    assert "stages[0].ep = 3: the stage's 4 groups do not come out in sets of 3" in refused(replace(stage, ep=3))
    for group in (unlike, wide):
        told = refused(replace(stage, groups=(group, *stage.groups[1:]), sequence_parallel=True))
        assert "stages[0].ep = 4: groups that share out experts differ in ranks, cp or samples; make them alike" in told
    cut = [replace(g, ranks=(2 * i, 2 * i + 1), tp_shares=(2.0, 1.0)) for i, g in enumerate(stage.groups)]
    assert "unequal tp_shares are not cut" in refused(replace(stage, groups=tuple(cut), sequence_parallel=True))
    assert "sequence_parallel = False: tensor ranks without parts of the sequence" in refused(
        replace(stage, groups=tuple(replace(g, tp_shares=()) for g in cut))
    )
