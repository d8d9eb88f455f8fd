"""The same plan in another form: without its ranks, under other names of devices, or counted in its shortest form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage

__all__ = ["inner_layers", "merged", "plain", "renamed", "unplaced"]


def inner_layers(held: range, layers: int) -> range:
    """Without the ends, which are implied, unless there is nothing else."""
    return range(max(held.start, 1), min(held.stop, layers + 1)) or held


def unplaced(sketch: Sketch) -> Sketch:
    """The same plan without its ranks."""
    return _changed(sketch, lambda copies: replace(copies, ranks=()))


def plain(sketch: Sketch, layers: int) -> Sketch:
    """The same plan of a model of ``layers`` without what has no part in its price, in its shortest form.

    Left out are buckets of gradients unless states are shared out, how syncs and sends follow one another, what runs
    beside collectives, and which layers of a stage it is that recompute.
    """
    pipelines = tuple(
        replace(own, stages=tuple(replace(stage, where=()) for stage in own.stages)) for own in sketch.pipelines
    )
    usual = Sketch(pipelines, sketch.name, sketch.source, sketch.predicted_ps, sketch.zero)
    if sketch.zero:
        usual = replace(usual, gather_overlap=sketch.gather_overlap, bucket_bytes=sketch.bucket_bytes)
    return merged(usual, layers)


def renamed(sketch: Sketch, names: Mapping[str, str]) -> Sketch:
    """The same plan where kinds of devices are called otherwise."""
    return _changed(sketch, lambda copies: replace(copies, device=names[copies.device]))


def _changed(sketch: Sketch, change: Callable[[Copies], Copies]) -> Sketch:
    pipelines = (
        replace(
            pipeline,
            stages=tuple(replace(stage, copies=tuple(map(change, stage.copies))) for stage in pipeline.stages),
        )
        for pipeline in sketch.pipelines
    )
    return replace(sketch, pipelines=tuple(pipelines))


def merged(sketch: Sketch, layers: int) -> Sketch:
    """The same plan of a model of ``layers`` in its shortest form: what is equal is counted, what is implied left out.

    Copies and pipelines that follow one another and differ in nothing but ranks become one entry that counts them;
    equal parts of micro-batches, and the ends of the model, are not spelled out.
    """
    pipelines = [
        replace(pipeline, stages=tuple(_merged_stage(stage, pipeline, layers) for stage in pipeline.stages))
        for pipeline in sketch.pipelines
    ]
    found = [_joined(list(alike)) for _, alike in groupby(pipelines, key=_but_for_ranks)]
    return replace(sketch, pipelines=tuple(found))


def _merged_stage(stage: SketchStage, pipeline: Pipeline, layers: int) -> SketchStage:
    samples = stage.samples(pipeline.micro_batch)
    each = samples if len(set(samples)) > 1 else (0,) * len(samples)
    plain = [replace(copies, samples=own) for copies, own in zip(stage.copies, each, strict=True)]
    alike = groupby(plain, key=_alike)
    copies = tuple(_counted(list(run), pipeline.count) for _, run in alike)
    return replace(stage, copies=copies, layers=inner_layers(stage.layers, layers))


def _alike(copies: Copies) -> tuple[object, ...]:
    return copies.device, copies.tp, copies.cp, copies.samples, copies.state_shares, bool(copies.ranks)


def _counted(run: Sequence[Copies], pipelines: int) -> Copies:
    ranks = tuple(own for turn in range(pipelines) for each in run for own in each.of(turn))
    return replace(run[0], count=sum(each.count for each in run), ranks=ranks)


def _but_for_ranks(pipeline: Pipeline) -> tuple[object, ...]:
    bare = unplaced(Sketch((replace(pipeline, count=1),)))
    return bare, tuple(bool(copies.ranks) for stage in pipeline.stages for copies in stage.copies)


def _joined(alike: Sequence[Pipeline]) -> Pipeline:
    first = alike[0]
    stages = []
    for s, stage in enumerate(first.stages):
        copies = tuple(
            replace(own, ranks=tuple(ranks for each in alike for ranks in each.stages[s].copies[c].ranks))
            for c, own in enumerate(stage.copies)
        )
        stages.append(replace(stage, copies=copies))
    return replace(first, stages=tuple(stages), count=sum(each.count for each in alike))
