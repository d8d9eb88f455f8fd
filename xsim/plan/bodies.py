"""What one action of a device group does, step by step: operators become times, exchanges become transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from xsim.fabric.transfers import TransferGraph
from xsim.plan.beside import PassExchange, in_pieces, slowed, without
from xsim.plan.comm import Collective, CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, Site
from xsim.plan.dispatch import host_waits_ps, kernels
from xsim.plan.judge import verify_collective
from xsim.plan.mixture import experts_of
from xsim.plan.operator import Place, ShardedOperator
from xsim.plan.operators import layer_kind
from xsim.plan.optimizer import optimizer_operators
from xsim.plan.pace import paced_ps
from xsim.plan.passes import GroupShape, Layer, Passes
from xsim.plan.workload import Action, Body, Collect, Compute, Fetch, Ready, Step
from xsim.plan.zero import Kept
from xsim.spec.cluster import DeviceSpec
from xsim.spec.deployment import DeviceGroup, Stage
from xsim.spec.shares import share_cuts

__all__ = ["Bodies"]


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """Makes the bodies of one deployment's groups. What is equal is computed once, and equal bodies are one.

    Attributes:
        verify: Judge every collective.
    """

    passes: Passes
    collective: CollectiveAlgorithm
    site: Site
    verify: bool = False
    _graphs: dict[tuple[Collective, ...], TransferGraph] = field(default_factory=dict)
    _bodies: dict[tuple[object, ...], Body] = field(default_factory=dict)
    _alone: dict[tuple[Collective, ...], int] = field(default_factory=dict)

    def on(self, devices: Sequence[DeviceSpec]) -> Bodies:
        """The same on other devices; their collectives are these very ones."""
        return replace(self, passes=self.passes.on(devices), _bodies={})

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
        shape = self.passes.shape(stage, group)
        ordered = layers if kind == "F" else layers[::-1]
        alike = self.passes.alike(shape, stage, ordered)
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

    def layer_ps(self, kind: str, stage: Stage, group: DeviceGroup, layer: int) -> int:
        """Picoseconds of one micro-batch in one layer if its collectives have the wires to themselves.

        Args:
            kind: Of the action, as in ``micro_batch``.
        """
        shape = self.passes.shape(stage, group)
        alike = self.passes.alike(shape, stage, (layer,))
        waits = (
            max(late.durations_ps) for found in self._host_waits(shape, group.ranks, alike, kind) for late in found
        )
        return sum(self._part_ps(part, group.ranks) for part in self._done(shape, group.ranks, alike[0], kind)) + sum(
            waits
        )

    def _host_waits(
        self, shape: GroupShape, ranks: tuple[int, ...], layers: Sequence[Layer], kind: str
    ) -> Iterator[tuple[Compute, ...]]:
        """Of each layer, what its devices wait for their hosts at its end; nothing if launches take no time."""
        launch_ps = self.passes.scenario.launch_ps
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
            self._alone[steps] = self.site.price(CommPlan(steps), self.passes.scenario.dtype_bytes)
        return self._alone[steps]

    def _beside(self, part: PassExchange, ranks: tuple[int, ...]) -> Compute | None:
        """What runs beside its collective, on the processors that this leaves."""
        share = self.passes.scenario.contention
        return slowed(part.beside, self._alone_ps(part, ranks), share) if part.beside and share else part.beside

    def update(self, stage: Stage, group: DeviceGroup, kept: Mapping[int, Kept]) -> Body:
        """The optimizer on the parameters of all layers, of which each rank has its part.

        Args:
            kept: With optimizer sharding, what each rank keeps and updates instead.
        """
        model, layers = self.passes.scenario.model, [layer for part in stage.layers for layer in part]
        having = (len(experts_of(model.experts, stage.ep, position)) for position in range(stage.ep))
        held = [model.held_parameters(layers, experts) for experts in having]
        cuts = [share_cuts(own, group.tp, group.tp_shares) for own in held for _ in range(group.cp // stage.ep)]
        parts = tuple(stop - start for own in cuts for start, stop in pairwise(own))
        own = tuple(kept[rank].parameters for rank in group.ranks) if kept else parts
        kinds = tuple(layer_kind(model, layer) for layer in layers)
        key = (self.passes.shape(stage, group), kinds, own, parts)
        if key not in self._bodies:
            self._bodies[key] = self._update(group, kinds, own, parts)
        return self._bodies[key]

    def _update(self, group: DeviceGroup, kinds: tuple[str, ...], own: Sequence[int], parts: Sequence[int]) -> Body:
        """The optimizer of ranks on ``own`` of their ``parts`` of the parameters of layers of these kinds."""
        scenario, devices = self.passes.scenario, self.passes.devices
        place = Place(layers=kinds, samples=0, tp=group.tp, seq_len=scenario.model.seq_len, share=1.0, whole=())
        updates = [
            tuple(self._updating(part, replace(place, share=share, whole=self._steps_of(whole))))
            for part, whole, share in zip(own, parts, _shares(group), strict=True)
        ]
        launched = [scenario.launch_ps * sum(kernels(each, ("update",)) for each in found) for found in updates]
        durations = tuple(
            max(sum(paced_ps(self.passes.compute, devices[rank], each, "update") for each in operators), launched_ps)
            for rank, operators, launched_ps in zip(group.ranks, updates, launched, strict=True)
        )
        return self._bodies.setdefault((durations,), Body((Compute("optimizer", durations),)))

    def _steps_of(self, parameters: int) -> tuple[ShardedOperator, ...]:
        return tuple(optimizer_operators(parameters, self.passes.scenario))

    def _updating(self, parameters: int, place: Place) -> Iterator[ShardedOperator]:
        """The steps of an update of so many of the parameters of the layers in ``place``."""
        return (replace(each, place=place) for each in self._steps_of(parameters))

    def _done(
        self, shape: GroupShape, ranks: tuple[int, ...], layer: Layer, kind: str
    ) -> tuple[Compute | PassExchange, ...]:
        """What an action does in a layer; computations without the collectives that their times hold."""
        found: Sequence[Compute | PassExchange] = self.passes.done(shape, layer, kind)
        if self.passes.holds(shape, layer):
            found = without(found, sum(self._alone_ps(part, ranks) for part in found if isinstance(part, PassExchange)))
        return tuple(_merged(in_pieces(found, lambda part: self._alone_ps(part, ranks))))

    def _launches(self, shape: GroupShape, ranks: tuple[int, ...], layer: Layer, kind: str) -> int:
        """How many kernels and collectives an action launches in a layer."""
        found = self._done(shape, ranks, layer, kind)
        return self.passes.launched(shape, layer, kind) + sum(isinstance(part, PassExchange) for part in found)

    def _steps(self, shape: GroupShape, ranks: tuple[int, ...], layer: Layer, kind: str) -> tuple[Step, ...]:
        found = self._done(shape, ranks, layer, kind)
        return tuple(part if isinstance(part, Compute) else self._collect(part, ranks) for part in found)

    def _collect(self, exchanged: PassExchange, ranks: tuple[int, ...]) -> Collect:
        steps = exchanged.collectives(ranks)
        if steps not in self._graphs:
            self._graphs[steps] = self._lowered(steps, ranks)
            for step in steps if self.verify else ():
                verify_collective(self._lowered((step,), step.ranks), step, self.passes.scenario.dtype_bytes)
        return Collect(exchanged.exchange.kind, self._graphs[steps], self._beside(exchanged, ranks))

    def _lowered(self, steps: tuple[Collective, ...], ranks: tuple[int, ...]) -> TransferGraph:
        plan, size = CommPlan(steps), self.passes.scenario.dtype_bytes
        return lower_plan(plan, [ranks], lambda step: self.collective.expand(step, self.site), size)


def _shares(group: DeviceGroup) -> Sequence[float]:
    """Of each rank, as ``Place`` has it."""
    if not group.tp_shares:
        return (1.0,) * len(group.ranks)
    return tuple(share * group.tp / sum(group.tp_shares) for share in group.tp_shares) * group.cp


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
