"""Attention between its projections: one fused kernel, or scores, softmax and context apart."""

from __future__ import annotations

from collections.abc import Iterator

from xsim.plan.operator import FP32_BYTES, Product, ShardedOperator, Tensor, Work
from xsim.plan.shard import MASK_BYTES, Shard

__all__ = ["CORE", "core"]

CORE = ("core", "merge", "scores", "softmax", "attention_dropout", "context")  # names of its operators, of all ways
BACKWARD_PRODUCTS = 5  # one again and four gradients, for two forward (https://arxiv.org/abs/2205.14135 algorithm 4)


def core(shard: Shard, attention: str) -> Iterator[ShardedOperator]:
    """The operators between the projection of queries, keys and values and that of the output.

    Args:
        attention: ``flash`` or ``unfused``.
    """
    if attention == "flash":
        yield _fused(shard)
    else:
        yield from _apart(shard)


def _queries_keys_values(shard: Shard) -> tuple[Tensor, Tensor]:
    """Queries and keys come from the rotation if positions are rotated, values always from the projection."""
    query, keys = shard.heads * shard.model.head_dim, shard.kv_heads * shard.model.head_dim
    maker = "qkv" if shard.model.learned_positions else "rotary"
    return shard.tensor(maker, shard.tokens * (query + keys)), shard.tensor("qkv", shard.tokens * keys, "values")


def _fused(shard: Shard) -> ShardedOperator:
    """Fused causal attention: the masked half is skipped (https://arxiv.org/abs/2307.08691 section 3.1).

    Two products of ``seq_len / 2`` scores per token and head. It keeps queries, keys, values and one fp32 sum per
    token and head; its output is kept by the product that follows. A dropout mask is drawn again, not kept.
    """
    model, width = shard.model, shard.model.head_dim
    flops = 2 * shard.tokens * model.seq_len * shard.heads * width
    moved = 2 * shard.tokens * (shard.heads + shard.kv_heads) * width * shard.dtype_bytes
    shape = Product(shard.samples * shard.heads, model.seq_len, model.seq_len, width)
    read = _queries_keys_values(shard)
    return ShardedOperator(
        kind="attention",
        name="core",
        bound="attention",
        dtype=shard.dtype,
        forward=Work(flops, moved, product=shape),
        input_gradient=Work(flops * BACKWARD_PRODUCTS // 2, 2 * moved, product=shape),
        reads=read,
        keeps=(*read, Tensor("core", shard.tokens * shard.heads * FP32_BYTES, "sums", inner=True)),
    )


def _apart(shard: Shard) -> Iterator[ShardedOperator]:
    """As in https://arxiv.org/abs/2205.05198 figure 3: whole matrices of scores, a fused kernel for mask and softmax.

    Of ``a`` heads and ``s`` tokens it keeps the ``5 a s^2`` bytes of section 4.1, or without dropout 2 of the 5.
    """
    model, width = shard.model, shard.model.head_dim
    scores = shard.samples * shard.heads * model.seq_len**2
    of_queries, of_keys = shard.tokens * shard.heads * width, shard.tokens * shard.kv_heads * width
    queries, values = _queries_keys_values(shard)
    yield _product(shard, "scores", of_queries + of_keys + scores, (model.seq_len, width), (queries,))
    made, sharp = shard.tensor("scores", scores), shard.tensor("softmax", scores)
    yield shard.elementwise("attention", "softmax", 2 * scores, 3 * scores, reads=(made,), keeps=(sharp,))
    if model.dropout:
        mask = scores * MASK_BYTES // shard.dtype_bytes
        moved, kept = 2 * scores + mask, shard.tensor("attention_dropout", mask, "mask", inner=True)
        yield shard.elementwise("attention", "attention_dropout", moved, moved, reads=(sharp,), keeps=(kept,))
        sharp = shard.tensor("attention_dropout", scores)
    moved = scores + of_keys + of_queries
    yield _product(shard, "context", moved, (width, model.seq_len), (sharp, values))


def _product(shard: Shard, name: str, moved: int, shape: tuple[int, int], reads: tuple[Tensor, ...]) -> ShardedOperator:
    """A product per head, and the gradients of both of its factors, none of which are weights."""
    columns, inner = shape
    count, rows = shard.samples * shard.heads, shard.model.seq_len
    flops, size = 2 * count * rows * columns * inner, moved * shard.dtype_bytes
    product = Product(count, rows, columns, inner)
    return ShardedOperator(
        kind="attention",
        name=name,
        bound="matmul",
        dtype=shard.dtype,
        forward=Work(flops, size, product=product),
        input_gradient=Work(2 * flops, 2 * size, kernels=2, product=product),
        reads=reads,
        keeps=reads,
    )
