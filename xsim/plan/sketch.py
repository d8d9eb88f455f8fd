"""A plan in terms of kinds of devices and how many of each: what planners search, and tools exchange.

It leaves open on which ranks a group sits. ``place`` says it, ``sketch_of`` forgets it; ``check`` refuses what no
deployment of a scenario can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from xsim.errors import SpecError
from xsim.plan.forms import inner_layers, merged
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage, whole_layers
from xsim.plan.recompute import recomputable
from xsim.plan.seats import Ask, Together, largest_in_host, seated
from xsim.spec.cluster import rank_kinds
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

__all__ = [
    "Copies",
    "Pipeline",
    "Sketch",
    "SketchStage",
    "Together",
    "check",
    "check_uncut",
    "pipeline_of",
    "place",
    "sketch_of",
    "whole_layers",
]

# What a plan in kinds says as a deployment does.
_SAME = (
    *("name", "bucket_bytes", "zero", "gather_overlap", "serial_sync", "blocking_sends", "rendezvous"),
    *("tp_async", "tp_overlap", "predicted_ps"),
)


def check(sketch: Sketch, scenario: Scenario) -> None:
    """Refuse what is no plan for this model and batch on this cluster; its memory is not looked at.

    Raises:
        SpecError: A layer is missing or held twice, kinds or counts of devices are not the cluster's, a copy does not
            fit into a host, samples do not sum to the batch, no layer has an operator that is recomputed, or pipelines
            are too unlike to share out what ``zero`` says.
    """
    seats = _seats(sketch, scenario)
    shared = sketch.zero or sketch.gather_overlap or any(copies.state_shares for _, copies in _each_copies(sketch))
    if shared or _cut_twice(sketch):
        _placed(sketch, scenario, seats)


def _cut_twice(sketch: Sketch) -> bool:
    """Whether a stage is cut over contexts or experts."""
    stages = (stage for pipeline in sketch.pipelines for stage in pipeline.stages)
    return any(stage.ep > 1 or any(copies.cp > 1 for copies in stage.copies) for stage in stages)


def _seats(sketch: Sketch, scenario: Scenario, together: Together = "pipelines") -> tuple[tuple[int, ...], ...]:
    """The ranks of every copy, pipeline by pipeline, once all is checked."""
    try:
        _check_devices(sketch, scenario)
        for number, pipeline in enumerate(sketch.pipelines):
            try:
                whole_layers(pipeline, scenario.model.layers)
                _check_recompute(pipeline, scenario)
            except SpecError as error:
                raise error.under(f"pipelines[{number}]") from None
        _check_batch(sketch, scenario.batch)
        return seated(_asks(sketch), scenario.cluster, together)
    except SpecError as error:
        raise error.under("plan") from None


def _check_batch(sketch: Sketch, batch: int) -> None:
    if sketch.samples != batch:
        problem = f"the scenario has a batch of {batch}"
        raise SpecError("samples", sketch.samples, problem, "choose micro-batches that make them equal")


def _check_devices(sketch: Sketch, scenario: Scenario) -> None:
    most = largest_in_host(scenario.cluster)
    for path, copies in _each_copies(sketch):
        if copies.device not in most:
            problem = f"the cluster {scenario.cluster.name} has none"
            raise SpecError(f"{path}.device", copies.device, problem, f"choose one of {', '.join(most)}")
        if copies.tp > most[copies.device]:
            problem = f"no host has more than {most[copies.device]} {copies.device}"
            raise SpecError(f"{path}.tp", copies.tp, problem, f"write {most[copies.device]} or less")
        if copies.tp > scenario.model.heads:
            problem = f"the model has {scenario.model.heads} heads"
            raise SpecError(f"{path}.tp", copies.tp, problem, f"write {scenario.model.heads} or less")
    has = Counter(rank_kinds(scenario.cluster))
    for device, needed in sketch.devices.items():
        if needed > has[device]:
            problem = f"the cluster {scenario.cluster.name} has {has[device]}, {needed - has[device]} too few"
            raise SpecError(f"devices[{device}]", needed, problem, "use fewer of them, or another cluster")


def _check_recompute(pipeline: Pipeline, scenario: Scenario) -> None:
    names = recomputable(scenario) if any(stage.recompute for stage in pipeline.stages) else ()
    for number, stage in enumerate(pipeline.stages):
        held = len(_transformer(stage, scenario.model.layers))
        for index, (operator, count) in enumerate(stage.recompute):
            path = f"stages[{number}].recompute"
            if operator not in names:
                fix = f"choose one of {', '.join(names)}"
                raise SpecError(path, operator, "no layer of this model has such an operator", fix)
            if not 0 < count <= held:
                problem, fix = f"the stage has {held} transformer layers", f"write 1 to {held}"
                raise SpecError(path, f"{operator} in {count}", problem, fix if held else "leave it out")
            _check_where(stage, index, _transformer(stage, scenario.model.layers), path)


def _check_where(stage: SketchStage, index: int, held: range, path: str) -> None:
    where = stage.where[index] if stage.where else ()
    if len(set(where)) < len(where) or not set(where) <= set(held):
        problem = f"the stage has the transformer layers {held.start} to {held.stop - 1}"
        raise SpecError(path, list(where), problem, "list each layer once, and of these")


def place(sketch: Sketch, scenario: Scenario, together: Together = "pipelines") -> DeploymentPlan:
    """The deployment that it is on this cluster, checked, with embedding and head; ``xsim.plan.seats`` has the ranks.

    Args:
        together: Who shares hosts as far as there is room: the stages of a pipeline, which then hand over near, or the
            ``copies`` of a stage, of all pipelines, which then sum gradients near.

    Raises:
        SpecError: As ``check`` says; ``NoSeatError`` if the hosts have no room for groups of these sizes together.
    """
    return _placed(sketch, scenario, _seats(sketch, scenario, together))


def _placed(sketch: Sketch, scenario: Scenario, seats: Iterable[tuple[int, ...]]) -> DeploymentPlan:
    ranks = iter(seats)
    replicas = tuple(
        _replica(pipeline, scenario.model, ranks) for pipeline in sketch.pipelines for _ in range(pipeline.count)
    )
    found = DeploymentPlan(
        replicas=replicas,
        **{name: getattr(sketch, name) for name in _SAME},
    )
    return check_deployment(found, scenario)


def _asks(sketch: Sketch) -> list[Ask]:
    """A group per context rank of each copy, pipeline by pipeline, equal ones too."""
    asks: list[Ask] = []
    replica = 0
    for p, pipeline in enumerate(sketch.pipelines):
        for turn in range(pipeline.count):
            for s, stage in enumerate(pipeline.stages):
                for c, copies in enumerate(stage.copies):
                    path = f"pipelines[{p}].stages[{s}].copies[{c}]"
                    if copies.ranks and len(copies.ranks) != copies.count * pipeline.count:
                        problem = f"there are {copies.count * pipeline.count} copies"
                        raise SpecError(f"{path}.ranks", list(copies.ranks), problem, "list the ranks of each")
                    own = copies.of(turn) or ((),) * copies.count
                    parts = (part for ranks in own for part in _contexts(copies, ranks, path))
                    first = stage.layers.start
                    asks.extend(Ask(path, copies.device, copies.tp, replica, ranks, first) for ranks in parts)
            replica += 1
    return asks


def _contexts(copies: Copies, ranks: tuple[int, ...], path: str) -> Iterator[tuple[int, ...]]:
    """The ranks that one copy insists on, if any, by context rank."""
    if ranks and len(ranks) != copies.size:
        fix = "list as many as tp says" if copies.cp == 1 else "list as many as tp times cp says"
        raise SpecError(f"{path}.ranks", list(ranks), f"a copy has {copies.size} distinct ranks", fix)
    for start in range(0, copies.size, copies.tp):
        yield ranks[start : start + copies.tp]


def _each_copies(sketch: Sketch) -> Iterator[tuple[str, Copies]]:
    for p, pipeline in enumerate(sketch.pipelines):
        for s, stage in enumerate(pipeline.stages):
            for c, copies in enumerate(stage.copies):
                yield f"pipelines[{p}].stages[{s}].copies[{c}]", copies


def _replica(pipeline: Pipeline, model: ModelSpec, ranks: Iterator[tuple[int, ...]]) -> Replica:
    stages = []
    for stage, held in zip(pipeline.stages, whole_layers(pipeline, model.layers), strict=True):
        each = zip(stage.copies, stage.samples(pipeline.micro_batch), strict=True)
        groups = tuple(
            DeviceGroup(
                ranks=tuple(rank for own in islice(ranks, copies.cp) for rank in own),
                samples=samples,
                cp=copies.cp,
                state_shares=copies.state_shares,
            )
            for copies, samples in each
            for _ in range(copies.count)
        )
        first = _transformer(stage, model.layers).start
        again = tuple(
            Recompute(operator=name, layers=run)
            for index, (name, count) in enumerate(stage.recompute)
            for run in (_runs(stage.where[index]) if stage.where else (range(first, first + count),))
        )
        cut = stage.sequence_parallel or (model.experts > 0 and any(copies.tp > 1 for copies in stage.copies))
        stages.append(Stage(groups=groups, layers=(held,), sequence_parallel=cut, ep=stage.ep, recompute=again))
    return Replica(stages=tuple(stages), micro_batch=pipeline.micro_batch, micro_batches=pipeline.micro_batches)


def _transformer(stage: SketchStage, layers: int) -> range:
    return range(max(stage.layers.start, 1), min(stage.layers.stop, layers + 1))


def _runs(layers: Sequence[int]) -> Iterator[range]:
    """Layers in ascending order as ranges."""
    start = 0
    for end in range(1, len(layers) + 1):
        if end == len(layers) or layers[end] != layers[end - 1] + 1:
            yield range(layers[start], layers[end - 1] + 1)
            start = end


def sketch_of(deployment: DeploymentPlan, scenario: Scenario) -> Sketch:
    """What ``deployment`` is in kinds and counts, with its ranks; equal neighbours are counted, not repeated.

    Raises:
        SpecError: A group has unlike devices or is cut unequally, a stage is virtual or has micro-batches of its own.
    """
    pipelines = tuple(pipeline_of(deployment, r, scenario) for r in range(len(deployment.replicas)))
    found = Sketch(pipelines, **{name: getattr(deployment, name) for name in _SAME})
    return merged(found, scenario.model.layers)


def check_uncut(deployment: DeploymentPlan, number: int) -> None:
    """Refuse a replica that is cut over contexts or experts: it has no closed form.

    Raises:
        SpecError: It names the degree.
    """
    problem = "stages cut over contexts or experts have no closed form"
    for s, stage in enumerate(deployment.replicas[number].stages):
        path = f"deployment.replicas[{number}].stages[{s}]"
        if stage.ep > 1:
            raise SpecError(f"{path}.ep", stage.ep, problem, "write 1")
        for g, group in enumerate(stage.groups):
            if group.cp > 1:
                raise SpecError(f"{path}.groups[{g}].cp", group.cp, problem, "leave it out")


def pipeline_of(deployment: DeploymentPlan, number: int, scenario: Scenario) -> Pipeline:
    """One replica as ``sketch_of`` has it, and what that refuses."""
    devices, replica = rank_kinds(scenario.cluster), deployment.replicas[number]
    try:
        for s, stage in enumerate(replica.stages):
            _check_plain(stage, f"stages[{s}]", replica.micro_batch)
        stages = tuple(
            _outlined(stage, f"stages[{s}]", devices, scenario.model.layers) for s, stage in enumerate(replica.stages)
        )
    except SpecError as error:
        raise error.under(f"deployment.replicas[{number}]") from None
    return Pipeline(stages, replica.micro_batch, replica.micro_batches)


def _outlined(stage: Stage, path: str, devices: Sequence[str], layers: int) -> SketchStage:
    copies = []
    for g, group in enumerate(stage.groups):
        kinds = sorted({devices[rank] for rank in group.ranks})
        if len(kinds) > 1:
            problem = f"it has {' and '.join(kinds)}, and a plan in kinds of devices has one kind in a copy"
            raise SpecError(f"{path}.groups[{g}].ranks", list(group.ranks), problem, "give it devices of one kind")
        copies.append(Copies(kinds[0], group.tp, 1, group.samples, (group.ranks,), group.state_shares, group.cp))
    again: dict[str, set[int]] = {}
    for entry in stage.recompute:
        again.setdefault(entry.operator, set()).update(entry.layers)
    counts = tuple((operator, len(where)) for operator, where in again.items())
    held, where = inner_layers(stage.layers[0], layers), tuple(tuple(sorted(own)) for own in again.values())
    if all(own == tuple(held[: len(own)]) for own in where):
        where = ()
    return SketchStage(held, tuple(copies), counts, stage.sequence_parallel, stage.ep, where)


def _check_plain(stage: Stage, path: str, micro_batch: int) -> None:
    if stage.micro_batch not in (None, micro_batch):
        problem = "micro-batches of a stage's own cannot be said in kinds and counts of devices"
        raise SpecError(f"{path}.micro_batch", stage.micro_batch, problem, "leave it out")
    if len(stage.layers) > 1:
        problem = "virtual stages cannot be said in kinds and counts of devices"
        raise SpecError(f"{path}.layers", list(stage.layers), problem, "give the stage one range")
    for g, group in enumerate(stage.groups):
        if group.tp_shares:
            problem = "it cannot be said in kinds and counts of devices"
            raise SpecError(f"{path}.groups[{g}].tp_shares", group.tp_shares, problem, "leave it out")
