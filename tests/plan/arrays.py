"""Plans and graphs carried out on real numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import CommPlan
from xsim.plan.replay import events_of, zeros_of

__all__ = ["Floats", "carried_out"]

Floats = NDArray[np.float64]


def carried_out(
    plan: CommPlan | TransferGraph,
    held: Mapping[int, Floats],
    element_bytes: int = 1,
    order: Sequence[int] | None = None,
) -> dict[int, Floats]:
    """What every rank has in the end.

    Args:
        held: Of each rank that takes part, the whole tensor; NaN where it holds nothing.
        element_bytes: Of a graph, whose spans are in bytes.
        order: In which the events happen; absent: as listed.
    """
    unit = element_bytes if isinstance(plan, TransferGraph) else 1

    def at(span: range) -> slice:
        assert not span.start % unit
        assert not span.stop % unit
        return slice(span.start // unit, span.stop // unit)

    memory = {rank: values.copy() for rank, values in held.items()}
    for rank, span in zeros_of(plan):
        memory[rank][at(span)] = 0.0
    events = events_of(plan)
    for event in events if order is None else [events[number] for number in order]:
        results = []
        for write in event.writes:
            here = at(write.span)
            sent = [memory[rank][here] for rank in (*write.sources, *([write.rank] if write.add else []))]
            results.append(np.sum(sent, axis=0) if sent else np.full(here.stop - here.start, np.nan))
        for write, result in zip(event.writes, results, strict=True):
            memory[write.rank][at(write.span)] = result
    return memory
