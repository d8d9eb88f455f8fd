"""One forward, one backward."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.workload import Action

__all__ = ["OneFOneB"]


@dataclass(frozen=True, slots=True)
class OneFOneB:
    """1F1B: as many forwards as there are later stages, then a forward and a backward in turn, then the backwards left.

    Stage s of p keeps at most p - s micro-batches (Narayanan et al. 2021, Figure 4 top; Megatron-LM's order).
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        if chunks != 1:
            problem = "one_f_one_b takes one chunk per stage"
            raise SpecError("chunks", chunks, problem, "give each stage one range of layers, or choose schedule=gpipe")
        ahead = min(stages - stage - 1, micro_batches)
        order = [Action("F", m) for m in range(ahead)]
        for m in range(micro_batches - ahead):
            order += [Action("F", ahead + m), Action("B", m)]
        order += [Action("B", m) for m in range(micro_batches - ahead, micro_batches)]
        return tuple(order)
