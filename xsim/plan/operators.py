"""What one tensor rank executes in one layer, operator by operator, and where the ranks of its group must talk.

Cut as in Megatron-LM (https://arxiv.org/abs/1909.08053 section 3, https://arxiv.org/abs/2205.05198 section 4.2): the
matrices before a non-linearity by columns, those after it by rows, the token table and the logits by vocabulary. Sizes
that do not divide are cut at ``i * size // tp``; ranks with unequal shares cut in proportion. FLOPs and weights add up
over the ranks to those of the uncut layer.

Heads are cut in whole key/value groups: a query head stays with the keys it attends to. With fewer key/value heads
than ranks the query heads are cut, and a rank holds a copy of each key/value head that its query heads share.

Context ranks hold copies of the weights and equal parts of each sequence: what they do is that of so many tokens, but
for attention (``xsim.plan.context``).

Not counted: biases, the few numbers per token that the ranks exchange for the loss, and, with sequence parallelism,
the second gathering of a product's input for its weight gradient, unless the deployment lets it run beside a product
(``xsim.plan.beside``), as Megatron-LM does.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsim.plan.context import contextual
from xsim.plan.mixture import mixture
from xsim.plan.operator import FP32_BYTES, INPUT, Exchange, ShardedOperator, Tensor, Work, placed
from xsim.plan.shard import MASK_BYTES, Routing, Shard
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

__all__ = ["layer_kind", "layer_operators", "like_layer", "shard_operators"]


def layer_operators(
    scenario: Scenario,
    layer: int,
    *,
    samples: int,
    tp: int,
    index: int,
    sequence_parallel: bool,
    shares: Sequence[float] = (),
    cp: int = 1,
    ep: int = 1,
    position: int = 0,
) -> tuple[ShardedOperator | Exchange, ...]:
    """What rank ``index`` of ``tp`` does in ``layer`` for one micro-batch of ``samples``, in forward order.

    The backward pass is the same in reverse order, with each exchange's backward collective.

    Args:
        shares: What each rank takes of all that is cut, in proportion; empty: as even as can be.
        cp: Context ranks with as many tensor ranks each. Times that were measured are not those of their operators:
            these have no place.
        ep, position: How many share out the experts of each layer, and which of them it is; then too.
    """
    model, precision = scenario.model, scenario.precision
    where = (model, samples, tp, index, precision, sequence_parallel, tuple(shares))
    routing = Routing(ep, position, scenario.expert_load, scenario.capacity_factor)
    shard = Shard(*where, scenario.gradient_dtype_bytes, cp, routing)
    found = shard_operators(shard, layer, scenario.attention, scenario.loss, scenario.context_parallel)
    if cp * ep > 1:
        return found
    return placed(
        found,
        layers=(layer_kind(model, layer),),
        samples=samples,
        tp=tp,
        seq_len=model.seq_len,
        share=shares[index] * tp / sum(shares) if shares else 1.0,
    )


def shard_operators(
    shard: Shard, layer: int, attention: str = "flash", loss: str = "fused", context: str = "ring"
) -> tuple[ShardedOperator | Exchange, ...]:
    """The same of a shard; ``attention``, ``loss`` and ``context`` (parallelism) as in ``Scenario``."""
    if not shard.model.vocab and layer in (0, shard.model.layers + 1):
        return ()
    if layer == 0:
        return _embedding(shard)
    if layer == shard.model.layers + 1:
        return _head(shard, loss)
    return (*_attention(shard, attention, context), *_mlp_block(shard))


def layer_kind(model: ModelSpec, layer: int) -> str:
    """``embedding``, ``transformer`` or ``head``."""
    return {0: "embedding", model.layers + 1: "head"}.get(layer, "transformer")


def like_layer(model: ModelSpec, layer: int) -> int:
    """The first layer with the same operators: all transformer layers are alike."""
    return layer if layer in (0, model.layers + 1) else 1


def _embedding(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    """Look up the tokens of the own part of the vocabulary, sum over the ranks, add positions if they are learned.

    Gradients are added to the rows of the tables that were looked up.
    """
    hidden, own, size = shard.model.hidden, shard.own, shard.dtype_bytes
    rows = shard.part(shard.tokens) * hidden
    lookup = ShardedOperator(
        kind="embedding",
        name="lookup",
        bound="memory",
        dtype=shard.dtype,
        forward=Work(0, (shard.tokens * hidden + rows) * size),
        weight_gradient=Work(0, (shard.tokens * hidden + 2 * rows) * size),
    )
    table = own // shard.samples
    positions = ShardedOperator(
        kind="embedding",
        name="positions",
        bound="memory",
        dtype=shard.dtype,
        forward=Work(0, (2 * own + table) * size),
        weight_gradient=Work(0, (own + 2 * table) * size),
        reads=(shard.tensor("lookup", own),),
    )
    return (
        lookup,
        *shard.leave("embedding"),
        *((positions,) if shard.model.learned_positions else ()),
        *_dropout(shard),
    )


def _dropout(shard: Shard) -> tuple[ShardedOperator, ...]:
    if not shard.model.dropout:
        return ()
    own, mask = shard.own, shard.own * MASK_BYTES // shard.dtype_bytes
    maker = "positions" if shard.model.learned_positions else "lookup"
    return (
        shard.elementwise(
            "embedding",
            "embedding_dropout",
            2 * own + mask,
            2 * own + mask,
            reads=(shard.tensor(maker, own),),
            keeps=(shard.tensor("embedding_dropout", mask, "mask", inner=True),),
        ),
    )


def _attention(shard: Shard, attention: str, context: str) -> tuple[ShardedOperator | Exchange, ...]:
    model = shard.model
    query, keys = shard.heads * model.head_dim, shard.kv_heads * model.head_dim
    turned = shard.tokens * (query + keys)
    rotary = shard.elementwise("attention", "rotary", 2 * turned, 2 * turned, reads=(shard.tensor("qkv", turned),))
    operators = contextual(shard, attention, context)
    last = next(part.name for part in reversed(operators) if isinstance(part, ShardedOperator))
    return (
        _norm(shard, "attention_norm", INPUT),
        *_column_parallel(shard, "attention", "qkv", query + 2 * keys, "attention_norm"),
        *(() if model.learned_positions else (rotary,)),
        *operators,
        *_row_parallel(shard, "attention", "out", query, last),
        _residual(shard, "attention_residual", ("out", INPUT)),
    )


def _mlp_block(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    """With experts a mixture of them, and the shared ones as an MLP of their own before it."""
    model, block, last = shard.model, tuple[ShardedOperator | Exchange, ...](), "down"
    if model.experts:
        block, last = mixture(shard), "unpermute"
    width = model.shared_ffn if model.experts else model.ffn
    return (
        _norm(shard, "mlp_norm", "attention_residual"),
        *(_mlp(shard, width) if width else ()),
        *block,
        _residual(shard, "mlp_residual", (last, "attention_residual")),
    )


def _mlp(shard: Shard, width: int) -> tuple[ShardedOperator | Exchange, ...]:
    model, ffn = shard.model, shard.part(width)
    up = 2 * ffn if model.gated else ffn
    before, after = shard.tokens * up, shard.tokens * ffn
    made = shard.tensor("up", before)
    return (
        *_column_parallel(shard, "mlp", "up", up, "mlp_norm"),
        shard.elementwise("mlp", "activation", before + after, 2 * before + after, reads=(made,), keeps=(made,)),
        *_row_parallel(shard, "mlp", "down", ffn, "activation"),
    )


def _column_parallel(
    shard: Shard, kind: str, name: str, outer: int, norm: str
) -> tuple[ShardedOperator | Exchange, ...]:
    """A product after a norm, whose weights are cut by columns; the norm makes its input in fp8 if it has to be."""
    hidden = shard.model.hidden
    return (
        *shard.cast(kind, name, hidden, outer, reads=norm, tokens=shard.tokens, fused=True),
        *shard.enter(kind),
        shard.matmul(kind, name, hidden, outer, reads=norm, enters=True, narrow=True),
    )


def _row_parallel(shard: Shard, kind: str, name: str, inner: int, maker: str) -> tuple[ShardedOperator | Exchange, ...]:
    """A product whose weights are cut by rows, and what its ranks have made summed."""
    hidden = shard.model.hidden
    return (
        *shard.cast(kind, name, inner, hidden, reads=maker, tokens=shard.tokens),
        shard.matmul(kind, name, inner, hidden, reads=maker, narrow=True),
        *shard.leave(kind),
    )


def _norm(shard: Shard, name: str, maker: str) -> ShardedOperator:
    """Two kernels back, for the gradients of its input and of its weights: both read the input and what came back.

    They count as one launch.
    """
    read = shard.tensor(maker, shard.own)
    return shard.elementwise(
        "layernorm", name, 2 * shard.own, 5 * shard.own, reads=(read,), keeps=(read,), bound="norm"
    )


def _residual(shard: Shard, name: str, makers: tuple[str, str]) -> ShardedOperator:
    """What a block has made is added to what it was made from, fused with its dropout; gradients of both add up."""
    own = shard.own
    mask = own * MASK_BYTES // shard.dtype_bytes if shard.model.dropout else 0
    reads = tuple(shard.tensor(maker, own) for maker in makers)
    keeps = (shard.tensor(name, mask, "mask", inner=True),) if mask else ()
    return shard.elementwise("layernorm", name, 3 * own + mask, 3 * own + mask, reads=reads, keeps=keeps)


def _head(shard: Shard, loss: str) -> tuple[ShardedOperator | Exchange, ...]:
    """Final norm, logits, and the loss, of which an fp32 softmax is kept.

    The sums over the vocabulary that the ranks exchange are a few numbers per token, and not counted.
    """
    vocab = shard.part(shard.model.vocab)
    return (
        _norm(shard, "final_norm", INPUT),
        *shard.enter("head"),
        shard.matmul("head", "logits", shard.model.hidden, vocab, reads="final_norm", enters=True),
        _loss(shard, shard.tokens * vocab, fused=loss == "fused"),
    )


def _loss(shard: Shard, logits: int, *, fused: bool) -> ShardedOperator:
    """Fused: two reads of the logits and a write of the softmax, which backward reads to write the gradients.

    Else a kernel each widens the logits, takes their maximum, subtracts it, takes exponentials, adds them up and
    divides, and backward one scales and one narrows the gradients.
    """
    own, softmax = logits * shard.dtype_bytes, logits * FP32_BYTES
    widening = own + softmax if shard.dtype_bytes != FP32_BYTES else 0
    forward, backward = Work(0, 2 * own + softmax), Work(0, softmax + own)
    if not fused:
        cast = int(widening > 0)
        forward, backward = (Work(0, widening + 8 * softmax, 5 + cast), Work(0, 2 * softmax + widening, 1 + cast))
    return ShardedOperator(
        kind="head",
        name="loss",
        bound="memory",
        dtype=shard.dtype,
        forward=forward,
        input_gradient=backward,
        reads=(shard.tensor("logits", logits),),
        keeps=(Tensor("loss", softmax, "softmax", inner=True),),
    )
