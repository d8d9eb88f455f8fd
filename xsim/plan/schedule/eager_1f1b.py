"""One forward, one backward, with twice the forwards ahead."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.turns import check_one_chunk, in_turn
from xsim.plan.workload import Action

__all__ = ["EagerOneFOneB"]


@dataclass(frozen=True, slots=True)
class EagerOneFOneB:
    """1F1B with twice the forwards ahead, so that activations travel while both ends compute; takes more memory.

    Stage s of p runs 2 (p - s) - 1 forwards before its first backward, and keeps as many micro-batches (AlpaComm,
    https://arxiv.org/abs/2211.05322, there eager-1F1B). Without communication it takes as long as 1F1B.
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        check_one_chunk("eager_1f1b", chunks)
        forward, backward = ([Action(kind, m) for m in range(micro_batches)] for kind in "FB")
        return in_turn(forward, backward, 2 * (stages - stage - 1))
