from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import model
from xsim.plan.operators import Exchange, Shard, ShardedOperator, layer_operators
from xsim.plan.optimizer import optimizer_operator
from xsim.spec.model import ModelSpec

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
) -> tuple[ShardedOperator | Exchange, ...]:
    return layer_operators(
        spec,
        layer,
        samples=samples,
        tp=tp,
        index=index,
        precision="bf16",
        sequence_parallel=sequence_parallel,
        shares=shares,
    )


def operators(found: Iterable[ShardedOperator | Exchange]) -> list[ShardedOperator]:
    return [part for part in found if isinstance(part, ShardedOperator)]


def exchanges(found: Iterable[ShardedOperator | Exchange]) -> list[Exchange]:
    return [part for part in found if isinstance(part, Exchange)]


@given(models(), st.integers(1, 12), st.integers(1, 3))
def test_any_tensor_degree_conserves_the_flops(spec: ModelSpec, tp: int, samples: int) -> None:
    tp = min(tp, spec.kv_heads)
    for layer in range(spec.layers + 2):
        whole = [operator.flops for operator in operators(parts(spec, layer, samples=samples))]
        shards = [operators(parts(spec, layer, tp, i, samples)) for i in range(tp)]
        assert [sum(each.flops for each in same) for same in zip(*shards, strict=True)] == whole


@given(models(), st.lists(st.floats(0.1, 10), min_size=1, max_size=12), st.booleans())
def test_any_shares_conserve_the_flops(spec: ModelSpec, some: list[float], sequence_parallel: bool) -> None:
    shares = tuple(some[: spec.kv_heads])
    cut = partial(parts, spec, shares=shares, sequence_parallel=sequence_parallel)
    for layer in range(spec.layers + 2):
        whole = [operator.flops for operator in operators(parts(spec, layer, sequence_parallel=sequence_parallel))]
        shards = [operators(cut(layer, len(shares), i)) for i in range(len(shares))]
        assert [sum(each.flops for each in same) for same in zip(*shards, strict=True)] == whole


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


@given(models(), st.integers(2, 12))
def test_sequence_parallelism_shares_out_all_that_is_kept(spec: ModelSpec, tp: int) -> None:
    tp = min(tp, spec.kv_heads)
    for layer in range(spec.layers + 2):
        whole = sum(operator.kept_bytes for operator in operators(parts(spec, layer)))
        shards = [parts(spec, layer, tp, i, sequence_parallel=True) for i in range(tp)]
        assert sum(operator.kept_bytes for shard in shards for operator in operators(shard)) == whole


@pytest.mark.parametrize(("sequence_parallel", "sbh"), [(False, 8 + 24 / 8), (True, 32 / 8)])
def test_activations_of_korthikanti_without_scores_and_dropout(*, sequence_parallel: bool, sbh: float) -> None:
    """https://arxiv.org/abs/2205.05198 table 2: 10 + 24/t and 34/t, less the masks (2, and 2/t)."""
    spec, tp, samples = GPT3, 8, 2
    tokens = samples * spec.seq_len
    sums = tokens * spec.heads // tp * 4  # fused attention keeps one fp32 number per token and head

    kept = sum(o.kept_bytes for o in operators(parts(spec, 1, tp, 0, samples, sequence_parallel=sequence_parallel)))

    assert kept == tokens * spec.hidden * sbh + sums


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

    assert " ".join(names) == "norm | qkv core out | residual norm | up activation down | residual"


def test_the_ends_exchange_once_per_direction() -> None:
    embedding, head = exchanges(parts(GPT3, 0, tp=8)), exchanges(parts(GPT3, GPT3.layers + 1, tp=8))

    assert [(e.forward, e.backward) for e in embedding] == [("all_reduce", None)]
    assert [(e.forward, e.backward) for e in head] == [(None, "all_reduce")]


def test_one_rank_exchanges_nothing() -> None:
    assert not [e for layer in range(GPT3.layers + 2) for e in exchanges(parts(GPT3, layer, sequence_parallel=True))]


@pytest.mark.parametrize(
    ("optimizer", "precision", "moved"),
    [("adam", "bf16", 2 + 24 + 2), ("adam", "fp32", 4 + 16 + 8), ("sgd", "bf16", 2 + 8 + 2), ("sgd", "fp32", 4 + 8)],
)
def test_an_update_moves_gradient_state_and_weight(optimizer: str, precision: str, moved: int) -> None:
    assert optimizer_operator(1000, optimizer, precision).moved_bytes == 1000 * moved
