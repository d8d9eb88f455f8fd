"""From a set of pipelines to the plan of them, with the local batches that end soonest."""

from __future__ import annotations

from collections import Counter

from xsim.plan.kinds import Pipeline, Sketch
from xsim.plan.search.batches import Running, soonest
from xsim.plan.search.shapes import Shapes

__all__ = ["sketched"]


def sketched(shapes: Shapes, built: Counter[int], batch: int) -> Sketch | None:
    """The plan of so many pipelines of each shape, with the local batches that end soonest.

    If there are so many pipelines that not all get a micro-batch, the slowest are left out.
    """
    chosen = dict(sorted(built.items()))
    while chosen:
        each = [
            Running(int(shapes.fill_ps[i]), int(shapes.straggler_ps[i]), int(shapes.micro_batch[i]), count)
            for i, count in chosen.items()
        ]
        found = soonest(each, batch)
        if found is not None:
            pipelines = (
                shapes.pipeline(i, turns, times)
                for i, own in zip(chosen, found[1], strict=True)
                for turns, times in sorted(own.items(), reverse=True)
            )
            return Sketch(tuple(sorted(pipelines, key=_by_size)))
        slowest = max(chosen, key=lambda i: (int(shapes.fill_ps[i]), i))
        chosen[slowest] -= 1
        if not chosen[slowest]:
            del chosen[slowest]
    return None


def _by_size(pipeline: Pipeline) -> tuple[object, ...]:
    """An order that does not depend on how they were found."""
    return (-pipeline.samples, -pipeline.count, repr(pipeline))
