"""Products side by side with the collectives that feed or follow them, and what they lose to each other.

A collective occupies processors of the devices: 16 with Transformer Engine's pipelined overlap (``num_sm`` in
transformer_engine/pytorch/module/base.py of https://github.com/NVIDIA/TransformerEngine), 20 of 132 in the training of
DeepSeek-V3 (https://arxiv.org/abs/2412.19437 section 3.5.1). What computes beside it has the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.workload import Compute

__all__ = ["Degrees", "PassExchange", "exchanges", "exchanging", "side_by_side", "slowed", "without"]

LEAST_LEFT = 0.1  # of a measured layer that is left for its operators, whatever its collectives take


@dataclass(frozen=True, slots=True)
class PassExchange:
    """An exchange in one pass.

    Attributes:
        collective: What it is in that pass.
        steps: The collectives of a group whose ranks are those from 0 on, all at once.
        beside: What runs side by side with it.
    """

    exchange: Exchange
    collective: CollectiveKind
    steps: tuple[Collective, ...]
    beside: Compute | None = None

    def collectives(self, ranks: Sequence[int]) -> tuple[Collective, ...]:
        """Those of a group of ``ranks``."""
        return tuple(replace(step, ranks=tuple(ranks[place] for place in step.ranks)) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many ranks of a group cut what: weights, sequences, experts.

    Rank ``(position * cp + context) * tp + i`` is the i-th tensor rank of a context rank of the group at ``position``.
    """

    tp: int
    cp: int = 1
    ep: int = 1

    @property
    def ranks(self) -> range:
        """All of them."""
        return range(self.tp * self.cp * self.ep)

    def sets(self, over: str) -> Iterator[tuple[range, int]]:
        """(ranks that talk among themselves, the number of their shard), of an exchange over some of them.

        Shards differ by position and tensor rank, ``position * tp + i``.
        """
        tp, cp, ep = self.tp, self.cp, self.ep
        if over == "tensor":
            yield from (
                (self.ranks[start : start + tp], start // (cp * tp) * tp) for start in range(0, cp * tp * ep, tp)
            )
        elif over == "context":
            for shard in range(tp * ep):
                start = shard // tp * cp * tp
                yield self.ranks[start + shard % tp : start + cp * tp : tp], shard
        else:
            yield from ((self.ranks[start :: cp * tp], start % tp) for start in range(cp * tp))

    def shard(self, rank: int) -> int:
        """Which shard a rank has."""
        return rank // (self.cp * self.tp) * self.tp + rank % self.tp


def exchanging(across: Sequence[ShardedOperator | Exchange], degrees: Degrees, kind: str) -> PassExchange | None:
    """What one exchange of each shard, or that beside an operator of each, is in an action."""
    each = [part if isinstance(part, Exchange) else part.beside for part in across]
    found = [exchange for exchange in each if exchange is not None]
    collective = _exchanged(found[0], kind) if found else None
    if collective is None:
        return None
    steps = []
    for ranks, number in degrees.sets(found[0].over):
        own = found[number]
        forward = kind == "F" or not own.back_cuts
        cuts, shares = (own.cuts, own.shares) if forward else (own.back_cuts, own.back_shares)
        ends = None if collective == "all_reduce" else cuts
        steps.append(Collective(collective, tuple(ranks), range(cuts[-1]), cuts=ends, shares=shares))
    return PassExchange(found[0], collective, tuple(steps))


def exchanges(part: ShardedOperator | Exchange, kind: str) -> bool:
    """Whether ``part`` has a collective in an action, or beside what it does there."""
    exchange = part if isinstance(part, Exchange) else part.beside
    return exchange is not None and _exchanged(exchange, kind) is not None


def _exchanged(exchange: Exchange, kind: str) -> CollectiveKind | None:
    """The collective of ``exchange`` in an action; gradients of the weights need none."""
    return {"F": exchange.forward, "W": None}.get(kind, exchange.backward)


def side_by_side(parts: Iterable[tuple[Compute | PassExchange, bool]]) -> Iterator[Compute | PassExchange]:
    """``parts`` with each product beside the gathering of its input, or the summing of its output.

    Megatron-LM overlaps them piece by piece with sequence parallelism (``--tp-comm-overlap`` in
    megatron/training/arguments.py of https://github.com/NVIDIA/Megatron-LM); here the pieces are as small as can be,
    and without sequence parallelism the sum runs beside the product that it follows.
    """
    held: Compute | PassExchange | None = None
    held_product = False
    for part, product in parts:
        if product and isinstance(part, Compute) and isinstance(held, PassExchange) and _feeds(held):
            held, held_product = replace(held, beside=part), False
            continue
        if (
            held_product
            and isinstance(held, Compute)
            and isinstance(part, PassExchange)
            and part.exchange.over == "tensor"
            and part.collective != "all_gather"
        ):
            held, held_product = replace(part, beside=held), False
            continue
        if held is not None:
            yield held
        held, held_product = part, product
    if held is not None:
        yield held


def _feeds(exchanged: PassExchange) -> bool:
    """Whether a product may begin on what has come so far."""
    return exchanged.collective == "all_gather" and exchanged.beside is None


def slowed(work: Compute, collective_ps: int, share: float) -> Compute:
    """``work`` beside a collective of that length which has ``share`` of the processors while it lasts.

    >>> slowed(Compute("mlp", (30, 300)), 100, 0.25).durations_ps
    (40, 325)
    """
    if not share:
        return work
    whole_ps = collective_ps * share  # of the device's time, by the end of the collective
    lasting = (min(own_ps / (1 - share), own_ps + whole_ps) for own_ps in work.durations_ps)
    return replace(work, durations_ps=tuple(round(own_ps) for own_ps in lasting))


def without(parts: Sequence[Compute | PassExchange], collectives_ps: int) -> Sequence[Compute | PassExchange]:
    """Computations whose times hold these collectives, without them: each as much shorter as the others."""
    computing = [part if isinstance(part, Compute) else part.beside for part in parts]
    whole_ps = sum(max(part.durations_ps) for part in computing if part)
    left = max(1 - collectives_ps / max(whole_ps, 1), LEAST_LEFT)

    def shorter(part: Compute) -> Compute:
        return replace(part, durations_ps=tuple(round(ps * left) for ps in part.durations_ps))

    return [
        shorter(part) if isinstance(part, Compute) else replace(part, beside=part.beside and shorter(part.beside))
        for part in parts
    ]
