"""Attention of context ranks: each has a part of every sequence, and all of them are attended to.

In a ring (Liu et al., https://arxiv.org/abs/2310.01889 section 3) the keys and values of each rank go round, a block
ahead of the attention to it: with c ranks, c blocks are attended to while c - 1 are on their way. Each rank has two
chunks of 2 c of a sequence, the i-th from its start and the i-th from its end: so each block, whoever it is from, gives
everybody as many scores as the causal attention of a rank to its own (``AttnFuncWithCPAndKVP2P`` in
transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py of
https://github.com/NVIDIA/TransformerEngine). What blocks give is added up. Backward the keys and values go round again,
and their gradients one block behind, c - 1 times each: they are under way beside c blocks.

An all-to-all (Ulysses: Jacobs et al., https://arxiv.org/abs/2309.14509 section 3) gives every rank the whole sequence
of a part of the heads of its tensor rank, and another takes back what they have attended to; nothing runs beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xsim.plan.attention import core
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.shard import Shard

__all__ = ["contextual"]


def contextual(shard: Shard, attention: str, context: str) -> tuple[ShardedOperator | Exchange, ...]:
    """The operators between the projection of queries, keys and values and that of the output.

    Args:
        attention: ``flash`` or ``unfused``.
        context: ``ring`` or ``all_to_all``, of context ranks.
    """
    if shard.cp == 1:
        return tuple(core(shard, attention))
    return tuple(_ring(shard) if context == "ring" else _dealt(shard, attention))


def _ring(shard: Shard) -> Iterator[ShardedOperator]:
    """As many blocks as context ranks, in the order in which they come, and the sum of what they give."""
    model = shard.model
    query = shard.tokens * shard.heads * model.head_dim
    block = 2 * shard.tokens * shard.kv_heads * model.head_dim  # keys and values
    (own,) = core(replace(shard, model=replace(model, seq_len=shard.seq_len), cp=1), "flash")
    for number in range(shard.cp):
        ends = number in (0, shard.cp - 1)
        yield replace(
            own,
            beside=Exchange(
                kind=own.kind,
                forward="send_recv" if number + 1 < shard.cp else None,
                backward="send_recv",
                cuts=_cuts(shard, block),
                back_cuts=_cuts(shard, block if ends else 2 * block),  # those that come, and gradients that go
                over="context",
            ),
        )
    sums = 3 * (shard.cp - 1)  # both summands are read, the sum is written
    made = shard.tensor(own.name, query)
    yield shard.elementwise("attention", "merge", sums * query, sums * (query + block), reads=(made,))


def _dealt(shard: Shard, attention: str) -> Iterator[ShardedOperator | Exchange]:
    """Whole sequences of ``1 / cp`` of the heads: those of a model that has no others."""
    width, query, keys = shard.model.head_dim, shard.heads, shard.kv_heads
    yield _all_to_all(shard, shard.tokens * (query + 2 * keys) * width)
    own = replace(shard.model, heads=query // shard.cp, kv_heads=keys // shard.cp, hidden=query // shard.cp * width)
    yield from core(replace(shard, model=own, tp=1, index=0, shares=(), cp=1), attention)
    yield _all_to_all(shard, shard.tokens * query * width)


def _all_to_all(shard: Shard, elements: int) -> Exchange:
    """Every context rank has so many."""
    cuts = _cuts(shard, elements)
    return Exchange(kind="attention", forward="all_to_all", backward="all_to_all", cuts=cuts, over="context")


def _cuts(shard: Shard, elements: int) -> tuple[int, ...]:
    return tuple(rank * elements for rank in range(shard.cp + 1))
