"""An iteration of a plan action by action, without contention: nearer to a simulation than a closed form, and dearer.

Each stage does its actions in the order of the schedule, as soon as what they need has arrived; what is sent takes what
a hand-over takes alone, while the sender goes on. A block of gradients is summed once all who hold it have ended their
backward passes; a stage has part in one sum at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from xsim.plan.kinds import Pipeline, Sketch, whole_layers
from xsim.plan.search.contracts import Again, Ints, Seat, Tables
from xsim.plan.search.footprint import Footprint
from xsim.plan.search.kernels import course
from xsim.plan.search.price import seats
from xsim.plan.workload import Action

__all__ = ["course_ps"]

Order = Callable[[int, int, int, int], tuple[Action, ...]]

LONGEST = 4096  # micro-batches of a pipeline that are run one by one; how hard is searched: no quantity of a model


def course_ps(sketch: Sketch, tables: Tables, order: Order) -> int:
    """The iteration.

    Args:
        order: Of actions, by (stage, stages, micro-batches, chunks): one direction, no virtual stages.
    """
    ends = [_ends_ps(pipeline, tables, order) for pipeline in sketch.pipelines]
    done = {(p, s): int(end) for p, own in enumerate(ends) for s, end in enumerate(own)}
    sums = sorted(
        ((max(done[place] for place in places), time_ps, places) for places, time_ps in tables.sums_ps(sketch)),
        key=lambda each: (each[0], -each[1], each[2]),
    )
    for start_ps, time_ps, places in sums:
        end_ps = max(start_ps, *(done[place] for place in places)) + time_ps
        done.update(dict.fromkeys(places, end_ps))
    return max(done[p, s] + update for p, s, update in _updates(sketch, tables))


def _updates(sketch: Sketch, tables: Tables) -> list[tuple[int, int, int]]:
    """(pipeline, stage, what its optimizer takes)."""
    return [
        (p, s, max(tables.update_ps(x.kind, x.tp, held, x.samples) for x in seats(stage, pipeline.micro_batch)))
        for p, pipeline in enumerate(sketch.pipelines)
        for s, (stage, held) in enumerate(zip(pipeline.stages, whole_layers(pipeline, tables.layers), strict=True))
    ]


def _ends_ps(pipeline: Pipeline, tables: Tables, order: Order) -> Ints:
    """When each stage has ended its last backward pass; those of many micro-batches go on at the pace of the last."""
    count = pipeline.micro_batches
    passes = _passes(pipeline, tables)
    if count <= LONGEST:
        return _run(order, passes, count)
    middle, last = (_run(order, passes, own) for own in (LONGEST // 2, LONGEST))
    return last + (last - middle) // (LONGEST - LONGEST // 2) * (count - LONGEST)


def _run(order: Order, passes: tuple[Ints, Ints, Ints, Ints], count: int) -> Ints:
    ends = np.zeros(len(passes[0]), dtype=np.int64)
    course(_script(order, len(ends), count), *passes, ends)
    return ends


def _passes(pipeline: Pipeline, tables: Tables) -> tuple[Ints, Ints, Ints, Ints]:
    """Of each stage a forward and a backward pass, and what reaches it from the stage before and from the next."""
    stages = len(pipeline.stages)
    held = whole_layers(pipeline, tables.layers)
    own = [seats(stage, pipeline.micro_batch) for stage in pipeline.stages]
    forward = [max(_forward_ps(tables, x, span) for x in each) for each, span in zip(own, held, strict=True)]
    backward = [
        max(_backward_ps(tables, x, span, stage.recompute) for x in each)
        for each, span, stage in zip(own, held, pipeline.stages, strict=True)
    ]
    onward, back = np.zeros(stages, dtype=np.int64), np.zeros(stages, dtype=np.int64)
    for s in range(stages - 1):
        near = _beside(pipeline, s, tables)
        onward[s + 1] = max(tables.boundary_ps(a, b, near=near) for a in own[s] for b in own[s + 1])
        back[s] = max(tables.boundary_ps(b, a, near=near) for a in own[s] for b in own[s + 1])
    return np.array(forward), np.array(backward), onward, back


@lru_cache(maxsize=64)  # a search runs pipelines of a few shapes; one of 16 stages has 1 MB at most
def _script(order: Order, stages: int, count: int) -> Ints:
    """Actions as ``course`` takes them; halves of backward passes count as one, where the first of them is."""
    script = np.zeros((stages, 2 * count), dtype=np.int64)
    for s in range(stages):
        actions = [action for action in order(s, stages, count, 1) if action.kind in ("F", "B", "I")]
        script[s] = [2 * action.micro_batch + (action.kind != "F") for action in actions]
    return script


def _beside(pipeline: Pipeline, stage: int, tables: Tables) -> bool:
    """Whether each pipeline is said to have this stage and the next in one host."""
    pair = [copies for own in pipeline.stages[stage : stage + 2] for copies in own.copies]
    return all(copies.ranks for copies in pair) and all(
        len({tables.host(rank) for own in pair for ranks in own.of(turn) for rank in ranks}) == 1
        for turn in range(pipeline.count)
    )


def _forward_ps(tables: Tables, seat: Seat, held: range) -> int:
    return int(tables.forward_ps(seat.kind, seat.tp, seat.samples)[held.start : held.stop].sum())


def _backward_ps(tables: Tables, seat: Seat, held: range, recompute: Again) -> int:
    at = (seat.kind, seat.tp, seat.samples)
    plain = tables.backward_ps(*at)
    inner = len(held) - (0 in held) - (tables.layers + 1 in held)
    again = sum(
        count * int(tables.backward_ps(*at, names)[1] - plain[1]) for names, count in Footprint.sets(recompute, inner)
    )
    return int(plain[held.start : held.stop].sum()) + again
