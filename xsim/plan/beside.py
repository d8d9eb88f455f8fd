"""Products side by side with the collectives that feed or follow them, and what they lose to each other.

Where a deployment has ``tp_async``, a backward pass sums the gradients of a product's input beside the product for
those of its weights, and with sequence parallelism gathers that input again beside the product before it. Megatron-LM
does so unless told otherwise (``--no-async-tensor-model-parallel-allreduce`` in megatron/training/arguments.py of
https://github.com/NVIDIA/Megatron-LM; https://arxiv.org/abs/2205.05198 section 4.2.2).

With ``tp_overlap`` the others do not follow one another either, as with Transformer Engine's ``--tp-comm-overlap``: a
product begins on what has been gathered, ring step by ring step, and its output is summed in pieces
(``ring_exchange``, ``pipeline`` and ``bulk`` in transformer_engine/pytorch/module/base.py of
https://github.com/NVIDIA/TransformerEngine). Pieces of what is gathered are as small as can be here.

A collective occupies processors of the devices: 16 with Transformer Engine's pipelined overlap (``num_sm`` there), 20
of 132 in the training of DeepSeek-V3 (https://arxiv.org/abs/2412.19437 section 3.5.1). What computes beside it has the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.workload import Compute

__all__ = ["Degrees", "Meets", "PassExchange", "exchanging", "in_pieces", "side_by_side", "slowed", "without"]

Meets = Literal["", "gathering", "sum", "both"]  # beside which of its collectives a product may run; both: in pieces
PIECES = 4  # num_splits of ``pipeline``, transformer_engine/pytorch/module/base.py

LEAST_LEFT = 0.1  # of a measured layer that is left for its operators, whatever its collectives take


@dataclass(frozen=True, slots=True)
class PassExchange:
    """An exchange in one pass.

    Attributes:
        collective: What it is in that pass.
        steps: The collectives of a group whose ranks are those from 0 on, all at once.
        beside: What runs side by side with it.
        pieces: In how many the output of a product beside it is summed; of one, nothing waits for another.
    """

    exchange: Exchange
    collective: CollectiveKind
    steps: tuple[Collective, ...]
    beside: Compute | None = None
    pieces: int = 1

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


def _exchanged(exchange: Exchange, kind: str) -> CollectiveKind | None:
    """The collective of ``exchange`` in an action; gradients of the weights need none."""
    return {"F": exchange.forward, "W": None}.get(kind, exchange.backward)


Part = Compute | PassExchange


def side_by_side(parts: Iterable[tuple[Part, Meets]]) -> Iterator[Part]:
    """``parts`` with products beside the gathering of their input, or the summing of their output, as they may be."""
    held: tuple[Part, Meets] | None = None
    for part, meets in parts:
        pair = _pair(*held, part, meets) if held else None
        if held and not pair:
            yield held[0]
        held = (pair, "") if pair else (part, meets)
    if held:
        yield held[0]


def _pair(first: Part, first_meets: Meets, second: Part, second_meets: Meets) -> PassExchange | None:
    """The two side by side; nothing if they have to follow one another."""
    if isinstance(first, PassExchange) and isinstance(second, Compute):
        gathering = first.exchange.over == "tensor" and first.collective == "all_gather" and first.beside is None
        return replace(first, beside=second) if gathering and second_meets in ("gathering", "both") else None
    if isinstance(first, PassExchange) or isinstance(second, Compute) or first_meets not in ("sum", "both"):
        return None
    summing = second.exchange.over == "tensor" and second.collective != "all_gather"
    return replace(second, beside=first, pieces=PIECES if first_meets == "both" else 1) if summing else None


def in_pieces(parts: Iterable[Compute | PassExchange], alone_ps: Callable[[PassExchange], int]) -> Iterator[Part]:
    """``parts``, of products that are summed in pieces only that beside their sum which can be.

    The first piece has no sum beside it, and the sum of the last no product. Of ``d`` and a sum of ``c`` all but one
    piece of the shorter runs beside the longer: together they take ``max(d, c) + min(d, c) / pieces``.
    """
    for part in parts:
        if isinstance(part, Compute) or part.pieces == 1 or part.beside is None:
            yield part
            continue
        own, most_ps = part.beside.durations_ps, alone_ps(part)
        beside = tuple(min(ps, most_ps) * (part.pieces - 1) // part.pieces for ps in own)
        before = tuple(whole - later for whole, later in zip(own, beside, strict=True))
        yield replace(part.beside, durations_ps=before)
        yield replace(part, beside=replace(part.beside, durations_ps=beside), pieces=1)


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
