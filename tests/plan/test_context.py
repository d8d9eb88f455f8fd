"""Context parallelism: parts of sequences, rings of keys and values, heads dealt out, and copies of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.plan.toy import cluster, lowered, model, scenario
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.boundary import Side, boundary_layouts
from xsim.plan.load import loads, rank_memory
from xsim.plan.operator import PASSES, Exchange, ShardedOperator
from xsim.plan.operators import layer_operators, shard_operators
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.shard import Shard
from xsim.plan.workload import Collect, Compute
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

LLAMA = model(layers=4, hidden=512, heads=8, kv_heads=4, ffn=1024, seq_len=1024, gated=True, tied=False)

Parts = tuple[ShardedOperator | Exchange, ...]


def parts(
    spec: ModelSpec, layer: int, cp: int, tp: int = 1, *, context: str = "ring", attention: str = "flash"
) -> Parts:
    return shard_operators(Shard(spec, 2, tp, 0, "bf16", tp > 1, cp=cp), layer, attention, "fused", context)


def flops(found: Parts) -> Counter[tuple[str, str]]:
    """By operator and pass; blocks of a ring are one operator."""
    counted: Counter[tuple[str, str]] = Counter()
    for operator in (part for part in found if isinstance(part, ShardedOperator)):
        counted.update({(operator.name, pass_): operator.work(pass_).flops for pass_ in PASSES})
    return counted


def whole_of(each: Counter[tuple[str, str]], cp: int) -> Counter[tuple[str, str]]:
    return Counter({key: count * cp for key, count in each.items() if count})


specs = st.builds(
    lambda kv, shared, gated, width: model(
        layers=1, hidden=kv * shared * width, heads=kv * shared, kv_heads=kv, ffn=48, vocab=60, seq_len=48, gated=gated
    ),
    st.sampled_from((4, 8)),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 4),
)
ways = st.sampled_from((("ring", "flash"), ("all_to_all", "flash"), ("all_to_all", "unfused")))


@given(specs, st.sampled_from((2, 4)), st.sampled_from((1, 2)), ways)
def test_context_ranks_share_out_flops_and_what_is_kept(
    spec: ModelSpec, cp: int, tp: int, way: tuple[str, str]
) -> None:
    context, attention = way
    cp = min(cp, spec.kv_heads // tp)
    for layer in range(spec.layers + 2):
        whole = parts(spec, layer, 1, tp, attention=attention)
        part = parts(spec, layer, cp, tp, context=context, attention=attention)

        assert whole_of(flops(part), cp) == Counter({key: count for key, count in flops(whole).items() if count})
        kept, all_kept = (sum(tensor.size_bytes for tensor in kept_tensors(found)) for found in (part, whole))
        assert cp * kept == all_kept


@given(specs, st.sampled_from((2, 4)))
def test_what_has_no_weights_moves_its_part_of_the_bytes(spec: ModelSpec, cp: int) -> None:
    names = ("attention_norm", "rotary", "attention_residual", "activation", "mlp_residual")
    whole, part = (
        {p.name: p.work("forward").moved_bytes for p in parts(spec, 1, degree) if isinstance(p, ShardedOperator)}
        for degree in (1, cp)
    )

    assert all(cp * part[name] == whole[name] for name in names if name in whole)


@pytest.mark.parametrize("cp", [2, 3, 4, 8])
def test_every_block_of_a_causal_ring_has_as_many_scores(cp: int) -> None:
    """Counted over chunks: the later attend to the earlier in full, and to themselves by half."""
    chunks = [(rank, 2 * cp - 1 - rank) for rank in range(cp)]
    for own, other in product(chunks, chunks):
        scores = sum(1.0 if query > key else 0.5 if query == key else 0.0 for query, key in product(own, other))
        assert scores == 2.0  # of four products of chunks, half: what the fused kernel skips of its own block

    spec = replace(LLAMA, seq_len=64 * cp)
    (block, *others) = (p for p in parts(spec, 1, cp) if isinstance(p, ShardedOperator) and p.name == "core")
    assert len(others) == cp - 1
    assert {other.flops for other in others} == {block.flops}
    assert block.flops == 2 * 2 * spec.hidden * (64 * 64 // 2) * 2  # two products of half of 64 x 64, two samples


def plan(cp: int, tp: int = 1, replicas: int = 1, stages: int = 1, **options: Any) -> DeploymentPlan:
    layers = LLAMA.layers // stages
    size = cp * tp

    def stage(first: int, number: int) -> Stage:
        group = DeviceGroup(ranks=tuple(range(first, first + size)), samples=2, cp=cp)
        return Stage(
            groups=(group,),
            layers=(range(1 + number * layers, 1 + (number + 1) * layers),),
            sequence_parallel=tp > 1,
            recompute=options.get("recompute", ()),
        )

    return DeploymentPlan(
        replicas=tuple(
            Replica(
                stages=tuple(stage((r * stages + s) * size, s) for s in range(stages)), micro_batch=2, micro_batches=2
            )
            for r in range(replicas)
        ),
        zero=options.get("zero", 0),
        tp_overlap=options.get("tp_overlap", False),
    )


def asked(deployment: DeploymentPlan, spec: ModelSpec = LLAMA, **changes: Any) -> Scenario:
    ranks = sum(len(group.ranks) for _, group in deployment.groups())
    return replace(scenario(cluster(ranks), spec, deployment), **changes)


def collects(question: Scenario, kind: str) -> list[Collect]:
    body = lowered(question).programs[0].bodies[kind, 0]
    return [step for step in body.steps if isinstance(step, Collect)]


def sent(steps: Iterable[Collect]) -> int:
    return sum(int((step.graph.stop - step.graph.start).sum()) for step in steps)


def test_keys_and_values_go_round_beside_attention_and_back_with_their_gradients() -> None:
    cp, layer_bytes = 4, 2 * 2 * LLAMA.seq_len * LLAMA.kv_width * 2  # keys and values of two samples in bf16
    question = asked(plan(cp))
    forward, backward = collects(question, "F"), collects(question, "B")

    assert len(forward) == LLAMA.layers * (cp - 1)
    assert sent(forward) == LLAMA.layers * (cp - 1) * layer_bytes
    assert len(backward) == LLAMA.layers * cp
    assert sent(backward) == LLAMA.layers * 2 * (cp - 1) * layer_bytes
    assert all(step.beside is not None and step.beside.kind == "attention" for step in (*forward, *backward))


def test_an_all_to_all_deals_heads_before_attention_and_takes_them_back() -> None:
    cp = 4
    question = asked(plan(cp), context_parallel="all_to_all")
    one_way = 2 * LLAMA.seq_len * (2 * LLAMA.hidden + 2 * LLAMA.kv_width) * 2  # queries, keys, values; results

    for kind in ("F", "B"):
        steps = collects(question, kind)
        assert len(steps) == 2 * LLAMA.layers
        assert sent(steps) == LLAMA.layers * one_way * (cp - 1) // cp
        assert all(step.beside is None for step in steps)


@pytest.mark.parametrize("context", ["ring", "all_to_all"])
def test_tensor_ranks_talk_to_those_of_their_own_context_and_the_other_way_round(context: str) -> None:
    pairs = {
        (int(src), int(dst))
        for step in collects(asked(plan(2, tp=2), context_parallel=context), "F")
        for src, dst in zip(step.graph.src, step.graph.dst, strict=True)
    }

    assert pairs == {(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)}


def test_recomputed_attention_goes_round_once_more() -> None:
    again = (Recompute(operator="selective", layers=range(1, 5)),)
    once, twice = (collects(asked(plan(4, recompute=entries)), "B") for entries in ((), again))

    assert len(twice) - len(once) == LLAMA.layers * 3


def test_inputs_of_attention_that_are_made_again_are_dealt_again() -> None:
    """Rotated queries and keys are dropped: turned again, they have to get to where attention is done."""
    found = parts(LLAMA, 1, 2, context="all_to_all")
    question = asked(
        plan(2, recompute=(Recompute(operator="rotary", layers=range(1, 5)),)), context_parallel="all_to_all"
    )

    assert recomputed((Recompute(operator="rotary", layers=range(1, 5)),), 1, found) == {"rotary"}
    assert len(collects(question, "B")) == 3 * LLAMA.layers


@given(st.sampled_from((1, 2, 4)), st.sampled_from((1, 2, 4)), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_boundaries_of_any_degrees_hand_over_everything_once(a: int, b: int, ta: int, tb: int, cut: bool) -> None:
    sides = [
        Side(DeviceGroup(ranks=tuple(range(base, base + cp * tp)), samples=1, cp=cp), cut)
        for base, cp, tp in ((0, a, ta), (50, b, tb))
    ]
    found = list(boundary_layouts(sides[0], sides[1], 3, LLAMA))

    assert len(found) == max(a, b)
    assert all(sent.size == wanted.size for sent, wanted in found)
    assert sum(sent.size for sent, _ in found) == 3 * LLAMA.seq_len * LLAMA.hidden
    for side, layouts in zip(sides, zip(*found, strict=True), strict=True):
        held: Counter[int] = Counter()
        for layout in layouts:
            held.update({rank: len(layout.held(i)) for i, rank in enumerate(layout.ranks)})
        each = 3 * LLAMA.hidden * LLAMA.seq_len // side.group.cp
        assert all(
            abs(held[rank] - each // (side.group.tp if cut else 1)) <= 3 * LLAMA.hidden for rank in side.group.ranks
        )
        assert sum(held.values()) == each * side.group.cp * (1 if cut else side.group.tp)


def test_gradients_are_summed_over_data_and_context_ranks() -> None:
    alone, both = (lowered(asked(plan(2, tp=2, replicas=count))) for count in (1, 2))

    assert {sync.programs for sync in alone.syncs} == {(0,)}
    assert {sync.programs for sync in both.syncs} == {(0, 1)}
    assert sorted(alone.syncs[0].graph.ranks.tolist()) == [0, 1, 2, 3]
    assert sum(sync.size_bytes for sync in both.syncs) == 2 * LLAMA.parameters
    pairs = {(int(a) % 2, int(b) % 2) for s in both.syncs for a, b in zip(s.graph.src, s.graph.dst, strict=True)}
    assert pairs == {(0, 0), (1, 1)}  # each with those that have the same part of the weights


def needs(question: Scenario) -> list[Any]:
    assert question.deployment is not None
    complete = check_deployment(question.deployment, question)
    return [
        (rank, rank_memory(question, held.load, index))
        for held in loads(question, complete, GPipe().order)
        for index, rank in enumerate(held.ranks)
    ]


@pytest.mark.parametrize("tp", [1, 2])
def test_context_ranks_halve_activations_and_share_states(tp: int) -> None:
    one, two, sharded = (needs(asked(plan(cp, tp=tp, zero=zero))) for cp, zero in ((1, 0), (2, 0), (2, 1)))

    assert [rank for rank, _ in two] == list(range(2 * tp))
    assert 2 * two[0][1].activation_bytes == one[0][1].activation_bytes
    assert two[0][1].weight_bytes == one[0][1].weight_bytes
    assert two[0][1].optimizer_bytes == one[0][1].optimizer_bytes
    total = sum(need.optimizer_bytes for _, need in sharded)
    assert total == 12 * LLAMA.parameters
    block = 2 * (LLAMA.seq_len // 2) * 2 * LLAMA.kv_width // tp * 2
    assert two[0][1].buffer_bytes == 4 * block


def test_a_slow_ring_is_waited_for_as_far_as_attention_does_not_hide_it() -> None:
    """Blocks of no work: the ring takes its time; blocks of more work than it: none is waited for."""
    for sequence, exposed in ((1024, True), (65536, False)):
        spec = replace(LLAMA, seq_len=sequence)
        result = simulated(asked(plan(4), spec))
        steps = [step for step in result.workload.programs[0].bodies["F", 0].steps if isinstance(step, Collect)]
        alone = [result.timeline.folded.get(result.workload.programs[0].bodies["F", 0], ())]
        waited = [max(0, took - step.beside_ps) for step, took in zip(steps, alone[0], strict=True)]

        assert (sum(waited) > 0) == exposed
        assert (result.account.cause_ps("tp_comm") > 0).all() == exposed
        assert not result.account.cause_ps("straggler_wait").any()


def simulated(question: Scenario, **options: Any) -> Result:
    network = build("network", {"name": options.pop("network", "flow")})
    return run(Experiment(scenario=question, network=network, memory="report", **options))


@pytest.mark.parametrize("context", ["ring", "all_to_all"])
@pytest.mark.parametrize(("zero", "overlap"), [(0, True), (1, False), (3, False)])
def test_folding_changes_no_number(context: str, zero: int, overlap: bool) -> None:
    """Tensor ranks, context ranks, replicas and stages at once; every plan is proven."""
    deployment = plan(2, tp=2, replicas=2, stages=2, zero=zero, tp_overlap=overlap)
    question = asked(deployment, context_parallel=context, launch_ps=2_000_000, contention=0.1)
    folded, walked = (simulated(question, fold=fold, verify=not fold) for fold in (True, False))

    check_account(folded.workload, folded.timeline)
    check_account(walked.workload, walked.timeline)
    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    assert (folded.account.causes_ps == walked.account.causes_ps).all()
    assert (folded.account.operators_ps == walked.account.operators_ps).all()
    assert folded.metrics == walked.metrics


def test_context_ranks_compute_what_samples_of_their_length_take_but_for_attention() -> None:
    whole, part = (lowered(asked(plan(cp), replace(LLAMA, seq_len=512 * cp))) for cp in (1, 2))

    def of(workload: Any, kind: str) -> int:
        steps = workload.programs[0].bodies["F", 0].steps
        return sum(step.durations_ps[0] for step in steps if isinstance(step, Compute) and step.kind == kind)

    assert of(part, "mlp") == of(whole, "mlp")
    assert of(part, "head") == of(whole, "head")


def test_the_planner_puts_context_ranks_between_tensor_ranks_and_replicas() -> None:
    question = Scenario(cluster=cluster(16), model=LLAMA, batch=8)
    found = build("planner", {"name": "uniform", "tp": 2, "cp": 2, "pp": 2}).plan(question, None)

    assert found.name == "uniform_tp2_cp2_pp2_dp2"
    ranks = [[stage.groups[0].ranks for stage in replica.stages] for replica in found.replicas]
    assert ranks == [[(0, 1, 2, 3), (8, 9, 10, 11)], [(4, 5, 6, 7), (12, 13, 14, 15)]]
    assert {group.cp for _, group in found.groups()} == {2}
    with pytest.raises(SpecError, match="planner = 'tp=2, cp=3, pp=2': tp 2 x cp 3 x pp 2 does not divide the cluster"):
        build("planner", {"name": "uniform", "tp": 2, "cp": 3, "pp": 2}).plan(question, None)


def test_measured_times_are_not_those_of_parts_of_sequences() -> None:
    """Operators of context ranks have no place that a table of whole sequences could be asked by."""
    placed = {
        cp: layer_operators(asked(plan(1)), 1, samples=1, tp=1, index=0, sequence_parallel=False, cp=cp)
        for cp in (1, 2)
    }

    assert all(part.place for part in placed[1] if isinstance(part, ShardedOperator))
    assert not any(part.place for part in placed[2] if isinstance(part, ShardedOperator))


@pytest.mark.parametrize(
    ("cp", "tp", "changes", "message"),
    [
        (3, 1, {}, "groups[0].cp = 3: 1024 tokens are not cut into 6 equal chunks; choose one whose double divides"),
        (2, 1, {"attention": "unfused"}, "attention = 'unfused': with cp: 2 a ring of keys and values needs fused att"),
        (
            8,
            1,
            {"context_parallel": "all_to_all"},
            "cp = 8: an all-to-all deals heads whole, and 4 of keys over tp 1 do not divide; choose one that divides",
        ),
        (2, 4, {"context_parallel": "all_to_all"}, "cp = 2: an all-to-all deals heads whole, and 4 of keys over tp 4"),
        (2, 1, {"context_parallel": "rings"}, "context_parallel = 'rings': it is unknown; choose one of ring, all_to"),
    ],
)
def test_what_cannot_be_cut_is_refused(cp: int, tp: int, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        asked(plan(cp, tp=tp), **changes)
    assert message in str(caught.value)


def test_unequal_shares_are_not_cut_over_context_ranks_as_well() -> None:
    with pytest.raises(SpecError, match=r"tp_shares = \[2.0, 1.0\]: unequal parts are not cut over 2 context ranks"):
        DeviceGroup(ranks=(0, 1, 2, 3), samples=1, cp=2, tp_shares=(2.0, 1.0))
