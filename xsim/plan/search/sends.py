"""What the stages of a pipeline send to each other for one micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xsim.plan.search.contracts import Seat, Tables

__all__ = ["hand_overs_ps"]


def hand_overs_ps(tables: Tables, stages: Sequence[tuple[Seat, ...]]) -> tuple[int, ...]:
    """What each stage of a pipeline sends to its neighbours for one micro-batch, both ways."""
    sent = [0] * len(stages)
    first, last = tables.send_weights(len(stages))
    for s, (near, far) in enumerate(pairwise(stages)):
        onward, back = (first if s == 0 else 1), (last if s + 2 == len(stages) else 1)
        sent[s] += onward * max(tables.boundary_ps(a, b) for a in near for b in far)
        sent[s + 1] += back * max(tables.boundary_ps(b, a) for a in near for b in far)
    return tuple(sent)
