"""What happened when: the executor writes it, metrics and traces read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xsim.plan.workload import Body

__all__ = ["Timeline"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One iteration, from 0 to ``makespan_ps``. Columns of A actions are sorted by program, then by start.

    Inside an action the steps of its body follow one another without gaps: a ``Compute`` lasts as long as its slowest
    rank, a ``Collect`` as long as ``collects[walk]`` says, or, in a folded action (walk -1), as ``folded[body]`` says.

    Attributes:
        program: Program number of each action, A.
        kind: ``F``, ``B`` or ``U`` of each action, one character, A.
        micro_batch, chunk: Which one, A.
        start_ps, end_ps: When it ran, A.
        walk: Row of ``collects`` for an action that was walked step by step, -1 if it was folded, A.
        collects: Per walked action its collectives in order, as (start, end) rows, n x 2.
        folded: Per body the durations of its collectives in order, each alone on its links.
        reached_ps: When each program had ended its last backward and began to wait for its gradient syncs, P.
        synced_ps: When all of its gradient syncs were done; ``reached_ps`` if it has none, P.
        released_ps: Per sync, when each member's gradients were complete, in the sync's member order.
        done_ps: Per sync, when each member had the result.
        makespan_ps: When the last program ended: the training time.
    """

    program: Ints
    kind: NDArray[np.str_]
    micro_batch: Ints
    chunk: Ints
    start_ps: Ints
    end_ps: Ints
    walk: Ints
    collects: tuple[Ints, ...]
    folded: Mapping[Body, tuple[int, ...]]
    reached_ps: Ints
    synced_ps: Ints
    released_ps: tuple[Ints, ...]
    done_ps: tuple[Ints, ...]
    makespan_ps: int
