"""A mixture of experts in place of an MLP, as Megatron-LM runs it.

megatron/core/transformer/moe of https://github.com/NVIDIA/Megatron-LM: a router gives each token to some of the experts
(Shazeer et al.; top 1 in Switch, https://arxiv.org/abs/2101.03961 section 2.1, top 2 in Mixtral,
https://arxiv.org/abs/2401.04088 section 2.1), its copies are sorted by expert (``permute``) and sent to the ranks that
have them, each of which does the products of all of its experts at once; what comes back is summed up for each token
(``unpermute``). Experts are cut over the tensor ranks, which have parts of the tokens: what came from all ranks is
gathered among these before the products, and the sums are scattered after them.

Every rank sends as many of its tokens to an expert, in proportion to its load (or, with a capacity, at most so many:
the others are dropped). Of experts that differ in load a rank's products take what those of as many like ones would.

Not counted: the sums of the router's losses, the sorting of what has come by expert, and the counts that ranks exchange
before the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from xsim.plan.operator import FP32_BYTES, Exchange, Product, ShardedOperator, Tensor, Work
from xsim.plan.shard import Shard
from xsim.spec.shares import share_cuts

__all__ = ["experts_of", "mixture"]


def experts_of(experts: int, ep: int, position: int) -> range:
    """Which experts the rank at ``position`` of ``ep`` has."""
    cuts = share_cuts(experts, ep)
    return range(cuts[position], cuts[position + 1])


def mixture(shard: Shard) -> tuple[ShardedOperator | Exchange, ...]:
    """From what the norm has made to the sum for each token."""
    routing, width = shard.routing, shard.model.hidden
    sent = [_to_ranks(shard.of(index)) for index in range(shard.tp)]  # of each tensor rank, to each that has experts
    own = sent[shard.index]
    got = tuple(routing.ep * each[routing.position] * width for each in sent)  # and of each what comes here
    tokens = sum(got) // width
    there, back = _all_to_all(own, width)
    gathered = _gathered(got)
    return (
        *_routed(shard, sum(own)),
        *((there,) if routing.ep > 1 else ()),
        *((gathered,) if shard.tp > 1 else ()),
        *_products(shard, tokens),
        *((_scattered(got),) if shard.tp > 1 else ()),
        *((back,) if routing.ep > 1 else ()),
        _summed(shard, sum(own)),
    )


def _to_ranks(shard: Shard) -> tuple[int, ...]:
    """How many copies of its own tokens a rank sends to each that has experts."""
    model, routing = shard.model, shard.routing
    copies = shard.own_tokens * model.experts_per_token
    each = [stop - start for start, stop in pairwise(share_cuts(copies, model.experts, routing.load))]
    if routing.capacity:
        most = math.ceil(routing.capacity * copies / model.experts)
        each = [min(count, most) for count in each]
    return tuple(
        sum(each[expert] for expert in experts_of(model.experts, routing.ep, position))
        for position in range(routing.ep)
    )


def _routed(shard: Shard, copies: int) -> tuple[ShardedOperator, ...]:
    """Which experts each token goes to, and its copies in their order.

    The router is a product whose weights every tensor rank has; its probabilities, in fp32, are kept.
    """
    model, tokens = shard.model, shard.own_tokens
    flops, weights = 2 * tokens * model.hidden * model.experts, model.hidden * model.experts
    moved = (tokens * (model.hidden + model.experts) + weights) * shard.dtype_bytes
    read = shard.tensor("mlp_norm", tokens * model.hidden)
    scores = tokens * model.experts
    router = ShardedOperator(
        kind="router",
        name="router",
        bound="matmul",
        dtype=shard.dtype,
        forward=Work(flops, moved, product=Product(1, tokens, model.experts, model.hidden)),
        input_gradient=Work(flops, moved, product=Product(1, tokens, model.hidden, model.experts)),
        weight_gradient=Work(flops, moved, product=Product(1, model.hidden, model.experts, tokens)),
        reads=(read,),
        keeps=(read,),
    )
    top = ShardedOperator(
        kind="router",
        name="top",
        bound="memory",
        dtype=shard.dtype,
        forward=Work(0, scores * (shard.dtype_bytes + FP32_BYTES)),
        input_gradient=Work(0, scores * (shard.dtype_bytes + FP32_BYTES)),
        reads=(shard.tensor("router", scores),),
        keeps=(Tensor("top", scores * FP32_BYTES, "probabilities", inner=True),),
    )
    moving = (tokens + copies) * model.hidden
    permute = shard.elementwise("router", "permute", moving, moving, reads=(read,))
    return router, top, permute


def _products(shard: Shard, tokens: int) -> tuple[ShardedOperator, ...]:
    """Of the rank's part of each of its experts, with ``tokens`` for all of them."""
    model, ffn = shard.model, shard.part(shard.model.expert_width)
    up = 2 * ffn if model.gated else ffn
    before, after = tokens * up, tokens * ffn
    made = shard.tensor("expert_up", before)
    back = 2 * before + after
    return (
        *shard.cast("experts", "expert_up", model.hidden, up, reads="permute", tokens=tokens),
        _grouped(shard, "expert_up", tokens, model.hidden, up, reads="permute"),
        shard.elementwise("experts", "expert_activation", before + after, back, reads=(made,), keeps=(made,)),
        *shard.cast("experts", "expert_down", ffn, model.hidden, reads="expert_activation", tokens=tokens),
        _grouped(shard, "expert_down", tokens, ffn, model.hidden, reads="expert_activation"),
    )


def _grouped(shard: Shard, name: str, tokens: int, inner: int, outer: int, *, reads: str) -> ShardedOperator:
    """One product for each expert, all in one kernel, as CUTLASS's grouped products are."""
    routing, model = shard.routing, shard.model
    count = len(experts_of(model.experts, routing.ep, routing.position))
    rows = -(-tokens // count)
    shape = Product(count, rows, outer, inner)
    kept = tokens * inner
    return shard.product("experts", name, shape, reads=reads, kept=kept, narrow=True, rows=tokens)


def _summed(shard: Shard, copies: int) -> ShardedOperator:
    """The weights of the router are already in what the experts have activated, as Megatron-LM fuses them."""
    moved = (copies + shard.own_tokens) * shard.model.hidden
    return shard.elementwise(
        "router", "unpermute", moved, moved, reads=(shard.tensor("expert_down", copies * shard.model.hidden),)
    )


def _all_to_all(own: Sequence[int], width: int) -> tuple[Exchange, Exchange]:
    """The way there, with blocks by load, and back, with pieces by it; the gradients of each go the other."""
    ep = len(own)
    even = tuple(rank * sum(own) * width for rank in range(ep + 1))
    uneven = tuple(accumulate((ep * count * width for count in own), initial=0))
    there = Exchange(
        kind="experts",
        forward="all_to_all",
        backward="all_to_all",
        cuts=even,
        shares=tuple(own),
        back_cuts=uneven,
        over="expert",
    )
    back = Exchange(
        kind="experts",
        forward="all_to_all",
        backward="all_to_all",
        cuts=uneven,
        back_cuts=even,
        back_shares=tuple(own),
        over="expert",
    )
    return there, back


def _gathered(got: Sequence[int]) -> Exchange:
    cuts = tuple(accumulate(got, initial=0))
    return Exchange(kind="experts", forward="all_gather", backward="reduce_scatter", cuts=cuts)


def _scattered(got: Sequence[int]) -> Exchange:
    cuts = tuple(accumulate(got, initial=0))
    return Exchange(kind="experts", forward="reduce_scatter", backward="all_gather", cuts=cuts)
