"""What one tensor rank executes in one layer, operator by operator, and where the ranks of its group must talk.

Cut as in Megatron-LM (https://arxiv.org/abs/1909.08053 section 3, https://arxiv.org/abs/2205.05198 section 4.2): the
matrices before a non-linearity by columns, those after it by rows, the token table and the logits by vocabulary. Sizes
that do not divide are cut at ``i * size // tp``; ranks with unequal shares cut in proportion. FLOPs and weights add up
over the ranks to those of the uncut layer.

Heads are cut in whole key/value groups: a query head stays with the keys it attends to. With fewer key/value heads
than ranks the query heads are cut, and a rank holds a copy of each key/value head that its query heads share.

Not counted: biases, the few numbers per token that the ranks exchange for the loss, and, with sequence parallelism,
the second gathering of a product's input for its weight gradient, which Megatron-LM hides behind the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xsim.plan.comm import CollectiveKind
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import DTYPE_BYTES
from xsim.spec.shares import share_cuts

__all__ = [
    "Exchange",
    "Shard",
    "ShardedOperator",
    "layer_operators",
    "like_layer",
]

FP32_BYTES = 4

_Pair = tuple[CollectiveKind | None, CollectiveKind | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperator:
    """One operator as one rank sees it, for one micro-batch.

    Attributes:
        kind: What the time counts as: ``attention mlp layernorm embedding head optimizer``.
        name: Which operator: ``qkv``, ``core``, ``out``, ``up``, ``down`` ...
        flops: Of the forward pass.
        moved_bytes: To and from memory, forward pass.
        bound: ``matmul`` and ``attention`` compute, ``memory`` only moves bytes.
        dtype: Of the arithmetic.
        kept_bytes: Activations that it keeps from the forward pass for the backward pass.
    """

    kind: str
    name: str
    flops: int
    moved_bytes: int
    bound: Literal["matmul", "attention", "memory"]
    dtype: str
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A place where the tensor ranks exchange activations; its collectives are the same for all of them.

    Entering a cut region is free forward and sums input gradients backward, leaving it the reverse (Megatron's f and
    g); with sequence parallelism entering gathers and leaving scatters.

    Attributes:
        kind: Operator kind that it belongs to.
        forward, backward: The collective of each pass; None if that pass needs none.
        cuts: Boundaries in elements of what rank i holds when cut over the sequence; the last is the size.
    """

    kind: str
    forward: CollectiveKind | None
    backward: CollectiveKind | None
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rank ``index`` of ``tp`` tensor ranks, which cut by ``shares``, at work on ``samples`` sequences of ``model``."""

    model: ModelSpec
    samples: int
    tp: int
    index: int
    precision: str
    sequence_parallel: bool
    shares: tuple[float, ...] = ()

    @property
    def dtype_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.precision]

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch."""
        return self.samples * self.model.seq_len

    @property
    def own_tokens(self) -> int:
        """Tokens whose activations it holds between operators."""
        if not self.sequence_parallel:
            return self.tokens
        return self.samples * self.part(self.model.seq_len)

    def part(self, size: int) -> int:
        """Its part of ``size`` things."""
        start, stop = self.cuts(size)[self.index : self.index + 2]
        return stop - start

    def cuts(self, size: int) -> tuple[int, ...]:
        """Where the ranks cut ``size`` things."""
        return share_cuts(size, self.tp, self.shares)

    @property
    def heads(self) -> int:
        """Query heads that it has."""
        if self.model.kv_heads < self.tp:
            return self.part(self.model.heads)
        return self.part(self.model.kv_heads) * (self.model.heads // self.model.kv_heads)

    @property
    def kv_heads(self) -> int:
        """Key/value heads that it has; with copies if there are fewer than ranks."""
        if self.model.kv_heads >= self.tp:
            return self.part(self.model.kv_heads)
        shared = self.model.heads // self.model.kv_heads
        first, end = self.cuts(self.model.heads)[self.index : self.index + 2]
        return -(-end // shared) - first // shared

    @property
    def wide(self) -> int:
        """How many elements of the precision take the room of an fp32 number."""
        return FP32_BYTES // self.dtype_bytes

    def matmul(self, kind: str, name: str, inner: int, outer: int, *, enters: bool = False) -> ShardedOperator:
        """``tokens x inner`` times ``inner x outer``; keeps its input, or of a gathered input its own part."""
        moved = self.tokens * inner + inner * outer + self.tokens * outer
        return ShardedOperator(
            kind=kind,
            name=name,
            flops=2 * self.tokens * inner * outer,
            moved_bytes=moved * self.dtype_bytes,
            bound="matmul",
            dtype=self.precision,
            kept_bytes=(self.own_tokens if enters else self.tokens) * inner * self.dtype_bytes,
        )

    def elementwise(self, kind: str, name: str, moved: int, kept: int = 0) -> ShardedOperator:
        """An operator that reads and writes ``moved`` elements in all, and keeps ``kept``."""
        return ShardedOperator(
            kind=kind,
            name=name,
            flops=0,
            moved_bytes=moved * self.dtype_bytes,
            bound="memory",
            dtype=self.precision,
            kept_bytes=kept * self.dtype_bytes,
        )

    def enter(self, kind: str) -> tuple[Exchange, ...]:
        """Before a region that is cut over the ranks."""
        return self._exchange(kind, (None, "all_reduce"), ("all_gather", "reduce_scatter"))

    def leave(self, kind: str) -> tuple[Exchange, ...]:
        """After a region that is cut over the ranks."""
        return self._exchange(kind, ("all_reduce", None), ("reduce_scatter", "all_gather"))

    def _exchange(self, kind: str, replicated: _Pair, sequence: _Pair) -> tuple[Exchange, ...]:
        if self.tp == 1:
            return ()
        forward, backward = sequence if self.sequence_parallel else replicated
        row = self.samples * self.model.hidden
        cuts = tuple(cut * row for cut in self.cuts(self.model.seq_len))
        return (Exchange(kind=kind, forward=forward, backward=backward, cuts=cuts),)


def layer_operators(
    model: ModelSpec,
    layer: int,
    *,
    samples: int,
    tp: int,
    index: int,
    precision: str,
    sequence_parallel: bool,
    shares: tuple[float, ...] = (),
) -> tuple[ShardedOperator | Exchange, ...]:
    """What rank ``index`` of ``tp`` does in ``layer`` for one micro-batch of ``samples``, in forward order.

    The backward pass is the same in reverse order, with each exchange's backward collective.

    Args:
        shares: What each rank takes of all that is cut, in proportion; empty: as even as can be.
    """
    shard = Shard(model, samples, tp, index, precision, sequence_parallel, shares)
    if not model.vocab and layer in (0, model.layers + 1):
        return ()
    if layer == 0:
        return _embedding(shard)
    if layer == model.layers + 1:
        return _head(shard)
    return (*_attention(shard), *_mlp(shard))


def like_layer(model: ModelSpec, layer: int) -> int:
    """The first layer with the same operators: all transformer layers are alike."""
    return layer if layer in (0, model.layers + 1) else 1


def _embedding(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    """Look up the tokens of the own part of the vocabulary, sum over the ranks, add positions if they are learned."""
    hidden, own = shard.model.hidden, shard.own_tokens * shard.model.hidden
    lookup = shard.tokens * hidden + shard.part(shard.tokens) * hidden
    positions = shard.elementwise("embedding", "positions", 2 * own + own // shard.samples)
    return (
        shard.elementwise("embedding", "lookup", lookup),
        *shard.leave("embedding"),
        *((positions,) if shard.model.learned_positions else ()),
    )


def _attention(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    model, tokens, own = shard.model, shard.tokens, shard.own_tokens * shard.model.hidden
    query, keys = shard.heads * model.head_dim, shard.kv_heads * model.head_dim
    rotary = shard.elementwise("attention", "rotary", 2 * tokens * (query + keys))
    return (
        shard.elementwise("layernorm", "norm", 2 * own, kept=own),
        *shard.enter("attention"),
        shard.matmul("attention", "qkv", model.hidden, query + 2 * keys, enters=True),
        *(() if model.learned_positions else (rotary,)),
        _core(shard, query, keys),
        shard.matmul("attention", "out", query, model.hidden),
        *shard.leave("attention"),
        shard.elementwise("layernorm", "residual", 3 * own),
    )


def _core(shard: Shard, query: int, keys: int) -> ShardedOperator:
    """Fused causal attention: the masked half is skipped (https://arxiv.org/abs/2307.08691 section 3.1).

    Two products of ``seq_len / 2`` scores per token and head. It keeps queries, keys, values and one fp32 sum per
    token and head; its output is kept by the product that follows.
    """
    return ShardedOperator(
        kind="attention",
        name="core",
        flops=2 * shard.tokens * shard.model.seq_len * query,
        moved_bytes=2 * shard.tokens * (query + keys) * shard.dtype_bytes,
        bound="attention",
        dtype=shard.precision,
        kept_bytes=shard.tokens * ((query + 2 * keys) * shard.dtype_bytes + shard.heads * FP32_BYTES),
    )


def _mlp(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    model, own, ffn = shard.model, shard.own_tokens * shard.model.hidden, shard.part(shard.model.ffn)
    up = 2 * ffn if model.gated else ffn
    return (
        shard.elementwise("layernorm", "norm", 2 * own, kept=own),
        *shard.enter("mlp"),
        shard.matmul("mlp", "up", model.hidden, up, enters=True),
        shard.elementwise("mlp", "activation", shard.tokens * (up + ffn), kept=shard.tokens * up),
        shard.matmul("mlp", "down", ffn, model.hidden),
        *shard.leave("mlp"),
        shard.elementwise("layernorm", "residual", 3 * own),
    )


def _head(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    """Final norm, logits, and the loss: two reads of the logits and one write of their fp32 softmax, which is kept.

    The sums over the vocabulary that the ranks exchange are a few numbers per token, and not counted.
    """
    own, vocab = shard.own_tokens * shard.model.hidden, shard.part(shard.model.vocab)
    softmax = shard.tokens * vocab * shard.wide
    return (
        shard.elementwise("layernorm", "norm", 2 * own, kept=own),
        *shard.enter("head"),
        shard.matmul("head", "logits", shard.model.hidden, vocab, enters=True),
        shard.elementwise("head", "loss", 2 * shard.tokens * vocab + softmax, kept=softmax),
    )
