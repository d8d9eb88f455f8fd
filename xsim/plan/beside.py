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

__all__ = ["PassExchange", "exchanging", "side_by_side", "slowed", "without"]

LEAST_LEFT = 0.1  # of a measured layer that is left for its operators, whatever its collectives take


@dataclass(frozen=True, slots=True)
class PassExchange:
    """An exchange in one pass.

    Attributes:
        collective: What it is in that pass.
        cuts: Of each set of ranks that talk among themselves, as in ``Exchange``.
        beside: What runs side by side with it.
    """

    exchange: Exchange
    collective: CollectiveKind
    cuts: tuple[tuple[int, ...], ...]
    beside: Compute | None = None

    def collectives(self, ranks: Sequence[int]) -> tuple[Collective, ...]:
        """Those of a group of ``ranks``, all at once."""
        sets, size, tensor = len(self.cuts), len(self.cuts[0]) - 1, self.exchange.over == "tensor"
        kind = self.collective
        return tuple(
            Collective(
                kind,
                tuple(ranks[number * size : (number + 1) * size] if tensor else ranks[number::sets]),
                range(cuts[-1]),
                cuts=None if kind == "all_reduce" else cuts,
            )
            for number, cuts in enumerate(self.cuts)
        )


def exchanging(across: Sequence[ShardedOperator | Exchange], cp: int, kind: str) -> PassExchange | None:
    """What one exchange of each tensor rank, or that beside an operator of each, is in an action."""
    each = [part if isinstance(part, Exchange) else part.beside for part in across]
    found = [exchange for exchange in each if exchange is not None]
    collective = _exchanged(found[0], kind) if found else None
    if collective is None:
        return None
    cuts = [exchange.cuts if kind == "F" else exchange.back_cuts or exchange.cuts for exchange in found]
    return PassExchange(found[0], collective, (cuts[0],) * cp if found[0].over == "tensor" else tuple(cuts))


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
