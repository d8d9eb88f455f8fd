"""What the ranks of a device group do in a layer: operators with their times, and the exchanges between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xsim.plan.beside import Degrees, Meets, PassExchange, exchanging, side_by_side
from xsim.plan.contracts import ComputeModel, Holding
from xsim.plan.dispatch import kernels
from xsim.plan.operator import Exchange, Pass, ShardedOperator
from xsim.plan.operators import layer_operators, like_layer
from xsim.plan.pace import paced_ps
from xsim.plan.recompute import recomputed, runs
from xsim.plan.workload import Compute
from xsim.spec.cluster import DeviceSpec
from xsim.spec.deployment import DeviceGroup, Stage
from xsim.spec.scenario import Scenario

__all__ = ["GroupShape", "Layer", "Passes"]

OVERLAPPED = ("attention", "mlp", "head")  # kinds whose products may run beside tensor-parallel collectives


@dataclass(frozen=True, slots=True)
class GroupShape:
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
class Layer:
    """A layer as far as its operators go.

    Attributes:
        number: Of the first layer like it.
        again: Operators that are recomputed.
    """

    number: int
    again: frozenset[str] = frozenset()


_Parts = tuple[ShardedOperator | Exchange, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The passes of the groups of one deployment through its layers; what is equal is computed once.

    Attributes:
        devices: The device of each rank.
        beside: Let collectives of backward passes run beside products that need them not (``tp_async``).
        overlap: Let all run beside the products that they feed or follow.
    """

    scenario: Scenario
    compute: ComputeModel
    devices: tuple[DeviceSpec, ...]
    beside: bool = False
    overlap: bool = False
    _layers: dict[tuple[GroupShape, Layer, str], tuple[Compute | PassExchange, ...]] = field(default_factory=dict)
    _first: list[int] = field(default_factory=list)
    _operators: dict[tuple[GroupShape, int, int], _Parts] = field(default_factory=dict)

    def on(self, devices: Sequence[DeviceSpec]) -> Passes:
        """The same on other devices."""
        return replace(self, devices=tuple(devices), _layers={}, _first=[])

    def shape(self, stage: Stage, group: DeviceGroup) -> GroupShape:
        """What the times of ``group``, which is in ``stage``, depend on."""
        if not self._first:
            self._first.extend(_first_equal(self.devices))
        devices = tuple(self._first[rank] for rank in group.ranks)
        degrees = Degrees(group.tp, group.cp // stage.ep, stage.ep)
        samples = group.samples // stage.ep
        return GroupShape(devices, degrees, group.tp_shares, samples, stage.sequence_parallel)

    def alike(self, shape: GroupShape, stage: Stage, layers: Iterable[int]) -> tuple[Layer, ...]:
        """Of each layer, what it has in common with others."""
        numbers = [(layer, like_layer(self.scenario.model, layer)) for layer in layers]
        if not stage.recompute:
            return tuple(Layer(like) for _, like in numbers)
        parts = {like: self._parts(shape, like, 0) for like in {like for _, like in numbers}}
        return tuple(Layer(like, recomputed(stage.recompute, layer, parts[like])) for layer, like in numbers)

    def done(self, shape: GroupShape, layer: Layer, kind: str) -> tuple[Compute | PassExchange, ...]:
        """What an action does in a layer, products beside the collectives that they may run beside.

        Args:
            kind: Of the action: ``F``, ``B``, ``I`` or ``W``.
        """
        key = (shape, layer, kind)
        if key not in self._layers:
            self._layers[key] = tuple(side_by_side(self._timed(shape, layer, kind)))
        return self._layers[key]

    def launched(self, shape: GroupShape, layer: Layer, kind: str) -> int:
        """How many kernels an action launches in a layer."""
        parts = self._parts(shape, layer.number, 0)
        done = ((parts[position], what) for position, what in _script(parts, layer.again, kind))
        return sum(kernels(part, _PASSES[what]) for part, what in done if isinstance(part, ShardedOperator))

    def holds(self, shape: GroupShape, layer: Layer) -> bool:
        """Whether the compute model's times of a layer hold its collectives."""
        if not isinstance(self.compute, Holding):
            return False
        device = self.devices[shape.devices[0]]
        operators = (part for part in self._parts(shape, layer.number, 0) if isinstance(part, ShardedOperator))
        place = next((operator.place for operator in operators), None)
        return place is not None and self.compute.holds(device, place)

    def _timed(self, shape: GroupShape, layer: Layer, kind: str) -> Iterator[tuple[Compute | PassExchange, Meets]]:
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
        self, shape: GroupShape, shards: Sequence[_Parts], position: int
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

    def _work(self, shape: GroupShape, across: Sequence[ShardedOperator | Exchange], done: str) -> Compute:
        """What an operator, which is given of each shard, takes each rank."""
        operators = [part for part in across if isinstance(part, ShardedOperator)]
        return Compute(
            operators[0].kind,
            tuple(
                self._time_ps(self.devices[device], operators[shape.degrees.shard(rank)], done)
                for rank, device in enumerate(shape.devices)
            ),
        )

    def _parts(self, shape: GroupShape, layer: int, shard: int) -> _Parts:
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


def _first_equal(devices: Sequence[DeviceSpec]) -> tuple[int, ...]:
    """Of each rank, the lowest rank that has an equal device."""
    first: dict[object, int] = {}
    return tuple(first.setdefault(device, rank) for rank, device in enumerate(devices))
