"""Communication plans as data: steps, their order, and how they become transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Collective", "CollectiveKind", "CommPlan", "Step", "Transfer", "phases"]

CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """``src`` sends ``span`` to ``dst``, which overwrites what it has, or adds to it.

    Attributes:
        after: Numbers of earlier steps of the plan that come first.
    """

    src: int
    dst: int
    span: range
    add: bool = False
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collective:
    """``ranks`` work together on ``span``.

    Piece i of ``all_gather`` and ``reduce_scatter`` is the i-th of ``even_cuts(len(span), len(ranks))`` unless
    ``cuts`` gives the boundaries (absolute, from span.start to span.stop).

    Attributes:
        root: Position in ``ranks`` of the source of a broadcast.
    """

    kind: CollectiveKind
    ranks: tuple[int, ...]
    span: range
    root: int | None = None
    cuts: tuple[int, ...] | None = None
    after: tuple[int, ...] = ()


Step = Transfer | Collective


@dataclass(frozen=True, slots=True)
class CommPlan:
    """Steps in an order in which they may run; ``after`` points to earlier steps only."""

    steps: tuple[Step, ...]

    def participants(self) -> tuple[int, ...]:
        """All ranks that a step names, sorted."""
        return tuple(sorted({rank for step in self.steps for rank in ranks_of(step)}))


def ranks_of(step: Step) -> tuple[int, ...]:
    """Ranks that take part in ``step``."""
    return (step.src, step.dst) if isinstance(step, Transfer) else step.ranks


def phases(*groups: Sequence[Step]) -> CommPlan:
    """The plan whose phases follow one another: each step waits for all steps of the phase before.

    An empty phase is skipped.
    """
    steps: list[Step] = []
    before: tuple[int, ...] = ()
    for group in groups:
        first = len(steps)
        steps += [replace(step, after=before) for step in group]
        before = tuple(range(first, len(steps))) or before
    return CommPlan(tuple(steps))
