"""All forward, then all backward."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.workload import Action

__all__ = ["GPipe"]


@dataclass(frozen=True, slots=True)
class GPipe:
    """GPipe: every forward, then every backward in the same order; keeps the activations of all micro-batches.

    Several chunks follow one another, forward from the first and backward from the last.
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        forward = (Action("F", m, chunk) for chunk in range(chunks) for m in range(micro_batches))
        backward = (Action("B", m, chunk) for chunk in reversed(range(chunks)) for m in range(micro_batches))
        return (*forward, *backward)
