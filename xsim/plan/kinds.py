"""The values of a plan in kinds of devices and how many of each (``xsim.plan.sketch``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from xsim.errors import SpecError
from xsim.spec.checks import at_least

__all__ = ["Copies", "Pipeline", "Sketch", "SketchStage", "whole_layers"]


@dataclass(frozen=True, slots=True)
class Copies:
    """Data-parallel copies of a stage on devices of one kind.

    Attributes:
        device: Name of the kind, as the cluster has it.
        tp: Tensor-parallel degree: so many devices of one host cut a copy, or the part of one context rank, among them.
        count: How many copies.
        samples: What each takes of each micro-batch; 0 for all copies of a stage: equal parts of it.
        ranks: Of each copy, in tensor order; those of the first of several equal pipelines first. Empty: any.
        state_shares: With ``zero``, what each rank of a copy keeps of what is shared out, as in a deployment.
        cp: Context-parallel degree.
    """

    device: str
    tp: int
    count: int = 1
    samples: int = 0
    ranks: tuple[tuple[int, ...], ...] = ()
    state_shares: tuple[float, ...] = ()
    cp: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "count"):
            at_least(self, name, 1)
        at_least(self, "samples", 0)

    @property
    def size(self) -> int:
        """Devices of one copy."""
        return self.tp * self.cp

    @property
    def devices(self) -> int:
        """Of all copies."""
        return self.size * self.count

    def of(self, turn: int) -> tuple[tuple[int, ...], ...]:
        """The ranks of the copies in one of several equal pipelines, from 0."""
        return self.ranks[turn * self.count : (turn + 1) * self.count]


@dataclass(frozen=True, slots=True)
class SketchStage:
    """A contiguous part of the model.

    Attributes:
        layers: Of the transformer layers 1..L, half-open; a first stage holds the embedding (0) too and a last one the
            head (L + 1), whether or not they are in it. A stage of an end alone is ``range(0, 1)`` or
            ``range(L + 1, L + 2)``.
        recompute: (operator, in how many of the transformer layers) that is computed again, not kept.
        where: Of each entry of ``recompute`` the layers, if they are not the stage's first ones. Empty: all are.
        ep: Expert-parallel degree: every ``ep`` copies that follow one another share out the experts.
    """

    layers: range
    copies: tuple[Copies, ...]
    recompute: tuple[tuple[str, int], ...] = ()
    sequence_parallel: bool = False
    ep: int = 1
    where: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        at_least(self, "ep", 1)
        if self.where and [len(layers) for layers in self.where] != [count for _, count in self.recompute]:
            problem = "they are not as many as recompute says"
            raise SpecError(
                "where", [list(layers) for layers in self.where], problem, "list the layers of each operator"
            )
        if not self.layers or self.layers.step != 1:
            raise SpecError("layers", self.layers, "a stage needs layers", "give it one or more")
        if not self.copies:
            raise SpecError("copies", [], "a stage needs devices", "list some under copies")

    @property
    def width(self) -> int:
        """How many copies of it there are."""
        return sum(copies.count for copies in self.copies)

    @property
    def devices(self) -> int:
        """Of all copies."""
        return sum(copies.devices for copies in self.copies)

    def samples(self, micro_batch: int) -> tuple[int, ...]:
        """What one copy of each of ``copies`` takes of a micro-batch.

        Raises:
            SpecError: They do not sum to it.
        """
        given = tuple(copies.samples for copies in self.copies)
        if any(given):
            total = sum(copies.samples * copies.count for copies in self.copies)
            if min(given) < 1 or total != micro_batch:
                problem = f"of a micro-batch of {micro_batch} they take {total}"
                fix = "make them equal, give none 0, or all: they then take equal parts"
                raise SpecError("copies", [f"{c.count} x {c.samples}" for c in self.copies], problem, fix)
            return given
        if micro_batch % self.width:
            problem = f"{self.width} copies cannot take equal parts of a micro-batch of {micro_batch}"
            raise SpecError("copies", self.width, problem, "say how many samples each takes, or choose a multiple")
        return (micro_batch // self.width,) * len(self.copies)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``count`` equal pipelines, each a copy of the model.

    Attributes:
        micro_batch: Samples of one micro-batch.
        micro_batches: How many each pipeline works through per iteration.
    """

    stages: tuple[SketchStage, ...]
    micro_batch: int
    micro_batches: int
    count: int = 1

    def __post_init__(self) -> None:
        if not self.stages:
            raise SpecError("stages", [], "a pipeline needs a stage", "list one under stages")
        for name in ("micro_batch", "micro_batches", "count"):
            at_least(self, name, 1)
        for number, stage in enumerate(self.stages):
            try:
                stage.samples(self.micro_batch)
            except SpecError as error:
                raise error.under(f"stages[{number}]") from None

    @property
    def samples(self) -> int:
        """Of all of them, per iteration."""
        return self.micro_batch * self.micro_batches * self.count


@dataclass(frozen=True, slots=True)
class Sketch:
    """Pipelines that train side by side.

    Attributes:
        source: Where it comes from: a planner, a tool, a table of a paper.
        predicted_ps: How long an iteration takes, as its planner thinks.
        zero: What data-parallel ranks share out, as in a deployment.
        gather_overlap, bucket_bytes, serial_sync, blocking_sends, rendezvous, tp_async, tp_overlap: As in a deployment.
    """

    pipelines: tuple[Pipeline, ...]
    name: str = ""
    source: str = ""
    predicted_ps: int | None = None
    zero: int = 0
    gather_overlap: bool = False
    bucket_bytes: int | None = None
    serial_sync: bool = False
    blocking_sends: bool = False
    rendezvous: bool = False
    tp_async: bool = False
    tp_overlap: bool = False

    def __post_init__(self) -> None:
        if not self.pipelines:
            raise SpecError("pipelines", [], "a plan needs a pipeline", "list one under pipelines")

    @property
    def samples(self) -> int:
        """The batch: samples per iteration."""
        return sum(pipeline.samples for pipeline in self.pipelines)

    @property
    def devices(self) -> Counter[str]:
        """How many of each kind it uses."""
        found: Counter[str] = Counter()
        for pipeline in self.pipelines:
            for stage in pipeline.stages:
                for copies in stage.copies:
                    found[copies.device] += copies.devices * pipeline.count
        return found


def whole_layers(pipeline: Pipeline, layers: int) -> tuple[range, ...]:
    """What each stage holds of a model of so many transformer layers, embedding (0) and head (``layers + 1``) too.

    Raises:
        SpecError: The stages do not cover each layer once, in order.
    """
    stages = pipeline.stages
    first, last = stages[0].layers, stages[-1].layers
    if first.start not in (0, 1):
        raise SpecError("stages[0].layers", first, "the first layer is 1 (or 0, the embedding)", "start there")
    for number, (before, stage) in enumerate(pairwise(stages), 1):
        if stage.layers.start != before.layers.stop:
            problem = f"the stage before it ends at layer {before.layers.stop - 1}"
            fix = f"start it at layer {before.layers.stop}"
            raise SpecError(f"stages[{number}].layers", stage.layers, problem, fix)
    if last.stop not in (layers + 1, layers + 2):
        problem = f"the last layer is {layers} (or {layers + 1}, the head)"
        raise SpecError(f"stages[{len(stages) - 1}].layers", last, problem, "end there")
    ends = [first.start, *(stage.layers.stop for stage in stages)]
    ends[0], ends[-1] = 0, layers + 2
    return tuple(range(start, stop) for start, stop in pairwise(ends))
