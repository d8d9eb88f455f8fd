"""Forwards and backwards in turn: what the 1F1B family of schedules has in common."""

from __future__ import annotations

from collections.abc import Sequence

from xsim.errors import SpecError
from xsim.plan.workload import Action

__all__ = ["check_one_chunk", "in_turn"]


def in_turn(forward: Sequence[Action], backward: Sequence[Action], ahead: int) -> tuple[Action, ...]:
    """``ahead`` forwards, then a forward and a backward in turn, then the backwards that are left."""
    first, rest = forward[:ahead], forward[ahead:]
    pairs = (action for pair in zip(rest, backward, strict=False) for action in pair)
    return (*first, *pairs, *backward[len(rest) :])


def check_one_chunk(schedule: str, chunks: int) -> None:
    """Refuse virtual stages.

    Raises:
        SpecError: There are several chunks.
    """
    if chunks != 1:
        problem = f"{schedule} takes one chunk per stage, one range of layers"
        raise SpecError("chunks", chunks, problem, "use one, or choose schedule=interleaved")
