"""What one action of a device group does, step by step: operators become times, exchanges become transfers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel
from xsim.plan.judge import verify_collective
from xsim.plan.layout import even_cuts
from xsim.plan.operators import Exchange, ShardedOperator, layer_operators, like_layer, optimizer_operator
from xsim.plan.workload import Body, Collect, Compute, Ready
from xsim.spec.cluster import ClusterSpec, rank_devices
from xsim.spec.deployment import DeviceGroup, Stage
from xsim.spec.scenario import Scenario

__all__ = ["Bodies"]

Direction = Literal["forward", "backward"]
Step = Compute | Collect | Ready


@dataclass(frozen=True, slots=True)
class _Crew:
    """A device group as far as the time of a layer depends on it.

    Attributes:
        devices: Per tensor rank, the lowest rank of the cluster that has an equal device.
    """

    devices: tuple[int, ...]
    samples: int
    sequence_parallel: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """Makes the bodies of one deployment's groups. What is equal is computed once, and equal bodies are one."""

    scenario: Scenario
    compute: ComputeModel
    collective: CollectiveAlgorithm
    fabric: Fabric
    verify: bool = False
    _layers: dict[tuple[_Crew, int, Direction], tuple[Compute | Exchange, ...]] = field(default_factory=dict)
    _graphs: dict[tuple[tuple[int, ...], CollectiveKind, tuple[int, ...]], TransferGraph] = field(default_factory=dict)
    _bodies: dict[tuple[object, ...], Body] = field(default_factory=dict)

    def forward(self, stage: Stage, group: DeviceGroup, layers: range) -> Body:
        """One micro-batch through ``layers``."""
        return self._body(stage, group, layers, "forward", {})

    def backward(self, stage: Stage, group: DeviceGroup, layers: range, ready: Mapping[int, tuple[int, ...]]) -> Body:
        """Its gradients back through ``layers``.

        Args:
            ready: By layer, the gradient syncs whose part of this group is complete when that layer is done.
        """
        return self._body(stage, group, layers[::-1], "backward", ready)

    def update(self, stage: Stage, group: DeviceGroup) -> Body:
        """The optimizer on the parameters of all layers, of which each rank has an even part."""
        scenario, devices = self.scenario, rank_devices(self.scenario.cluster)
        cuts = even_cuts(scenario.model.held_parameters(i for part in stage.layers for i in part), group.tp)
        operators = (
            optimizer_operator(stop - start, scenario.optimizer, scenario.precision) for start, stop in pairwise(cuts)
        )
        durations = tuple(
            self.compute.time_ps(devices[rank], operator, "update")
            for rank, operator in zip(group.ranks, operators, strict=True)
        )
        return self._bodies.setdefault((durations,), Body((Compute("optimizer", durations),)))

    def _body(
        self,
        stage: Stage,
        group: DeviceGroup,
        layers: range,
        direction: Direction,
        ready: Mapping[int, tuple[int, ...]],
    ) -> Body:
        first_equal = _first_equal(self.scenario.cluster)
        crew = _Crew(tuple(first_equal[rank] for rank in group.ranks), group.samples, stage.sequence_parallel)
        kinds = tuple(like_layer(self.scenario.model, layer) for layer in layers)
        waiting = tuple(ready.get(layer, ()) for layer in layers)
        key = (crew, group.ranks if group.tp > 1 else (), kinds, direction, waiting)
        if key not in self._bodies:
            steps = {kind: self._steps(crew, group.ranks, kind, direction) for kind in sorted(set(kinds))}
            self._bodies[key] = Body(
                tuple(
                    step
                    for kind, syncs in zip(kinds, waiting, strict=True)
                    for step in (*steps[kind], *map(Ready, syncs))
                )
            )
        return self._bodies[key]

    def _steps(self, crew: _Crew, ranks: tuple[int, ...], layer: int, direction: Direction) -> tuple[Step, ...]:
        key = (crew, layer, direction)
        if key not in self._layers:
            self._layers[key] = tuple(_merged(self._timed(crew, layer, direction)))
        return tuple(
            part if isinstance(part, Compute) else self._collect(part, ranks, direction) for part in self._layers[key]
        )

    def _timed(self, crew: _Crew, layer: int, direction: Direction) -> Iterator[Compute | Exchange]:
        """The parts in the order of the pass: operators with their time per rank, and the exchanges that it needs."""
        scenario, devices = self.scenario, rank_devices(self.scenario.cluster)
        tp = len(crew.devices)
        per_rank = [
            layer_operators(
                scenario.model,
                layer,
                samples=crew.samples,
                tp=tp,
                index=index,
                precision=scenario.precision,
                sequence_parallel=crew.sequence_parallel,
            )
            for index in range(tp)
        ]
        for parts in list(zip(*per_rank, strict=True))[:: 1 if direction == "forward" else -1]:
            if isinstance(parts[0], Exchange):
                if getattr(parts[0], direction):
                    yield parts[0]
            else:
                operators = [part for part in parts if isinstance(part, ShardedOperator)]
                times = (
                    self.compute.time_ps(devices[d], o, direction) for d, o in zip(crew.devices, operators, strict=True)
                )
                yield Compute(parts[0].kind, tuple(times))

    def _collect(self, exchange: Exchange, ranks: tuple[int, ...], direction: Direction) -> Collect:
        kind: CollectiveKind = getattr(exchange, direction)
        key = (ranks, kind, exchange.cuts)
        if key not in self._graphs:
            cuts = None if kind == "all_reduce" else exchange.cuts
            collective = Collective(kind, ranks, range(exchange.cuts[-1]), cuts=cuts)
            self._graphs[key] = lower_plan(
                CommPlan((collective,)),
                [ranks],
                lambda step: self.collective.expand(step, self.fabric),
                self.scenario.dtype_bytes,
            )
            if self.verify:
                verify_collective(self._graphs[key], collective, self.scenario.dtype_bytes)
        return Collect(exchange.kind, self._graphs[key])


def _merged(parts: Iterator[Compute | Exchange]) -> Iterator[Compute | Exchange]:
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


@lru_cache(maxsize=16)
def _first_equal(cluster: ClusterSpec) -> tuple[int, ...]:
    """Of each rank, the lowest rank that has an equal device."""
    first: dict[object, int] = {}
    return tuple(first.setdefault(device, rank) for rank, device in enumerate(rank_devices(cluster)))
