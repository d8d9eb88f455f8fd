"""Mixtures of experts: who has which, what goes where, who waits, and what each rank holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.examples import load
from tests.plan.toy import cluster, device, lowered, model, scenario
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.beside import Degrees
from xsim.plan.load import loads, rank_memory
from xsim.plan.memory import deployment_memory
from xsim.plan.mixture import experts_of
from xsim.plan.operator import PASSES, Exchange, ShardedOperator
from xsim.plan.operators import shard_operators
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.remedies import remedies
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.shard import Routing, Shard
from xsim.plan.workload import Collect, Compute
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

DENSE = model(layers=4, hidden=512, heads=8, kv_heads=4, ffn=1024, seq_len=256, gated=True, tied=False)
MIXED = replace(DENSE, experts=8, experts_per_token=2)

Parts = tuple[ShardedOperator | Exchange, ...]


def parts(spec: ModelSpec, routing: Routing, tp: int = 1, index: int = 0, cp: int = 1) -> Parts:
    return shard_operators(Shard(spec, 2, tp, index, "bf16", tp > 1, cp=cp, routing=routing), 1)


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


def plan(ep: int, *, cp: int = 1, tp: int = 1, cells: int = 1, replicas: int = 1, stages: int = 1, **options: Any):  # type: ignore[no-untyped-def]
    layers, size = DENSE.layers // stages, cp * tp

    def stage(first: int, number: int) -> Stage:
        groups = tuple(
            DeviceGroup(ranks=tuple(range(first + g * size, first + (g + 1) * size)), samples=1, cp=cp)
            for g in range(ep * cells)
        )
        own = (range(1 + number * layers, 1 + (number + 1) * layers),)
        again = options.get("recompute", ())
        return Stage(groups=groups, layers=own, sequence_parallel=tp > 1, ep=ep, recompute=again)

    width = ep * cells * size
    return DeploymentPlan(
        replicas=tuple(
            Replica(
                stages=tuple(stage((r * stages + s) * width, s) for s in range(stages)),
                micro_batch=ep * cells,
                micro_batches=2,
            )
            for r in range(replicas)
        ),
        zero=options.get("zero", 0),
        tp_overlap=options.get("tp_overlap", False),
    )


def asked(deployment: DeploymentPlan, spec: ModelSpec = MIXED, **changes: Any) -> Scenario:
    ranks = sum(len(group.ranks) for _, group in deployment.groups())
    return replace(scenario(cluster(ranks), spec, deployment), **changes)


def simulated(question: Scenario, **options: Any) -> Result:
    return run(Experiment(scenario=question, memory="report", **options))


def exchanged(question: Scenario, kind: str = "F") -> list[Collect]:
    body = lowered(question).programs[0].bodies[kind, 0]
    return [step for step in body.steps if isinstance(step, Collect) and step.kind == "experts"]


def sent(steps: list[Collect]) -> np.ndarray[Any, Any]:
    """From rank to rank."""
    found = np.zeros((8, 8), dtype=np.int64)
    for step in steps:
        np.add.at(found, (step.graph.src, step.graph.dst), step.graph.stop - step.graph.start)
    return found


def test_copies_of_tokens_go_to_the_ranks_that_have_their_experts_and_back() -> None:
    """Of two copies of 256 tokens of 512 elements in bf16 three quarters leave a rank of four, each way, each layer."""
    steps = exchanged(asked(plan(4)))

    assert len(steps) == 2 * MIXED.layers
    block = 2 * 256 * 512 * 2 // 4
    expected = np.zeros((8, 8), dtype=np.int64)
    expected[:4, :4] = block * len(steps) * (1 - np.eye(4, dtype=np.int64))
    assert (sent(steps) == expected).all()


def test_an_unequal_load_sends_more_to_some_and_as_much_back() -> None:
    steps = exchanged(asked(plan(2), expert_load=(9.0, 1, 1, 1, 1, 1, 1, 1)))
    there, back = sent(steps[::2]), sent(steps[1::2])

    copies = 2 * 256
    row = MIXED.layers * 512 * 2
    assert there[0, 1] == copies * 4 // 16 * row
    assert there[1, 0] == copies * 12 // 16 * row
    assert (back == there.T).all()


def test_with_tensor_and_context_ranks_each_sends_to_its_like() -> None:
    """Ranks ((position * cp + context) * tp + i): 0 and 4, 1 and 5, 2 and 6, 3 and 7; and tensor ranks gather."""
    pairs = {
        (int(src), int(dst))
        for step in exchanged(asked(plan(2, cp=2, tp=2)))
        for src, dst in zip(step.graph.src, step.graph.dst, strict=True)
    }
    like = {(a, a + 4) for a in range(4)}
    neighbours = {(a, a + 1) for a in (0, 2, 4, 6)}

    assert pairs == {pair for a, b in like | neighbours for pair in ((a, b), (b, a))}


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_every_rank_is_in_one_set_of_each_kind(tp: int, cp: int, ep: int) -> None:
    degrees = Degrees(tp, cp, ep)
    for over, size in (("tensor", tp), ("context", cp), ("expert", ep)):
        sets = list(degrees.sets(over))
        assert sorted(rank for ranks, _ in sets for rank in ranks) == list(degrees.ranks)
        assert {len(ranks) for ranks, _ in sets} == {size}
        for ranks, number in sets:
            assert number == degrees.shard(ranks[0])


def test_the_busiest_rank_sets_the_pace_and_the_others_wait() -> None:
    """Of eight experts on four ranks the first has five times the tokens of the others."""
    even, uneven = (simulated(asked(plan(4), expert_load=load)) for load in ((), (9.0, 1, 1, 1, 1, 1, 1, 1)))

    assert not even.account.cause_ps("straggler_wait").any()
    waited = uneven.account.cause_ps("straggler_wait")
    assert waited[0] == 0
    assert (waited[1:] > 0).all()
    column = uneven.account.operators.index("experts")
    took = uneven.account.operators_ps[:, column]
    assert took[0] == took.max() > took[1] == took[2] == took[3]
    assert uneven.timeline.makespan_ps > even.timeline.makespan_ps
    check_account(uneven.workload, uneven.timeline)


def test_a_slower_device_is_waited_for_in_the_exchange() -> None:
    slow = device("slow", tflops=25)
    hardware = cluster(2, 2, devices=(device(), slow))
    result = simulated(replace(asked(plan(4)), cluster=hardware))

    waited = result.account.cause_ps("straggler_wait")
    assert (waited[:2] > waited[2:]).all()


def test_a_capacity_drops_what_is_over() -> None:
    """An equal share of 1024 copies on each rank is 128 to each of 8 experts; the first would get 9 / 16 of them."""
    load = (9.0, 1, 1, 1, 1, 1, 1, 1)
    tokens = {
        capacity: next(
            p.forward.product.rows * p.forward.product.batch
            for p in parts(MIXED, Routing(8, 0, load, capacity))
            if isinstance(p, ShardedOperator) and p.name == "expert_up" and p.forward and p.forward.product
        )
        for capacity in (0.0, 1.0, 1.25)
    }

    assert tokens == {0.0: 8 * (1024 * 9 // 16), 1.0: 8 * 128, 1.25: 8 * 160}
    all_of, dropped = (simulated(asked(plan(4), expert_load=load, capacity_factor=factor)) for factor in (0.0, 1.0))
    assert dropped.timeline.makespan_ps < all_of.timeline.makespan_ps


def test_gradients_of_experts_are_summed_by_those_who_have_them_the_others_by_all() -> None:
    """Two sets of two groups: experts over the sets, everything else over all four."""
    found = lowered(asked(plan(2, cells=2)))
    ranks = {
        (sync.kind, tuple(sorted({*sync.graph.src.tolist(), *sync.graph.dst.tolist()}))): sync.size_bytes
        for sync in found.syncs
    }

    per_layer = 4 * MIXED.expert_parameters * 2
    assert {key: size for key, size in ranks.items() if key[0] == "expert"} == {
        ("expert", (0, 2)): MIXED.layers * per_layer,
        ("expert", (1, 3)): MIXED.layers * per_layer,
    }
    assert {kind for kind, own in ranks if own == (0, 1, 2, 3)} == {"dense", "embedding", "head"}
    assert sum(ranks.values()) == 2 * MIXED.parameters
    assert all(sync.programs == (0, 1) for sync in found.syncs)


def test_with_a_single_set_experts_are_not_summed_at_all() -> None:
    assert {sync.kind for sync in lowered(asked(plan(4))).syncs} == {"dense", "embedding", "head"}


def test_replicas_may_spread_their_experts_unlike() -> None:
    """Four of one replica hold two each, two of another four each: experts are summed in pieces."""
    wide, narrow = plan(4).replicas[0], plan(2, cells=2).replicas[0]
    moved = tuple(replace(group, ranks=(group.ranks[0] + 4,)) for group in narrow.stages[0].groups[:2])
    second = Replica(stages=(replace(narrow.stages[0], groups=moved),), micro_batch=2, micro_batches=2)
    question = asked(DeploymentPlan(replicas=(wide, second)))
    result = simulated(question, verify=True)

    found = [
        tuple(sorted({*sync.graph.src.tolist(), *sync.graph.dst.tolist()}))
        for sync in result.workload.syncs
        if sync.kind == "expert"
    ]
    assert found == [(0, 4), (1, 4), (2, 5), (3, 5)]
    check_account(result.workload, result.timeline)


def needs(question: Scenario) -> list[Any]:
    assert question.deployment is not None
    complete = check_deployment(question.deployment, question)
    found = {
        rank: rank_memory(question, held.load, index)
        for held in loads(question, complete, GPipe().order)
        for index, rank in enumerate(held.ranks)
    }
    return [found[rank] for rank in sorted(found)]


@pytest.mark.parametrize(("cp", "tp"), [(1, 1), (2, 2)])
def test_a_rank_holds_its_experts_and_all_else(cp: int, tp: int) -> None:
    dense = MIXED.held_parameters(range(6), 0)
    for ep in (1, 2, 4):
        found = needs(asked(plan(ep, cp=cp, tp=tp)))
        experts = MIXED.layers * 8 // ep * MIXED.expert_parameters
        assert len(found) == ep * cp * tp
        assert {need.weight_bytes for need in found} == {2 * (dense + experts) // tp}
        assert {need.optimizer_bytes for need in found} == {12 * (dense + experts) // tp}


def test_states_are_shared_out_by_those_who_have_the_same_experts() -> None:
    found = needs(asked(plan(2, cells=2, zero=1)))

    assert sum(need.optimizer_bytes for need in found) == 12 * MIXED.parameters
    assert max(n.optimizer_bytes for n in found) <= Fraction(101, 100) * min(n.optimizer_bytes for n in found)


def test_what_does_not_fit_may_share_out_its_experts() -> None:
    """They are most of the model: over four groups it fits in little more than half of what it needs whole."""
    question = asked(plan(1, cells=4))
    need = max(each.total_bytes for each in needs(question))
    tight = replace(question, cluster=cluster(4, devices=(device(memory_gb=0.55 * need / 1e9),)))
    assert tight.deployment is not None
    found = deployment_memory(tight, check_deployment(tight.deployment, tight), GPipe().order)

    assert not found.fits
    held = next(iter(loads(tight, check_deployment(tight.deployment, tight), GPipe().order)))
    told = [each.text for each in remedies(tight, tight.deployment, GPipe().order, held, 0)]
    assert "share out its experts over 4 groups (ep: 4)" in told


def test_who_gets_more_tokens_keeps_more() -> None:
    found = needs(asked(plan(4), expert_load=(9.0, 1, 1, 1, 1, 1, 1, 1)))

    assert found[0].activation_bytes > found[1].activation_bytes == found[2].activation_bytes


@pytest.mark.parametrize(
    ("ep", "cp", "tp", "options"),
    [
        (2, 1, 1, {"cells": 2, "stages": 2}),
        (2, 2, 2, {"zero": 1, "tp_overlap": True}),
        (2, 1, 2, {"replicas": 2, "zero": 3}),
        (4, 2, 1, {"recompute": (Recompute(operator="permute", layers=range(1, 5)),)}),
    ],
)
def test_folding_changes_no_number(ep: int, cp: int, tp: int, options: dict[str, Any]) -> None:
    question = asked(plan(ep, cp=cp, tp=tp, **options), expert_load=(2.0, 1, 1, 1, 1, 1, 1, 2), launch_ps=1_000_000)
    folded, walked = (simulated(question, fold=fold, verify=not fold) for fold in (True, False))

    check_account(folded.workload, folded.timeline)
    check_account(walked.workload, walked.timeline)
    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    assert (folded.account.causes_ps == walked.account.causes_ps).all()
    assert (folded.account.operators_ps == walked.account.operators_ps).all()
    assert folded.metrics == walked.metrics


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
