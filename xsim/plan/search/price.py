"""What an iteration of a plan takes, in closed form.

A pipeline fills with one micro-batch through all stages, there and back, with what they send; every further one takes
as long as the slowest stage with what it sends: ``fill + (n - 1) straggler``. Gradients are summed when the last
pipeline has ended, and the optimizer follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.kinds import Pipeline, Sketch, SketchStage, whole_layers
from xsim.plan.search.contracts import Again, Seat, Tables
from xsim.plan.search.footprint import Footprint

__all__ = ["Priced", "fits", "pass_ps", "price", "seats"]


@dataclass(frozen=True, slots=True)
class Priced:
    """An iteration and its parts.

    Attributes:
        pipelines: Of each entry of the sketch (fill, straggler, end).
    """

    iteration_ps: int
    pipelines: tuple[tuple[int, int, int], ...]
    sync_ps: int
    update_ps: int


def price(sketch: Sketch, tables: Tables) -> Priced:
    """Of a sketch that has passed ``xsim.plan.sketch.check``."""
    pipelines = tuple(_pipeline(pipeline, tables) for pipeline in sketch.pipelines)
    updates = (
        tables.update_ps(seat.kind, seat.tp, held, seat.samples)
        for pipeline in sketch.pipelines
        for stage, held in zip(pipeline.stages, whole_layers(pipeline, tables.layers), strict=True)
        for seat in seats(stage, pipeline.micro_batch)
    )
    sync_ps, update_ps = tables.sync_ps(sketch), max(updates)
    longest_ps = max(end_ps for _, _, end_ps in pipelines)
    return Priced(longest_ps + sync_ps + update_ps, pipelines, sync_ps, update_ps)


def _pipeline(pipeline: Pipeline, tables: Tables) -> tuple[int, int, int]:
    stages = [seats(stage, pipeline.micro_batch) for stage in pipeline.stages]
    held = whole_layers(pipeline, tables.layers)
    passes = [
        max(pass_ps(tables, seat, layers, stage.recompute) for seat in own)
        for stage, own, layers in zip(pipeline.stages, stages, held, strict=True)
    ]
    sends = tables.hand_overs_ps(stages)
    fill_ps = sum(passes) + sum(sends)
    straggler_ps = max(own + sent for own, sent in zip(passes, sends, strict=True))
    return fill_ps, straggler_ps, fill_ps + (pipeline.micro_batches - 1) * straggler_ps


def seats(stage: SketchStage, micro_batch: int) -> tuple[Seat, ...]:
    """Its copies, with what each takes of a micro-batch.

    Raises:
        SpecError: It is cut over contexts or experts, which has no closed form.
    """
    for name, degree in (("ep", stage.ep), *(("cp", copies.cp) for copies in stage.copies)):
        if degree > 1:
            raise SpecError(name, degree, "stages cut over contexts or experts have no closed form", "write 1")
    samples = stage.samples(micro_batch)
    return tuple(Seat(c.device, c.tp, own, c.count) for c, own in zip(stage.copies, samples, strict=True))


def pass_ps(tables: Tables, seat: Seat, layers: range, recompute: Again = ()) -> int:
    """One micro-batch forward and backward through a copy that holds ``layers``, ends among them."""
    at = (seat.kind, seat.tp, seat.samples)
    span = slice(layers.start, layers.stop)
    plain = tables.backward_ps(*at)
    total = int(tables.forward_ps(*at)[span].sum() + plain[span].sum())
    inner = len(layers) - (0 in layers) - (tables.layers + 1 in layers)
    for names, count in Footprint.sets(recompute, inner):
        total += count * int(tables.backward_ps(*at, names)[1] - plain[1])
    return total


def fits(sketch: Sketch, tables: Tables) -> bool:
    """Whether every stage of it fits the memory of its devices."""
    for pipeline in sketch.pipelines:
        stages = len(pipeline.stages)
        for s, (stage, held) in enumerate(zip(pipeline.stages, whole_layers(pipeline, tables.layers), strict=True)):
            flying = tables.in_flight(s, stages, pipeline.micro_batches)
            for seat in seats(stage, pipeline.micro_batch):
                need = tables.memory_bytes(seat.kind, seat.tp, seat.samples, held, flying, stage.recompute)
                if need > tables.capacity_bytes(seat.kind):
                    return False
    return True
