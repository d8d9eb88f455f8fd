"""Zero bubble: the backward in halves, of which one fills the waits."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.turns import check_one_chunk
from xsim.plan.workload import Action

__all__ = ["ZbH1"]


@dataclass(frozen=True, slots=True)
class ZbH1:
    """ZB-H1: 1F1B whose backward hands the input's gradients on before it computes the weights', which fill waits.

    Stage s of p puts the gradients of the weights (``W``) off by s micro-batches, so that every stage keeps p, as many
    as the first of 1F1B (Qi et al. 2023, https://arxiv.org/abs/2401.10241 section 2.1). On equal stages with p or more
    micro-batches the bubble is (p - 1) (F + I - W), where W takes no longer than F; 1F1B has (p - 1) (F + I + W).
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        check_one_chunk("zb_h1", chunks)
        ahead = min(stages - stage - 1, micro_batches)
        order = [Action("F", m) for m in range(ahead)]
        for m in range(micro_batches):
            if ahead + m < micro_batches:
                order.append(Action("F", ahead + m))
            order.append(Action("I", m))
            if m >= stage:
                order.append(Action("W", m - stage))
        order += [Action("W", m) for m in range(max(0, micro_batches - stage), micro_batches)]
        return tuple(order)
