"""A plan as tables: its stages, and when they worked; what ``analysis.plan`` draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xsim.errors import SpecError
from xsim.experiment import Planned, Result
from xsim.plan.sketch import Sketch, whole_layers
from xsim.spec.cluster import rank_devices
from xsim.spec.scenario import Scenario
from xsim.tables import Table, ranges

__all__ = ["Outlined", "Part", "parts", "pass_table", "stage_table"]

LARGEST_INTEGER = 2**63 - 1  # of a table


@dataclass(frozen=True, slots=True)
class Part:
    """Equal copies of a stage of equal pipelines.

    Attributes:
        pipeline, stage, copies: Its numbers in the sketch.
        replicas: Of the deployment, those of the pipeline.
        ranks: Of all copies in the first replica.
        need_bytes: Of the rank that needs most.
        has_bytes: Of one device.
    """

    pipeline: int
    stage: int
    copies: int
    replicas: range
    layers: range
    device: str
    tp: int
    cp: int
    ep: int
    count: int
    samples: int
    micro_batch: int
    micro_batches: int
    recompute: str
    ranks: tuple[int, ...]
    need_bytes: int
    has_bytes: int


@dataclass(frozen=True, slots=True)
class Outlined:
    """A plan in kinds of devices, and its parts."""

    name: str
    sketch: Sketch
    parts: tuple[Part, ...]


def parts(sketch: Sketch, planned: Planned, scenario: Scenario) -> Iterator[Part]:
    """All of them, pipeline by pipeline; ``sketch`` is that of the deployment.

    Raises:
        SpecError: One needs more memory than can be counted.
    """
    needs = {rank: need.total_bytes for rank, need in planned.memory.needs}
    devices = rank_devices(scenario.cluster)
    first = 0
    for p, pipeline in enumerate(sketch.pipelines):
        replicas = range(first, first + pipeline.count)
        held = whole_layers(pipeline, scenario.model.layers)
        for s, (stage, layers) in enumerate(zip(pipeline.stages, held, strict=True)):
            groups = iter(planned.deployment.replicas[first].stages[s].groups)
            others = [planned.deployment.replicas[r].stages[s].groups for r in replicas]
            start = 0
            for c, (copies, samples) in enumerate(zip(stage.copies, stage.samples(pipeline.micro_batch), strict=True)):
                ranks = tuple(rank for _ in range(copies.count) for rank in next(groups).ranks)
                alike = [g for own in others for g in own[start : start + copies.count]]
                start += copies.count
                need_bytes = max(needs[rank] for group in alike for rank in group.ranks)
                if need_bytes > LARGEST_INTEGER:
                    problem = f"a stage of it needs about {need_bytes:.0e} bytes, more than can be counted"
                    raise SpecError("micro_batch", pipeline.micro_batch, problem, "lower it")
                yield Part(
                    pipeline=p,
                    stage=s,
                    copies=c,
                    replicas=replicas,
                    layers=layers,
                    device=copies.device,
                    tp=copies.tp,
                    cp=copies.cp,
                    ep=stage.ep,
                    count=copies.count,
                    samples=samples,
                    micro_batch=pipeline.micro_batch,
                    micro_batches=pipeline.micro_batches,
                    recompute=", ".join(f"{name} in {count}" for name, count in stage.recompute),
                    ranks=ranks,
                    need_bytes=need_bytes,
                    has_bytes=min(devices[rank].memory_bytes for group in alike for rank in group.ranks),
                )
        first += pipeline.count


def stage_table(found: Sequence[Part]) -> Table:
    """A row per part of a plan."""
    return {
        "pipeline": np.array([part.pipeline for part in found], dtype=np.int64),
        "pipelines": np.array([len(part.replicas) for part in found], dtype=np.int64),
        "stage": np.array([part.stage for part in found], dtype=np.int64),
        "first_layer": np.array([part.layers.start for part in found], dtype=np.int64),
        "last_layer": np.array([part.layers.stop - 1 for part in found], dtype=np.int64),
        "device": [part.device for part in found],
        "tp": np.array([part.tp for part in found], dtype=np.int64),
        "cp": np.array([part.cp for part in found], dtype=np.int64),
        "ep": np.array([part.ep for part in found], dtype=np.int64),
        "copies": np.array([part.count for part in found], dtype=np.int64),
        "samples": np.array([part.samples for part in found], dtype=np.int64),
        "micro_batch": np.array([part.micro_batch for part in found], dtype=np.int64),
        "micro_batches": np.array([part.micro_batches for part in found], dtype=np.int64),
        "recompute": [part.recompute for part in found],
        "ranks": [ranges(sorted(part.ranks)) for part in found],
        "peak_memory_bytes": np.array([part.need_bytes for part in found], dtype=np.int64),
        "device_memory_bytes": np.array([part.has_bytes for part in found], dtype=np.int64),
    }


def pass_table(found: Sequence[Part], result: Result) -> Table:
    """A row per pass of the first copy of each part, of the first of equal pipelines; ``S`` waits for gradient sums."""
    workload, timeline = result.workload, result.timeline
    place = {(program.replica, program.stage, program.group): n for n, program in enumerate(workload.programs)}
    rows: list[tuple[int, int, int, str, int, int, int]] = []
    for part in found:
        group = sum(other.count for other in found if _before(other, part))
        number = place[part.replicas.start, part.stage, group]
        at = (part.pipeline, part.stage, part.copies)
        for row in np.flatnonzero(timeline.program == number).tolist():
            times = (int(timeline.start_ps[row]), int(timeline.end_ps[row]))
            rows.append((*at, str(timeline.kind[row]), int(timeline.micro_batch[row]), *times))
        rows.append((*at, "S", 0, int(timeline.reached_ps[number]), int(timeline.synced_ps[number])))
    names = ("pipeline", "stage", "part", "pass", "micro_batch", "start_ps", "end_ps")
    columns = list(zip(*rows, strict=True))
    return {
        name: list(column) if name == "pass" else np.array(column, dtype=np.int64)
        for name, column in zip(names, columns, strict=True)
    }


def _before(other: Part, part: Part) -> bool:
    return (other.pipeline, other.stage) == (part.pipeline, part.stage) and other.copies < part.copies
