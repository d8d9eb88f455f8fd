from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, device, lowered, model, plan, scenario, stage
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Pass
from xsim.plan.judge import verify_move, verify_reduce
from xsim.plan.layout import Layout
from xsim.plan.operator import ShardedOperator
from xsim.plan.operators import layer_operators
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.workload import Body, Collect, Compute, Program, Ready, Workload
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec

GPT = model()
LLAMA = model(layers=32, gated=True, tied=False)
BF16 = 2


def two_stages(*, sequence_parallel: bool = False, bucket_bytes: int | None = None) -> DeploymentPlan:
    """Two replicas of TP 2, PP 2."""
    pipelines = [
        (
            stage((a, a + 1), layers=range(1, 3), sequence_parallel=sequence_parallel),
            stage((b, b + 1), layers=range(3, 5), sequence_parallel=sequence_parallel),
        )
        for a, b in ((0, 4), (2, 6))
    ]
    return plan(*pipelines, bucket_bytes=bucket_bytes)


def workload(deployment: DeploymentPlan, spec: ModelSpec = GPT) -> Workload:
    ranks = 1 + max(rank for _, group in deployment.groups() for rank in group.ranks)
    return lowered(scenario(cluster(ranks), spec, deployment))


def collects(body: Body) -> list[Collect]:
    return [step for step in body.steps if isinstance(step, Collect)]


def computed(body: Body) -> Counter[str]:
    """Time of the first rank by kind."""
    found: Counter[str] = Counter()
    for step in body.steps:
        if isinstance(step, Compute):
            found[step.kind] += step.durations_ps[0]
    return found


def ready(program: Program) -> list[int]:
    steps = (step for (kind, _), body in program.bodies.items() if kind == "B" for step in body.steps)
    return [step.sync for step in steps if isinstance(step, Ready)]


def text(body: Body) -> str:
    """A body to read: computed kinds, ``|`` for a collective, ``!n`` when sync n is ready."""
    words = []
    for step in body.steps:
        match step:
            case Compute(kind=kind):
                words.append(kind)
            case Collect():
                words.append("|")
            case Ready(sync=sync):
                words.append(f"!{sync}")
    return " ".join(words)


def test_programs_come_in_order_of_replica_and_stage_with_a_body_per_action() -> None:
    programs = workload(two_stages()).programs

    assert [(p.replica, p.stage, p.group, p.devices.ranks) for p in programs] == [
        (0, 0, 0, (0, 1)),
        (0, 1, 0, (4, 5)),
        (1, 0, 0, (2, 3)),
        (1, 1, 0, (6, 7)),
    ]
    assert all(set(p.bodies) == {("F", 0), ("B", 0), ("U", 0)} for p in programs)


def test_bodies_read_like_the_model() -> None:
    first, last = workload(two_stages()).programs[:2]
    forward = "layernorm attention | layernorm mlp | layernorm"
    backward = "layernorm mlp | layernorm attention | layernorm"

    assert text(first.bodies["F", 0]) == f"embedding | embedding {forward} {forward}"
    assert text(first.bodies["B", 0]) == f"{backward} {backward} !0 embedding !2 !3"
    assert text(last.bodies["F", 0]) == f"{forward} {forward} layernorm head"
    assert text(last.bodies["B", 0]) == f"head | layernorm !2 !4 {backward} {backward} !1"
    assert text(first.bodies["U", 0]) == "optimizer"


def test_a_backward_in_halves_is_the_same_work() -> None:
    deployment = two_stages(sequence_parallel=True)
    asked = scenario(cluster(8), GPT, deployment)
    whole, halved = lowered(asked, OneFOneB()).programs, lowered(asked, ZbH1()).programs

    for one, two in zip(whole, halved, strict=True):
        assert set(two.bodies) == {("F", 0), ("I", 0), ("W", 0), ("U", 0)}
        backward, first, second = one.bodies["B", 0], two.bodies["I", 0], two.bodies["W", 0]
        assert computed(first) + computed(second) == computed(backward)
        assert [c.kind for c in collects(first)] == [c.kind for c in collects(backward)]
        assert computed(second)["attention"] > 0
        assert computed(second)["layernorm"] == 0
        assert not collects(second)
        assert not [step for step in first.steps if isinstance(step, Ready)]
        assert [s for s in second.steps if isinstance(s, Ready)] == [s for s in backward.steps if isinstance(s, Ready)]
    assert text(halved[0].bodies["W", 0]) == "mlp attention mlp attention !0 embedding !2 !3"
    assert [(move.kind, move.source, move.target) for move in lowered(asked, ZbH1()).moves] == [
        (move.kind, move.source, move.target) for move in lowered(asked, OneFOneB()).moves
    ]


def test_two_collectives_per_layer_and_direction_with_sequence_parallelism_four() -> None:
    plain, cut = (workload(two_stages(sequence_parallel=on)).programs[1] for on in (False, True))

    assert [len(collects(plain.bodies[kind, 0])) for kind in "FB"] == [2 * 2, 2 * 2 + 1]
    assert [len(collects(cut.bodies[kind, 0])) for kind in "FB"] == [4 * 2 + 1, 4 * 2 + 1]


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_tensor_collectives_carry_the_activations_in_bytes(*, sequence_parallel: bool) -> None:
    program = workload(two_stages(sequence_parallel=sequence_parallel)).programs[0]

    for collect in collects(program.bodies["F", 0]):
        assert collect.graph.stop.max() == GPT.seq_len * GPT.hidden * BF16
        assert not (collect.graph.start % BF16).any()
        assert collect.graph.ranks.tolist() == [0, 1]


def test_without_tensor_parallelism_there_are_no_collectives_and_equal_stages_share_bodies() -> None:
    deployment = plan(tuple(stage((i,), layers=range(i + 1, i + 2)) for i in range(4)))
    programs = workload(deployment).programs

    assert not [c for program in programs for body in program.bodies.values() for c in collects(body)]
    assert programs[1].bodies["F", 0] is programs[2].bodies["F", 0]
    assert programs[1].bodies["B", 0] is programs[2].bodies["B", 0]
    assert programs[0].bodies["F", 0] is not programs[1].bodies["F", 0]


@given(st.integers(1, 3), st.integers(1, 8), st.booleans())
def test_no_time_of_an_operator_is_lost(samples: int, tp: int, sequence_parallel: bool) -> None:
    deployment = plan(
        (stage(tuple(range(tp)), layers=range(1, 5), samples=samples, sequence_parallel=sequence_parallel),)
    )
    program = workload(deployment).programs[0]

    for index in range(tp):
        parts = (
            part
            for layer in range(GPT.layers + 2)
            for part in layer_operators(
                scenario(cluster(tp), GPT, deployment),
                layer,
                samples=samples,
                tp=tp,
                index=index,
                sequence_parallel=sequence_parallel,
            )
        )
        operators = [part for part in parts if isinstance(part, ShardedOperator)]
        passes: dict[str, tuple[Pass, ...]] = {"F": ("forward",), "B": ("input_gradient", "weight_gradient")}
        for kind, own in passes.items():
            steps = program.bodies[kind, 0].steps
            found = sum(step.durations_ps[index] for step in steps if isinstance(step, Compute))
            assert found == sum(Roofline().time_ps(device(), each, pass_) for each in operators for pass_ in own)


def test_unlike_devices_in_one_group_take_unlike_times() -> None:
    hardware = cluster(1, 1, devices=(device("fast", 100.0), device("slow", 50.0)))
    spec = model(hidden=512, ffn=2048, seq_len=512)
    program = lowered(scenario(hardware, spec, plan((stage((1, 0), layers=range(1, 5)),)))).programs[0]

    slow, fast = next(
        s.durations_ps for s in program.bodies["F", 0].steps if isinstance(s, Compute) and s.kind == "mlp"
    )
    assert slow > fast


def test_the_figure_4_deployment_synchronises_as_the_sweep_line_says() -> None:
    """Paper section 4.3: layers 1-15, 16-20 and 21-32; the ends are synchronised by their own holders."""
    deployment = plan(
        (stage((0, 1, 2), layers=range(1, 21)), stage((5, 6), layers=range(21, 33))),
        (stage((3, 4), layers=range(1, 16)), stage((7, 8, 9), layers=range(16, 33))),
    )
    found = workload(deployment, LLAMA)

    dense = [(s.layers, s.graph.ranks.tolist()) for s in found.syncs if s.kind == "dense"]
    assert dense == [
        (range(1, 16), [0, 1, 2, 3, 4]),
        (range(16, 21), [0, 1, 2, 7, 8, 9]),
        (range(21, 33), [5, 6, 7, 8, 9]),
    ]
    ends = [(s.kind, s.graph.ranks.tolist()) for s in found.syncs if s.kind != "dense"]
    assert ends == [("embedding", [0, 1, 2, 3, 4]), ("head", [5, 6, 7, 8, 9])]
    assert sum(s.size_bytes for s in found.syncs) == LLAMA.parameters * BF16


def test_every_member_of_a_sync_gets_ready_once() -> None:
    found = workload(two_stages())

    for number, program in enumerate(found.programs):
        assert sorted(ready(program)) == [i for i, sync in enumerate(found.syncs) if number in sync.programs]


def test_tied_copies_of_the_token_table_are_one_sync_and_the_rest_of_the_ends_apart() -> None:
    ends = [s for s in workload(two_stages()).syncs if s.kind != "dense"]

    assert [(s.kind, s.programs, s.size_bytes) for s in ends] == [
        ("embedding", (0, 1, 2, 3), GPT.vocab * GPT.hidden * BF16),
        ("embedding", (0, 2), GPT.seq_len * GPT.hidden * BF16),
        ("head", (1, 3), GPT.norm_parameters * BF16),
    ]


def test_a_group_with_both_copies_of_the_table_has_one_that_is_ready_at_the_end() -> None:
    found = workload(plan((stage((0,), layers=range(1, 5)),), (stage((1,), layers=range(1, 5)),)))

    assert [sync.programs for sync in found.syncs] == [(0, 1)] * 4
    assert text(found.programs[0].bodies["B", 0]).endswith("!0 embedding !1 !2")


def test_one_replica_with_untied_ends_has_nothing_to_synchronise() -> None:
    assert not workload(plan((stage((0,), layers=range(1, 33)),)), LLAMA).syncs


@given(st.integers(1, 5))
def test_buckets_cut_a_segment_into_whole_layers_from_the_back(layers: int) -> None:
    layer_bytes = LLAMA.layer_parameters(1) * BF16
    deployment = plan(
        (stage((0,), layers=range(1, 33)),),
        (stage((1,), layers=range(1, 33)),),
        bucket_bytes=layers * layer_bytes + layer_bytes // 2,
    )
    dense = [s for s in workload(deployment, LLAMA).syncs if s.kind == "dense"]

    assert [layer for sync in dense for layer in reversed(sync.layers)] == list(range(32, 0, -1))
    assert {len(sync.layers) for sync in dense[:-1]} == {layers}
    assert sum(sync.size_bytes for sync in dense) == 32 * layer_bytes


def test_a_tiny_bucket_still_takes_a_whole_layer() -> None:
    dense = [s for s in workload(two_stages(bucket_bytes=1)).syncs if s.kind == "dense"]

    assert [len(sync.layers) for sync in dense] == [1] * 4


@pytest.mark.parametrize("zero", [0, 1])
def test_equal_buckets_share_their_transfers(zero: int) -> None:
    layer_bytes = LLAMA.layer_parameters(1) * BF16
    replicas = [(stage((rank,), layers=range(1, 33)),) for rank in (0, 1)]
    deployment = replace(plan(*replicas, bucket_bytes=layer_bytes), zero=zero)
    dense = [s for s in workload(deployment, LLAMA).syncs if s.kind == "dense"]

    assert len(dense) == 32 * (1 + zero)
    assert len({id(sync.graph) for sync in dense}) == 1 + zero


def test_activations_go_forward_and_their_gradients_back() -> None:
    moves = workload(two_stages()).moves

    assert [(m.source, m.target, m.kind) for m in moves] == [(0, 1, "F"), (1, 0, "B"), (2, 3, "F"), (3, 2, "B")]
    for move in moves:
        assert move.graph.parties == 1
        assert move.graph.stop.max() == GPT.seq_len * GPT.hidden * BF16


def test_sequence_parallel_stages_hand_over_shards_only() -> None:
    move = workload(two_stages(sequence_parallel=True)).moves[0]

    assert list(zip(move.graph.src.tolist(), move.graph.dst.tolist(), strict=True)) == [(0, 4), (1, 5)]
    assert int(move.graph.sent_bytes().sum()) == GPT.seq_len * GPT.hidden * BF16


def test_groups_inside_a_stage_exchange_the_samples_that_they_share() -> None:
    """Three groups of 1, 2 and 1 samples hand over to two groups of 2 samples."""
    first = Stage(
        groups=tuple(DeviceGroup(ranks=(rank,), samples=n) for rank, n in ((0, 1), (1, 2), (2, 1))),
        layers=(range(1, 3),),
    )
    last = stage((3,), (4,), layers=range(3, 5), samples=2)
    found = workload(DeploymentPlan(replicas=(Replica(stages=(first, last), micro_batch=4, micro_batches=2),)))

    sent = [(m.source, m.target, int(m.graph.sent_bytes().sum())) for m in found.moves if m.kind == "F"]
    sample = GPT.seq_len * GPT.hidden * BF16
    assert sent == [(0, 3, sample), (1, 3, sample), (1, 4, sample), (2, 4, sample)]
    assert [s.programs for s in found.syncs if s.kind == "dense"] == [(0, 1, 2), (3, 4)]


def test_virtual_stages_hand_over_from_the_last_stage_to_the_first() -> None:
    stages = tuple(
        Stage(groups=(DeviceGroup(ranks=(rank,), samples=1),), layers=(range(a, a + 1), range(a + 2, a + 3)))
        for rank, a in ((0, 1), (1, 2))
    )
    found = workload(DeploymentPlan(replicas=(Replica(stages=stages, micro_batch=1, micro_batches=2),)))

    assert [(m.source, m.target, m.kind, m.source_chunk, m.target_chunk) for m in found.moves] == [
        (0, 1, "F", 0, 0),
        (1, 0, "B", 0, 0),
        (1, 0, "F", 0, 1),
        (0, 1, "B", 1, 0),
        (0, 1, "F", 1, 1),
        (1, 0, "B", 1, 1),
    ]
    assert set(found.programs[0].bodies) == {("F", 0), ("B", 0), ("F", 1), ("B", 1), ("U", 0)}
    assert text(found.programs[1].bodies["F", 1]).endswith("head")


@given(st.integers(1, 5), st.integers(1, 5))
def test_unlike_tensor_degrees_move_and_sum_every_byte(a: int, b: int) -> None:
    ranks = iter(range(2 * (a + b)))
    pipelines = [
        (
            stage(tuple(next(ranks) for _ in range(first)), layers=range(1, 3)),
            stage(tuple(next(ranks) for _ in range(last)), layers=range(3, 5)),
        )
        for first, last in ((a, b), (b, a))
    ]
    found = workload(plan(*pipelines))

    for sync in found.syncs:
        layouts = [Layout.even(found.programs[p].devices.ranks, sync.size_bytes // BF16) for p in sync.programs]
        verify_reduce(sync.graph, layouts, BF16)
    for move in found.moves:
        source, target = (
            Layout.even(found.programs[p].devices.ranks, GPT.seq_len * GPT.hidden, replicated=True)
            for p in (move.source, move.target)
        )
        verify_move(move.graph, source, target, BF16)
