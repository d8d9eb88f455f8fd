"""One forward, one backward, with several chunks of layers per stage."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.turns import in_turn
from xsim.plan.workload import Action

__all__ = ["Interleaved"]


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Interleaved 1F1B over virtual stages: a group of micro-batches takes a chunk after the other; less bubble.

    The stages take turns in holding the chunks, which are the ranges of layers of a stage and may differ in size.
    Groups are of as many micro-batches as there are stages (Narayanan et al. 2021, https://arxiv.org/abs/2104.04473
    section 2.2); if that leaves a smaller one, the next larger size that leaves none, since stages could then wait for
    each other for ever (Megatron-LM refuses it and lets the user choose the size). With g in a group, stage s of p with
    v chunks each is 2 (p - s - 1) + (v - 1) g forwards ahead. With one chunk it is 1F1B.
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        size = _group_size(stages, micro_batches)
        groups = [range(start, min(start + size, micro_batches)) for start in range(0, micro_batches, size)]
        forward = [Action("F", m, chunk) for group in groups for chunk in range(chunks) for m in group]
        backward = [Action("B", m, chunk) for group in groups for chunk in reversed(range(chunks)) for m in group]
        later = stages - stage - 1
        return in_turn(forward, backward, later if chunks == 1 else 2 * later + (chunks - 1) * size)


def _group_size(stages: int, micro_batches: int) -> int:
    """The smallest that leaves no group with fewer micro-batches than stages; all of them if they are too few."""
    fitting = (size for size in range(stages, micro_batches) if not 0 < micro_batches % size < stages)
    return next(fitting, micro_batches)
