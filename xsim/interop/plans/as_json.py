"""Plans written as JSON, the form that ``xsim.interop.plans.interchange`` reads."""

from __future__ import annotations

import json
import re

from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = ["SWITCHES", "plan_json"]

SWITCHES = ("gather_overlap", "serial_sync", "blocking_sends", "rendezvous", "tp_async", "tp_overlap")  # of a plan


def plan_json(sketch: Sketch, scenario: Scenario) -> str:
    """A text that ``read_plan`` reads back to an equal plan."""
    layers = scenario.model.layers
    ends = any(
        stage.layers.stop <= 1 or stage.layers.start > layers for each in sketch.pipelines for stage in each.stages
    )
    plan = {
        "model": scenario.model.name,
        "layers": layers + 2 if ends else layers,
        "seq": scenario.model.seq_len,
        "gbs": sketch.samples,
        "name": sketch.name,
        "source": sketch.source,
        **({} if sketch.predicted_ps is None else {"predicted_s": sketch.predicted_ps / PS_PER_S}),
        "zero": sketch.zero,
        **{name: True for name in SWITCHES if getattr(sketch, name)},
        **({} if sketch.bucket_bytes is None else {"bucket_bytes": sketch.bucket_bytes}),
        "pipelines": [_pipeline_json(each, layers, ends=ends) for each in sketch.pipelines],
    }
    text = json.dumps(plan, indent=1)
    return re.sub(r"\[\s+(-?\d+(?:,\s+-?\d+)*)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def _pipeline_json(pipeline: Pipeline, layers: int, *, ends: bool) -> dict[str, object]:
    stages = []
    for number, stage in enumerate(pipeline.stages):
        first = stage.layers.start
        last = stage.layers.stop
        if ends:
            cut = [0 if number == 0 else first, layers + 2 if number == len(pipeline.stages) - 1 else last]
        else:
            cut = [max(first, 1) - 1, min(last, layers + 1) - 1]
        stages.append(
            {
                "layers": cut,
                "replicas": [_copies_json(copies) for copies in stage.copies],
                **({"recompute": _again_json(stage, first_layer=0 if ends else 1)} if stage.recompute else {}),
                **({"sequence_parallel": True} if stage.sequence_parallel else {}),
                **({"ep": stage.ep} if stage.ep > 1 else {}),
            }
        )
    return {
        "count": pipeline.count,
        "mbs": pipeline.micro_batch,
        "micro_batches": pipeline.micro_batches,
        "stages": stages,
    }


def _again_json(stage: SketchStage, first_layer: int) -> dict[str, object]:
    """By operator in how many layers, the first ones, or else in which, counted as in the plan."""
    if not stage.where:
        return dict(stage.recompute)
    each = zip(stage.recompute, stage.where, strict=True)
    return {name: [layer - first_layer for layer in layers] for (name, _), layers in each}


def _copies_json(copies: Copies) -> dict[str, object]:
    found: dict[str, object] = {"type": copies.device, "tp": copies.tp, "count": copies.count}
    if copies.cp > 1:
        found["cp"] = copies.cp
    if copies.samples:
        found["samples"] = copies.samples
    if copies.state_shares:
        found["state_shares"] = list(copies.state_shares)
    if copies.ranks:
        found["ranks"] = [list(ranks) for ranks in copies.ranks]
    return found
