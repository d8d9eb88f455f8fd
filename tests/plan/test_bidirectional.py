"""A bidirectional schedule on its way through lowering, memory, executor, account and trace."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.plan.test_lower import BF16, collects, text
from tests.plan.toy import cluster, lowered, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build, names
from xsim.plan.judge import verify_move, verify_reduce
from xsim.plan.layout import Layout
from xsim.plan.memory import RankMemory, deployment_memory
from xsim.plan.schedule.dualpipe import DualPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.workload import Workload
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment
from xsim.trace import trace_events

GPT = model(layers=8)
LLAMA = model(layers=8, gated=True, tied=False)
ACTIVATION_BYTES = GPT.seq_len * GPT.hidden * BF16


def four_stages(degrees: tuple[int, ...] = (1, 2, 1, 3), micro_batches: int = 8) -> DeploymentPlan:
    """One replica of four stages of 1, 3, 2 and 2 layers."""
    ranks = iter(range(sum(degrees)))
    spans = (range(1, 2), range(2, 5), range(5, 7), range(7, 9))
    stages = (
        stage(tuple(next(ranks) for _ in range(tp)), layers=span) for tp, span in zip(degrees, spans, strict=True)
    )
    return plan(tuple(stages), micro_batches=micro_batches)


def asked(deployment: DeploymentPlan, spec: ModelSpec = GPT) -> Scenario:
    return scenario(cluster(8), spec, deployment)


def both_ways(deployment: DeploymentPlan, spec: ModelSpec = GPT) -> Workload:
    return lowered(asked(deployment, spec), DualPipe())


def test_each_direction_has_its_own_hand_overs() -> None:
    moves = both_ways(four_stages()).moves

    ways = [(m.source, m.target, m.kind, m.source_chunk, m.target_chunk) for m in moves]
    assert [way for way in ways if way[2] == "F"] == [
        (0, 1, "F", 0, 0),
        (1, 2, "F", 0, 0),
        (2, 3, "F", 0, 0),
        (3, 2, "F", 1, 1),
        (2, 1, "F", 1, 1),
        (1, 0, "F", 1, 1),
    ]
    assert [(target, source, "F", *chunks) for source, target, kind, *chunks in ways if kind == "B"] == ways[::2]


def test_a_stage_holds_the_layers_of_the_one_opposite_with_its_own_devices() -> None:
    found = both_ways(four_stages((2, 1, 1, 3))).programs
    layer = "layernorm attention | layernorm mlp |"
    alone = "layernorm attention layernorm mlp"

    assert set(found[0].bodies) == {(kind, chunk) for kind in "FBIW" for chunk in (0, 1)} | {("U", 0)}
    assert text(found[0].bodies["F", 0]) == f"embedding | embedding {layer} layernorm"
    assert text(found[0].bodies["F", 1]) == f"{layer} layernorm {layer} layernorm layernorm head"
    assert text(found[1].bodies["F", 0]).count("attention") == 3
    assert text(found[1].bodies["F", 1]).startswith(alone)
    assert text(found[1].bodies["F", 1]).count("attention") == 2
    assert not collects(found[1].bodies["F", 1])
    assert text(found[3].bodies["F", 1]).startswith("embedding | embedding")
    assert {collect.graph.ranks.size for collect in collects(found[3].bodies["F", 1])} == {3}


def test_the_two_copies_of_every_layer_are_one_sync() -> None:
    syncs = both_ways(four_stages(), LLAMA).syncs

    assert [(s.kind, s.layers, s.programs) for s in syncs] == [
        ("dense", range(1, 2), (0, 3)),
        ("dense", range(2, 5), (1, 2)),
        ("dense", range(5, 7), (1, 2)),
        ("dense", range(7, 9), (0, 3)),
        ("embedding", range(1), (0, 3)),
        ("head", range(9, 10), (0, 3)),
    ]
    assert sum(s.size_bytes for s in syncs) == LLAMA.parameters * BF16


def test_tied_ends_are_one_table_of_each_end() -> None:
    found = both_ways(four_stages())
    ends = [s for s in found.syncs if s.kind != "dense"]

    assert [(s.kind, s.programs, s.size_bytes) for s in ends] == [
        ("embedding", (0, 3), GPT.vocab * GPT.hidden * BF16),
        ("embedding", (0, 3), GPT.seq_len * GPT.hidden * BF16),
        ("head", (0, 3), GPT.norm_parameters * BF16),
    ]
    table = found.syncs.index(ends[0])
    assert f"!{table}" in text(found.programs[0].bodies["W", 0])
    assert f"!{table}" in text(found.programs[3].bodies["W", 1])
    assert f"!{table}" not in text(found.programs[0].bodies["W", 1])


def test_replicas_that_are_cut_elsewhere_synchronise_segment_by_segment() -> None:
    """Two stages each: layers 1-5 and 6-8, 1-2 and 3-8; every rank holds them all, in two parts."""
    pipelines = [
        (stage((a,), layers=range(1, cut)), stage((a + 1,), layers=range(cut, 9))) for a, cut in ((0, 6), (2, 3))
    ]
    dense = [s for s in both_ways(plan(*pipelines), LLAMA).syncs if s.kind == "dense"]

    assert [(s.layers, s.programs) for s in dense] == [
        (range(1, 3), (0, 1, 2, 3)),
        (range(3, 6), (0, 1, 2, 3)),
        (range(6, 9), (0, 1, 2, 3)),
    ]


@given(st.integers(1, 4), st.integers(1, 4))
def test_unlike_degrees_move_and_sum_every_byte_both_ways(a: int, b: int) -> None:
    pipeline = (
        stage(tuple(range(a)), layers=range(1, 4)),
        stage(tuple(range(a, a + b)), layers=range(4, 9)),
    )
    found = both_ways(plan(pipeline, micro_batches=4))

    assert len(found.moves) == 4
    for move in found.moves:
        source, target = (
            Layout.even(found.programs[p].devices.ranks, ACTIVATION_BYTES // BF16, replicated=True)
            for p in (move.source, move.target)
        )
        verify_move(move.graph, source, target, BF16)
    for sync in found.syncs:
        assert sync.programs == (0, 1)
        layouts = [Layout.even(found.programs[p].devices.ranks, sync.size_bytes // BF16) for p in sync.programs]
        verify_reduce(sync.graph, layouts, BF16)


def needs(deployment: DeploymentPlan, schedule: DualPipe | OneFOneB, spec: ModelSpec = LLAMA) -> list[RankMemory]:
    question = asked(deployment, spec)
    found = deployment_memory(question, check_deployment(deployment, question), schedule.order)
    return [need for _, need in found.needs]


def test_weights_are_held_twice() -> None:
    once, twice = (needs(four_stages(), schedule) for schedule in (OneFOneB(), DualPipe()))

    assert sum(need.weight_bytes for need in once) == LLAMA.parameters * BF16
    assert sum(need.weight_bytes for need in twice) == 2 * LLAMA.parameters * BF16
    assert sum(need.optimizer_bytes for need in twice) == 2 * sum(need.optimizer_bytes for need in once)


def test_activations_of_both_directions_are_kept() -> None:
    """Equal inner stages of four, 3 and 2 in 1F1B; here p + 1 = 5 each, whichever direction they belong to."""
    spans = (range(1, 2), range(2, 5), range(5, 8), range(8, 9))
    deployment = plan(tuple(stage((rank,), layers=span) for rank, span in enumerate(spans)), micro_batches=8)
    once, twice = (needs(deployment, schedule) for schedule in (OneFOneB(), DualPipe()))

    one_micro_batch = once[2].activation_bytes // 2
    assert [need.activation_bytes for need in once[1:3]] == [3 * one_micro_batch, 2 * one_micro_batch]
    assert [need.activation_bytes for need in twice[1:3]] == [5 * one_micro_batch] * 2


def test_what_a_deployment_cannot_have_is_named_by_its_replica() -> None:
    three = plan(tuple(stage((r,), layers=s) for r, s in enumerate((range(1, 3), range(3, 6), range(6, 9)))))
    few = four_stages(micro_batches=5)

    with pytest.raises(SpecError, match=r"^deployment\.replicas\[0\]\.stages = 3: dualpipe pairs every stage"):
        both_ways(three)
    with pytest.raises(SpecError, match=r"^deployment\.replicas\[0\]\.micro_batches = 5: dualpipe sends half of them"):
        run(Experiment(scenario=asked(few), schedule=DualPipe()))


@pytest.mark.parametrize("network", names("network"))
def test_a_run_is_judged_accounted_for_and_traced(network: str) -> None:
    """Unlike TP degrees, two groups in a stage, two replicas of which the second goes both ways over two stages."""
    first = four_stages((1, 2, 1, 1)).replicas[0]
    shared = Stage(
        groups=(DeviceGroup(ranks=(5,), samples=1), DeviceGroup(ranks=(6,), samples=1)), layers=(range(1, 4),)
    )
    second = Replica(stages=(shared, stage((7,), layers=range(4, 9), samples=2)), micro_batch=2, micro_batches=2)
    deployment = DeploymentPlan(replicas=(first, second), bucket_bytes=2 * GPT.layer_parameters(1) * BF16)
    members = {"network": build("network", {"name": network})}

    result = run(Experiment(scenario=asked(deployment), schedule=DualPipe(), memory="report", verify=True, **members))

    check_account(result.workload, result.timeline)
    assert result.account.causes_ps.sum(axis=1).tolist() == [result.timeline.makespan_ps] * 8
    events = trace_events(result.workload, result.timeline)
    arrows = Counter(event["tid"] for event in events if event["ph"] == "s" and event["name"] == "activation")
    assert arrows == {0: 4, 1: 8, 3: 8, 4: 4, 5: 1, 6: 1, 7: 2}
    named = {event["name"] for event in events if event.get("cat") == "action" and event["tid"] == 0}
    assert {"F0", "F4.1", "W4.1", "I3", "W3"} <= named
    assert "F0.1" not in named
