"""What experts cost that are spread over ranks: exchanges, sums of gradients, memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.plan.mixtures import MIXED, asked, exchanged, needs, parts, plan, sent, simulated
from tests.plan.toy import cluster, device, lowered
from xsim.plan.beside import Degrees
from xsim.plan.load import loads
from xsim.plan.memory import deployment_memory
from xsim.plan.operator import ShardedOperator
from xsim.plan.remedies import remedies
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.shard import Routing
from xsim.spec.deployment import DeploymentPlan, Recompute, Replica
from xsim.spec.scenario import check_deployment


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
