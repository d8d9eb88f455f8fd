"""What one action of a device group does, step by step: operators become times, exchanges become transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from xsim.fabric.transfers import TransferGraph
from xsim.plan.beside import Degrees, Meets, PassExchange, exchanging, in_pieces, side_by_side, slowed, without
from xsim.plan.comm import Collective, CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel, Holding, Site
from xsim.plan.dispatch import host_waits_ps, kernels
from xsim.plan.judge import verify_collective
from xsim.plan.mixture import experts_of
from xsim.plan.operator import Exchange, Pass, Place, ShardedOperator
from xsim.plan.operators import layer_kind, layer_operators, like_layer
from xsim.plan.optimizer import optimizer_operators
from xsim.plan.pace import paced_ps
from xsim.plan.recompute import recomputed, runs
from xsim.plan.workload import Action, Body, Collect, Compute, Fetch, Ready, Step
from xsim.plan.zero import Kept
from xsim.spec.cluster import DeviceSpec
from xsim.spec.deployment import DeviceGroup, Stage
from xsim.spec.scenario import Scenario
from xsim.spec.shares import share_cuts

__all__ = ["Bodies"]

OVERLAPPED = ("attention", "mlp", "head")  # kinds whose products may run beside tensor-parallel collectives


@dataclass(frozen=True, slots=True)
class _GroupShape:
    """A device group as far as the time of a layer depends on it.

    Attributes:
        devices: Per rank, the lowest rank of the cluster that has an equal device.
    """

    devices: tuple[int, ...]
    degrees: Degrees
    shares: tuple[float, ...]
    samples: int
    sequence_parallel: bool


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer as far as its operators go.

    Attributes:
        number: Of the first layer like it.
        again: Operators that are recomputed.
    """

    number: int
    again: frozenset[str] = frozenset()


_Parts = tuple[ShardedOperator | Exchange, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """Makes the bodies of one deployment's groups. What is equal is computed once, and equal bodies are one.

    Attributes:
        beside: Let collectives of backward passes run beside products that need them not (``tp_async``).
        overlap: Let all run beside the products that they feed or follow.
        devices: The device of each rank.
    """

    scenario: Scenario
    compute: ComputeModel
    collective: CollectiveAlgorithm
    site: Site
    devices: tuple[DeviceSpec, ...]
    verify: bool = False
    beside: bool = False
    overlap: bool = False
    _layers: dict[tuple[_GroupShape, _Layer, str], tuple[Compute | PassExchange, ...]] = field(default_factory=dict)
    _holding: dict[tuple[_GroupShape, _Layer, str], bool] = field(default_factory=dict)
    _graphs: dict[tuple[Collective, ...], TransferGraph] = field(default_factory=dict)
    _bodies: dict[tuple[object, ...], Body] = field(default_factory=dict)
    _alone: dict[tuple[Collective, ...], int] = field(default_factory=dict)
    _first: list[int] = field(default_factory=list)
    _operators: dict[tuple[_GroupShape, int, int], _Parts] = field(default_factory=dict)

    def on(self, devices: Sequence[DeviceSpec]) -> Bodies:
        """The same on other devices; their collectives are these very ones."""
        return replace(self, devices=tuple(devices), _layers={}, _bodies={}, _first=[])

    def micro_batch(
        self,
        kind: str,
        stage: Stage,
        group: DeviceGroup,
        layers: range,
        ready: Mapping[int, tuple[Ready, ...]],
        needed: Mapping[tuple[str, int], tuple[Fetch, ...]],
    ) -> Body:
        """One micro-batch through ``layers``, or its gradients back.

        Args:
            kind: Of the action: ``F``, ``B``, ``I`` or ``W``.
            ready: By layer, the gradient syncs whose part of this group is complete when that layer is done.
            needed: By direction, ``F`` or ``B``, and layer: what fetches the weights of the layers that begin with it.
        """
        shape = self._shape(stage, group)
        ordered = layers if kind == "F" else layers[::-1]
        alike = self._alike(shape, stage, ordered)
        action = Action(kind, 0)
        waiting = tuple(ready.get(layer, ()) if action.completes else () for layer in ordered)
        fetching = tuple(needed.get((action.carries, layer), ()) for layer in ordered)
        key = (shape, group.ranks if len(group.ranks) > 1 else (), alike, kind, waiting, fetching)
        if key not in self._bodies:
            steps = {layer: self._steps(shape, group.ranks, layer, kind) for layer in dict.fromkeys(alike)}
            parts = zip(fetching, alike, self._host_waits(shape, group.ranks, alike, kind), waiting, strict=True)
            self._bodies[key] = Body(
                tuple(step for before, layer, late, after in parts for step in (*before, *steps[layer], *late, *after))
            )
        return self._bodies[key]

    def _shape(self, stage: Stage, group: DeviceGroup) -> _GroupShape:
        if not self._first:
            self._first.extend(_first_equal(self.devices))
        devices = tuple(self._first[rank] for rank in group.ranks)
        degrees = Degrees(group.tp, group.cp // stage.ep, stage.ep)
        samples = group.samples // stage.ep
        return _GroupShape(devices, degrees, group.tp_shares, samples, stage.sequence_parallel)

    def layer_ps(self, kind: str, stage: Stage, group: DeviceGroup, layer: int) -> int:
        """Picoseconds of one micro-batch in one layer if its collectives have the wires to themselves.

        Args:
            kind: Of the action, as in ``micro_batch``.
        """
        shape = self._shape(stage, group)
        alike = self._alike(shape, stage, (layer,))
        waits = (
            max(late.durations_ps) for found in self._host_waits(shape, group.ranks, alike, kind) for late in found
        )
        return sum(self._part_ps(part, group.ranks) for part in self._done(shape, group.ranks, alike[0], kind)) + sum(
            waits
        )

    def _host_waits(
        self, shape: _GroupShape, ranks: tuple[int, ...], layers: Sequence[_Layer], kind: str
    ) -> Iterator[tuple[Compute, ...]]:
        """Of each layer, what its devices wait for their hosts at its end; nothing if launches take no time."""
        launch_ps = self.scenario.launch_ps
        if not launch_ps:
            yield from (() for _ in layers)
            return
        launches = {layer: self._launches(shape, ranks, layer, kind) for layer in dict.fromkeys(layers)}
        device_ps = {
            layer: sum(self._part_ps(part, ranks) for part in self._done(shape, ranks, layer, kind))
            for layer in launches
        }
        counts, works_ps = ([by[layer] for layer in layers] for by in (launches, device_ps))
        for waits_ps in host_waits_ps(counts, works_ps, launch_ps):
            yield (Compute("launch", (waits_ps,) * len(ranks)),) if waits_ps else ()

    def _launches(self, shape: _GroupShape, ranks: tuple[int, ...], layer: _Layer, kind: str) -> int:
        """How many kernels and collectives an action launches in a layer."""
        parts = self._parts(shape, layer.number, 0)
        done = ((parts[position], what) for position, what in _script(parts, layer.again, kind))
        launched = sum(kernels(part, _PASSES[what]) for part, what in done if isinstance(part, ShardedOperator))
        return launched + sum(isinstance(part, PassExchange) for part in self._done(shape, ranks, layer, kind))

    def _part_ps(self, part: Compute | PassExchange, ranks: tuple[int, ...]) -> int:
        """What it takes the group on its own."""
        if isinstance(part, Compute):
            return max(part.durations_ps)
        beside = self._beside(part, ranks)
        return max(self._alone_ps(part, ranks), max(beside.durations_ps) if beside else 0)

    def _alone_ps(self, part: PassExchange, ranks: tuple[int, ...]) -> int:
        """What its collective takes with the wires to itself."""
        steps = part.collectives(ranks)
        if steps not in self._alone:
            self._alone[steps] = self.site.price(CommPlan(steps), self.scenario.dtype_bytes)
        return self._alone[steps]

    def _beside(self, part: PassExchange, ranks: tuple[int, ...]) -> Compute | None:
        """What runs beside its collective, on the processors that this leaves."""
        share = self.scenario.contention
        return slowed(part.beside, self._alone_ps(part, ranks), share) if part.beside and share else part.beside

    def _alike(self, shape: _GroupShape, stage: Stage, layers: Iterable[int]) -> tuple[_Layer, ...]:
        """Of each layer, what it has in common with others."""
        numbers = [(layer, like_layer(self.scenario.model, layer)) for layer in layers]
        if not stage.recompute:
            return tuple(_Layer(like) for _, like in numbers)
        parts = {like: self._parts(shape, like, 0) for like in {like for _, like in numbers}}
        return tuple(_Layer(like, recomputed(stage.recompute, layer, parts[like])) for layer, like in numbers)

    def update(self, stage: Stage, group: DeviceGroup, kept: Mapping[int, Kept]) -> Body:
        """The optimizer on the parameters of all layers, of which each rank has its part.

        Args:
            kept: With optimizer sharding, what each rank keeps and updates instead.
        """
        scenario, devices = self.scenario, self.devices
        model, layers = scenario.model, [layer for part in stage.layers for layer in part]
        having = (len(experts_of(model.experts, stage.ep, position)) for position in range(stage.ep))
        held = [model.held_parameters(layers, experts) for experts in having]
        cuts = [share_cuts(own, group.tp, group.tp_shares) for own in held for _ in range(group.cp // stage.ep)]
        parts = [stop - start for own in cuts for start, stop in pairwise(own)]
        own = [kept[rank].parameters for rank in group.ranks] if kept else parts
        place = Place(
            layers=tuple(layer_kind(scenario.model, layer) for span in stage.layers for layer in span),
            samples=0,
            tp=group.tp,
            seq_len=scenario.model.seq_len,
            share=1.0,
            whole=(),
        )
        updates = [
            tuple(self._updating(part, replace(place, share=share, whole=self._steps_of(whole))))
            for part, whole, share in zip(own, parts, _shares(group), strict=True)
        ]
        launched = [scenario.launch_ps * sum(kernels(each, ("update",)) for each in found) for found in updates]
        durations = tuple(
            max(sum(paced_ps(self.compute, devices[rank], each, "update") for each in operators), launched_ps)
            for rank, operators, launched_ps in zip(group.ranks, updates, launched, strict=True)
        )
        return self._bodies.setdefault((durations,), Body((Compute("optimizer", durations),)))

    def _steps_of(self, parameters: int) -> tuple[ShardedOperator, ...]:
        return tuple(optimizer_operators(parameters, self.scenario))

    def _updating(self, parameters: int, place: Place) -> Iterator[ShardedOperator]:
        """The steps of an update of so many of the parameters of the layers in ``place``."""
        return (replace(each, place=place) for each in self._steps_of(parameters))

    def _steps(self, shape: _GroupShape, ranks: tuple[int, ...], layer: _Layer, kind: str) -> tuple[Step, ...]:
        found = self._done(shape, ranks, layer, kind)
        return tuple(part if isinstance(part, Compute) else self._collect(part, ranks) for part in found)

    def _done(
        self, shape: _GroupShape, ranks: tuple[int, ...], layer: _Layer, kind: str
    ) -> Sequence[Compute | PassExchange]:
        """What an action does in a layer; computations without the collectives that their times hold."""
        key = (shape, layer, kind)
        if key not in self._layers:
            self._layers[key] = tuple(side_by_side(self._timed(shape, layer, kind)))
            self._holding[key] = self._holds(shape, layer)
        found: Sequence[Compute | PassExchange] = self._layers[key]
        if self._holding[key]:
            found = without(found, sum(self._alone_ps(part, ranks) for part in found if isinstance(part, PassExchange)))
        return tuple(_merged(in_pieces(found, lambda part: self._alone_ps(part, ranks))))

    def _holds(self, shape: _GroupShape, layer: _Layer) -> bool:
        """Whether the compute model's times of a layer hold its collectives."""
        if not isinstance(self.compute, Holding):
            return False
        device = self.devices[shape.devices[0]]
        operators = (part for part in self._parts(shape, layer.number, 0) if isinstance(part, ShardedOperator))
        place = next((operator.place for operator in operators), None)
        return place is not None and self.compute.holds(device, place)

    def _timed(self, shape: _GroupShape, layer: _Layer, kind: str) -> Iterator[tuple[Compute | PassExchange, Meets]]:
        """The parts in the order of the action: operators with their time per rank, and the exchanges that it needs.

        Each with what it may run beside.
        """
        shards = [self._parts(shape, layer.number, shard) for shard in range(shape.degrees.tp * shape.degrees.ep)]
        for position, done in _script(shards[0], layer.again, kind):
            across = [parts[position] for parts in shards]
            part, found = across[0], exchanging(across, shape.degrees, done)
            if isinstance(part, Exchange):
                if found:
                    yield found, ""
                continue
            product = part.bound == "matmul" and part.kind in OVERLAPPED and part.weight_gradient is not None
            if product and done == "B" and (self.beside or self.overlap):
                yield from self._halves(shape, shards, position)
                continue
            work = self._work(shape, across, done)
            if found:
                yield replace(found, beside=work if any(work.durations_ps) else None), ""
            elif any(work.durations_ps):
                yield work, "both" if product and self.overlap else ""

    def _halves(
        self, shape: _GroupShape, shards: Sequence[_Parts], position: int
    ) -> Iterator[tuple[Compute | PassExchange, Meets]]:
        """Both products of a backward pass, and beside the first what gathers the input for the second again."""
        before = [parts[position - 1] for parts in shards] if position else []
        entered = next((part for part in before if isinstance(part, Exchange) and part.over == "tensor"), None)
        sums = entered is not None and entered.backward not in (None, "all_gather")
        across = [parts[position] for parts in shards]
        first, second = (self._work(shape, across, half) for half in ("I", "W"))
        again = exchanging(before, shape.degrees, "F") if sums else None
        if again:
            yield replace(again, beside=first), ""
        else:
            yield first, "gathering" if self.overlap else ""
        yield second, "sum" if sums else ""

    def _work(self, shape: _GroupShape, across: Sequence[ShardedOperator | Exchange], done: str) -> Compute:
        """What an operator, which is given of each shard, takes each rank."""
        operators = [part for part in across if isinstance(part, ShardedOperator)]
        return Compute(
            operators[0].kind,
            tuple(
                self._time_ps(self.devices[device], operators[shape.degrees.shard(rank)], done)
                for rank, device in enumerate(shape.devices)
            ),
        )

    def _parts(self, shape: _GroupShape, layer: int, shard: int) -> _Parts:
        key = (replace(shape, devices=()), layer, shard)  # they do not depend on the devices
        if key not in self._operators:
            self._operators[key] = layer_operators(
                self.scenario,
                layer,
                samples=shape.samples,
                tp=shape.degrees.tp,
                index=shard % shape.degrees.tp,
                sequence_parallel=shape.sequence_parallel,
                shares=shape.shares,
                cp=shape.degrees.cp,
                ep=shape.degrees.ep,
                position=shard // shape.degrees.tp,
            )
        return self._operators[key]

    def _time_ps(self, device: DeviceSpec, operator: ShardedOperator, kind: str) -> int:
        return sum(paced_ps(self.compute, device, operator, pass_) for pass_ in _PASSES[kind])

    def _collect(self, exchanged: PassExchange, ranks: tuple[int, ...]) -> Collect:
        steps = exchanged.collectives(ranks)
        if steps not in self._graphs:
            self._graphs[steps] = self._lowered(steps, ranks)
            for step in steps if self.verify else ():
                verify_collective(self._lowered((step,), step.ranks), step, self.scenario.dtype_bytes)
        return Collect(exchanged.exchange.kind, self._graphs[steps], self._beside(exchanged, ranks))

    def _lowered(self, steps: tuple[Collective, ...], ranks: tuple[int, ...]) -> TransferGraph:
        plan, size = CommPlan(steps), self.scenario.dtype_bytes
        return lower_plan(plan, [ranks], lambda step: self.collective.expand(step, self.site), size)


def _shares(group: DeviceGroup) -> Sequence[float]:
    """Of each rank, as ``Place`` has it."""
    if not group.tp_shares:
        return (1.0,) * len(group.ranks)
    return tuple(share * group.tp / sum(group.tp_shares) for share in group.tp_shares) * group.cp


_PASSES: Mapping[str, tuple[Pass, ...]] = {
    "F": ("forward",),
    "B": ("input_gradient", "weight_gradient"),
    "I": ("input_gradient",),
    "W": ("weight_gradient",),
}


def _script(parts: Sequence[ShardedOperator | Exchange], again: frozenset[str], kind: str) -> Iterator[tuple[int, str]]:
    """Positions in ``parts`` as an action comes to them, and what it does there: ``kind``, or ``F`` once more."""
    positions = range(len(parts))
    before = {run.before: run.span for run in runs(parts, again)} if kind in ("B", "I") else {}
    for position in positions if kind == "F" else reversed(positions):
        yield from ((earlier, "F") for earlier in before.get(position, ()))
        yield position, kind


def _merged(parts: Iterable[Compute | PassExchange]) -> Iterator[Compute | PassExchange]:
    """Neighbouring computations of one kind as one: no rank waits for another between them."""
    held: Compute | None = None
    for part in parts:
        if isinstance(part, Compute) and held is not None and held.kind == part.kind:
            durations = zip(held.durations_ps, part.durations_ps, strict=True)
            held = Compute(held.kind, tuple(a + b for a, b in durations))
            continue
        if held is not None:
            yield held
        held = part if isinstance(part, Compute) else None
        if held is None:
            yield part
    if held is not None:
        yield held


def _first_equal(devices: Sequence[DeviceSpec]) -> tuple[int, ...]:
    """Of each rank, the lowest rank that has an equal device."""
    first: dict[object, int] = {}
    return tuple(first.setdefault(device, rank) for rank, device in enumerate(devices))
