from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, model
from xsim.plan.operator import PASSES, Exchange, ShardedOperator, Work
from xsim.plan.operators import shard_operators
from xsim.plan.optimizer import optimizer_operators
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.shard import Shard
from xsim.spec.deployment import Recompute
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

GPT3 = model(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200, seq_len=2048)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    heads = draw(st.integers(1, 12))
    return model(
        layers=draw(st.integers(1, 3)),
        hidden=heads * draw(st.integers(1, 8)),
        heads=heads,
        kv_heads=draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0])),
        ffn=draw(st.integers(1, 50)),
        vocab=draw(st.integers(1, 50)),
        seq_len=draw(st.integers(1, 20)),
        gated=draw(st.booleans()),
    )


def parts(
    spec: ModelSpec,
    layer: int,
    tp: int = 1,
    index: int = 0,
    samples: int = 1,
    *,
    sequence_parallel: bool = False,
    shares: tuple[float, ...] = (),
    attention: str = "flash",
) -> tuple[ShardedOperator | Exchange, ...]:
    return shard_operators(Shard(spec, samples, tp, index, "bf16", sequence_parallel, shares), layer, attention)


def operators(found: Iterable[ShardedOperator | Exchange]) -> list[ShardedOperator]:
    return [part for part in found if isinstance(part, ShardedOperator)]


def exchanges(found: Iterable[ShardedOperator | Exchange]) -> list[Exchange]:
    return [part for part in found if isinstance(part, Exchange)]


def flops(found: Iterable[ShardedOperator | Exchange]) -> list[list[int]]:
    return [[operator.work(pass_).flops for pass_ in PASSES] for operator in operators(found)]


def added(shards: Iterable[Iterable[ShardedOperator | Exchange]]) -> list[list[int]]:
    """FLOPs of all ranks together, by operator and pass."""
    return [[sum(by_rank) for by_rank in zip(*same, strict=True)] for same in zip(*map(flops, shards), strict=True)]


@given(models(), st.integers(1, 12), st.integers(1, 3), st.sampled_from(("flash", "unfused")))
def test_any_tensor_degree_conserves_the_flops(spec: ModelSpec, tp: int, samples: int, attention: str) -> None:
    tp = min(tp, spec.kv_heads)
    for layer in range(spec.layers + 2):
        shards = [parts(spec, layer, tp, i, samples, attention=attention) for i in range(tp)]
        assert added(shards) == flops(parts(spec, layer, samples=samples, attention=attention))


@given(models(), st.lists(st.floats(0.1, 10), min_size=1, max_size=12), st.booleans())
def test_any_shares_conserve_the_flops(spec: ModelSpec, some: list[float], sequence_parallel: bool) -> None:
    shares = tuple(some[: spec.kv_heads])
    cut = partial(parts, spec, shares=shares, sequence_parallel=sequence_parallel)
    for layer in range(spec.layers + 2):
        whole = flops(parts(spec, layer, sequence_parallel=sequence_parallel))
        assert added(cut(layer, len(shares), i) for i in range(len(shares))) == whole


def test_ranks_of_unequal_shares_have_heads_in_proportion() -> None:
    spec = model(heads=32, hidden=32 * 4, ffn=100)
    shards = [Shard(spec, 1, 3, i, "bf16", sequence_parallel=False, shares=(2, 1, 1)) for i in range(3)]

    assert [shard.heads for shard in shards] == [16, 8, 8]
    assert [shard.part(spec.ffn) for shard in shards] == [50, 25, 25]


@given(models(), st.integers(1, 12))
def test_with_fewer_key_heads_than_ranks_each_rank_has_those_its_queries_need(spec: ModelSpec, tp: int) -> None:
    tp = min(tp, spec.heads)
    shards = [Shard(spec, 1, tp, index, "bf16", sequence_parallel=False) for index in range(tp)]

    assert sum(shard.heads for shard in shards) == spec.heads
    assert sum(shard.kv_heads for shard in shards) >= spec.kv_heads
    assert all(1 <= shard.kv_heads <= shard.heads for shard in shards)
    if tp <= spec.kv_heads:
        assert sum(shard.kv_heads for shard in shards) == spec.kv_heads


def test_three_ranks_of_32_heads() -> None:
    spec = model(heads=32, hidden=32 * 4)

    assert [Shard(spec, 1, 3, i, "bf16", sequence_parallel=False).heads for i in range(3)] == [10, 11, 11]


def test_sixteen_ranks_of_8_key_heads_hold_a_copy_each() -> None:
    spec = model(heads=64, kv_heads=8, hidden=64 * 4)

    assert {Shard(spec, 1, 16, i, "bf16", sequence_parallel=False).kv_heads for i in range(16)} == {1}


@given(models(), st.integers(1, 3))
def test_flops_are_six_per_weight_and_token_and_attention(spec: ModelSpec, samples: int) -> None:
    forward = sum(o.flops for layer in range(spec.layers + 2) for o in operators(parts(spec, layer, samples=samples)))
    masked_half = 6 * spec.layers * spec.hidden * spec.seq_len**2  # counted by the model, skipped by the kernel

    assert 3 * forward == samples * (spec.flops_per_sample - masked_half)


def test_model_flops_of_gpt3_are_megatrons() -> None:
    """https://arxiv.org/abs/2104.04473 equation 3, without recomputation (3/4 of it)."""
    s, h, layers, v = GPT3.seq_len, GPT3.hidden, GPT3.layers, GPT3.vocab
    megatron = 72 * s * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h))

    assert GPT3.flops_per_sample == pytest.approx(megatron, rel=1e-12)


def kept(found: tuple[ShardedOperator | Exchange, ...], *again: str) -> int:
    """Bytes that a layer keeps if it computes ``again``."""
    entries = [Recompute(operator=name, layers=range(2)) for name in again]
    return sum(tensor.size_bytes for tensor in kept_tensors(found, recomputed(entries, 1, found)))


@given(models(), st.integers(2, 12), st.sampled_from(("flash", "unfused")), st.booleans())
def test_sequence_parallelism_shares_out_all_that_is_kept(
    spec: ModelSpec, tp: int, attention: str, dropout: bool
) -> None:
    spec, tp = replace(spec, dropout=dropout), min(tp, spec.kv_heads)
    for layer in range(spec.layers + 2):
        whole = kept(parts(spec, layer, attention=attention))
        shards = [parts(spec, layer, tp, i, sequence_parallel=True, attention=attention) for i in range(tp)]
        assert abs(sum(map(kept, shards)) - whole) <= 4 * tp  # masks are half an element each


@pytest.mark.parametrize(
    ("sequence_parallel", "again", "sbh"),
    [
        (False, (), 10 + 24 / 8 + 5 * 96 * 2048 / 12288 / 8),
        (True, (), 34 / 8 + 5 * 96 * 2048 / 12288 / 8),
        (False, ("selective",), 10 + 24 / 8),
        (True, ("selective",), 34 / 8),
        (False, ("full",), 2),
        (True, ("full",), 2 / 8),
    ],
)
def test_activations_of_korthikanti(*, sequence_parallel: bool, again: tuple[str, ...], sbh: float) -> None:
    """https://arxiv.org/abs/2205.05198 table 2; with full recomputation the input alone, here cut as the rest is."""
    spec, samples = replace(GPT3, dropout=True), 2
    layer = parts(spec, 1, 8, 0, samples, sequence_parallel=sequence_parallel, attention="unfused")

    assert kept(layer, *again) == samples * spec.seq_len * spec.hidden * sbh


@pytest.mark.parametrize(("sequence_parallel", "sbh"), [(False, 8 + 24 / 8), (True, 32 / 8)])
def test_fused_attention_keeps_no_scores_but_a_sum_per_head(*, sequence_parallel: bool, sbh: float) -> None:
    tokens = 2 * GPT3.seq_len

    layer = parts(GPT3, 1, 8, 0, 2, sequence_parallel=sequence_parallel)

    assert kept(layer) == tokens * GPT3.hidden * sbh + tokens * GPT3.heads // 8 * 4


@pytest.mark.parametrize(
    ("again", "spared"),
    [
        ("activation", 8),  # what the next product reads, made again from the input of the activation
        ("mlp_norm", 2),
        ("core", 0),  # its sums; its result is kept
        ("up", 0),  # of a product the result is kept
    ],
)
def test_an_operator_alone_spares_its_result_if_it_only_moves_bytes(again: str, spared: int) -> None:
    layer, sbh = parts(GPT3, 1), GPT3.seq_len * GPT3.hidden
    sums = GPT3.seq_len * GPT3.heads * 4 if again == "core" else 0

    assert kept(layer) - kept(layer, again) == spared * sbh + sums


def test_neighbours_are_dropped_together() -> None:
    layer, sbh = parts(GPT3, 1), GPT3.seq_len * GPT3.hidden

    assert kept(layer) - kept(layer, "up", "activation", "down") == 16 * sbh
    assert kept(layer) - kept(layer, "mlp_norm", "up", "activation", "down") == 18 * sbh


@given(
    models(), st.sets(st.sampled_from(["attention_norm", "qkv", "core", "out", "up", "activation", "down", "mlp_norm"]))
)
def test_more_recomputation_never_keeps_more_than_all(spec: ModelSpec, again: set[str]) -> None:
    layer = parts(spec, 1)

    assert kept(layer, "full") <= kept(layer, *again) <= kept(layer)


def test_two_all_reduces_per_layer_and_direction() -> None:
    found = exchanges(parts(GPT3, 1, tp=8))

    assert [e.kind for e in found if e.forward] == ["attention", "mlp"]
    assert [e.kind for e in found if e.backward] == ["attention", "mlp"]
    assert {e.forward for e in found} | {e.backward for e in found} == {None, "all_reduce"}
    assert {e.cuts[-1] for e in found} == {GPT3.seq_len * GPT3.hidden}


def test_sequence_parallelism_gathers_and_scatters_instead() -> None:
    found = exchanges(parts(GPT3, 1, tp=8, sequence_parallel=True))

    assert [e.forward for e in found] == ["all_gather", "reduce_scatter"] * 2
    assert [e.backward for e in found] == ["reduce_scatter", "all_gather"] * 2


def test_a_layer_reads_like_megatrons() -> None:
    names = [part.name if isinstance(part, ShardedOperator) else "|" for part in parts(GPT3, 1, tp=2)]

    assert " ".join(names) == (
        "attention_norm | qkv core out | attention_residual mlp_norm | up activation down | mlp_residual"
    )


def test_the_ends_exchange_once_per_direction() -> None:
    embedding, head = exchanges(parts(GPT3, 0, tp=8)), exchanges(parts(GPT3, GPT3.layers + 1, tp=8))

    assert [(e.forward, e.backward) for e in embedding] == [("all_reduce", None)]
    assert [(e.forward, e.backward) for e in head] == [(None, "all_reduce")]


def test_one_rank_exchanges_nothing() -> None:
    assert not [e for layer in range(GPT3.layers + 2) for e in exchanges(parts(GPT3, layer, sequence_parallel=True))]


def test_unfused_attention_is_products_and_a_softmax() -> None:
    names = [part.name for part in operators(parts(replace(GPT3, dropout=True), 1, attention="unfused"))]

    assert names[1:7] == ["qkv", "scores", "softmax", "attention_dropout", "context", "out"]


def test_an_unfused_loss_takes_a_kernel_for_each_step() -> None:
    logits = GPT3.seq_len * GPT3.vocab
    loss = shard_operators(Shard(GPT3, 1, 1, 0, "bf16", sequence_parallel=False), GPT3.layers + 1, loss="unfused")[-1]

    assert isinstance(loss, ShardedOperator)
    assert loss.work("forward") == Work(0, 38 * logits, kernels=6)
    assert loss.work("input_gradient") == Work(0, 14 * logits, kernels=2)


def test_backward_is_five_products_of_fused_attention_and_twice_the_forward_of_others() -> None:
    for operator in operators(parts(GPT3, 1)):
        back = operator.work("input_gradient").flops + operator.work("weight_gradient").flops
        assert back == operator.flops * (2.5 if operator.name == "core" else 2)


@pytest.mark.parametrize(
    ("optimizer", "precision", "gradient", "moved"),
    [
        ("adam", "bf16", None, 6 + 4 + 8 + 4 + 24 + 6),
        ("adam", "bf16", "fp32", 4 + 8 + 4 + 24 + 6),
        ("adam", "fp32", None, 4 + 8 + 4 + 16 + 8),
        ("sgd", "bf16", None, 6 + 4 + 8 + 4 + 8 + 6),
        ("sgd", "fp32", None, 4 + 8 + 4 + 8),
    ],
)
def test_an_update_casts_clips_steps_and_casts_back(
    optimizer: Literal["adam", "sgd"],
    precision: Literal["bf16", "fp32"],
    gradient: Literal["fp32"] | None,
    moved: int,
) -> None:
    asked = Scenario(
        cluster=cluster(1), model=GPT3, batch=1, optimizer=optimizer, precision=precision, gradient_dtype=gradient
    )

    assert sum(each.work("update").moved_bytes for each in optimizer_operators(1000, asked)) == 1000 * moved
