"""One forward, one backward."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.turns import check_one_chunk, in_turn
from xsim.plan.workload import Action

__all__ = ["OneFOneB"]


@dataclass(frozen=True, slots=True)
class OneFOneB:
    """1F1B: as many forwards as there are later stages, then a forward and a backward in turn, then the backwards left.

    Stage s of p keeps at most p - s micro-batches (Narayanan et al. 2021, Figure 4 top; Megatron-LM's order).
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        check_one_chunk("one_f_one_b", chunks)
        forward, backward = ([Action(kind, m) for m in range(micro_batches)] for kind in "FB")
        return in_turn(forward, backward, stages - stage - 1)
