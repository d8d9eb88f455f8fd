"""Times, memory and links of a scenario's model on its cluster, by the chosen members, found when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from xsim.errors import SpecError
from xsim.plan.bodies import Bodies
from xsim.plan.contracts import PlannerSite
from xsim.plan.kinds import Sketch
from xsim.plan.operator import ShardedOperator
from xsim.plan.passes import Passes
from xsim.plan.search.contracts import Again, Ints, Kind, Seat, Tables
from xsim.plan.search.footprint import Footprint
from xsim.plan.search.grids import powers_of_two
from xsim.plan.search.links import Links
from xsim.plan.search.sends import hand_overs_ps
from xsim.plan.search.sync import holdings, longest_ps, sums
from xsim.plan.workload import Action, Compute
from xsim.spec.cluster import DeviceSpec, rank_devices, rank_hosts, rank_kinds
from xsim.spec.deployment import DeviceGroup, Recompute, Stage
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = ["ModelTables", "Tables", "tables"]

LONGEST_PS = 10**16  # of a layer: sums of all layers and micro-batches are counted to 10**18
LARGEST_COPY = 8  # samples that a search lets a copy take at once, unless told otherwise

T = TypeVar("T")


def tables(
    scenario: Scenario,
    site: PlannerSite,
    *,
    sequence_parallel: bool = False,
    lost: Collection[int] = (),
    largest_copy: int = LARGEST_COPY,
    apart: bool = False,
) -> ModelTables:
    """Of ``scenario``, whose deployment is not looked at.

    Args:
        sequence_parallel: Whether stages with several tensor ranks cut activations over the sequence; where there are
            experts they have to.
        lost: Ranks that are not there.
        largest_copy: Most samples that a copy takes at once.
        apart: Whether gradients are summed as where the stages of a pipeline share hosts, which is how ``place`` seats
            plans; else as where equal stages of all pipelines share them.
    """
    names = rank_kinds(scenario.cluster)
    hosts = rank_hosts(scenario.cluster)
    ranks: dict[str, dict[int, list[int]]] = {}
    for rank, (name, host) in enumerate(zip(names, hosts, strict=True)):
        if rank not in lost:
            ranks.setdefault(name, {}).setdefault(host, []).append(rank)
    cut = sequence_parallel or scenario.model.experts > 0
    return ModelTables(scenario, site, ranks, cut, largest_copy, apart)


@dataclass(frozen=True, slots=True, eq=False)
class ModelTables:
    """As ``Tables`` says, from compute and memory models and the wires.

    Collectives and hand-overs take what they take alone on the fabric, by the chosen strategies; sums of gradients what
    ``xsim.plan.search.sync`` says at the rates of the ports.

    Attributes:
        ranks: By kind and host, which.
    """

    scenario: Scenario
    site: PlannerSite
    ranks: Mapping[str, Mapping[int, Sequence[int]]]
    sequence_parallel: bool = False
    largest_copy: int = LARGEST_COPY
    apart: bool = False
    _known: dict[Hashable, object] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        return self.scenario.model.layers

    @property
    def batch(self) -> int:
        return self.scenario.batch

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self._once("kinds", self._kinds)

    def tps(self, kind: str) -> tuple[int, ...]:
        most = min(max(len(own) for own in self.ranks[kind].values()), self.scenario.model.heads)
        return tuple(powers_of_two(most))

    def micro_batches(self, kind: str, tp: int) -> tuple[int, ...]:
        return tuple(s for s in powers_of_two(min(self.largest_copy, self.batch)) if self.batch % s == 0)

    def forward_ps(self, kind: str, tp: int, samples: int) -> Ints:
        return self._once(("F", kind, tp, samples), lambda: self._column(kind, tp, samples, ("F",), frozenset()))

    def backward_ps(self, kind: str, tp: int, samples: int, again: frozenset[str] = frozenset()) -> Ints:
        kinds = ("I", "W") if self._halves() else ("B",)
        return self._once(("B", kind, tp, samples, again), lambda: self._column(kind, tp, samples, kinds, again))

    def operator_ps(self, kind: str, tp: int, samples: int) -> Mapping[str, Mapping[str, tuple[int, int]]]:
        def found() -> Mapping[str, Mapping[str, tuple[int, int]]]:
            own = self._footprint(tp, samples)
            plain = self.backward_ps(kind, tp, samples)[1]
            names = [part.name for part in own.whole if isinstance(part, ShardedOperator)]
            sets = {name: frozenset((name,)) for name in names}
            return {
                "transformer": {
                    name: (int(self.backward_ps(kind, tp, samples, each)[1] - plain), own.saved(each))
                    for name, each in sets.items()
                    if own.saved(each) > 0
                }
            }

        return self._once(("operators", kind, tp, samples), found)

    def saved_bytes(self, kind: str, tp: int, samples: int, again: frozenset[str]) -> int:
        return self._footprint(tp, samples).saved(again)

    def memory_bytes(
        self, kind: str, tp: int, samples: int, layers: range, in_flight: int, recompute: Again = ()
    ) -> int:
        return self._footprint(tp, samples).need(layers, self.layers + 1, in_flight, recompute)

    def memory_column(self, kind: str, tp: int, samples: int, ends: tuple[bool, bool], in_flight: int) -> Ints:
        inner = np.arange(self.layers + 1, dtype=np.int64)
        return self._footprint(tp, samples).column(inner, ends, in_flight)

    def capacity_bytes(self, kind: str) -> int:
        return self._once(("capacity", kind), lambda: min(d.memory_bytes for d in self._devices(kind)))

    def in_flight(self, stage: int, stages: int, micro_batches: int) -> int:
        """As the chosen schedule has it.

        Raises:
            SpecError: It does not serve a pipeline of this shape.
        """

        def peak(count: int) -> int:
            now, most = 0, 0
            for action in self._order(stage, stages, count):
                now += action.kind == "F"
                most = max(most, now)
                now -= action.completes
            return most

        def found() -> int:
            few = 4 * stages + micro_batches % 2  # after so many, two more change what there is by as much as any two
            if micro_batches <= few + 2:
                return peak(micro_batches)
            first = peak(few)
            return first + (peak(few + 2) - first) * ((micro_batches - few) // 2)

        return self._once(("flight", stage, stages, micro_batches), found)

    def _order(self, stage: int, stages: int, micro_batches: int) -> tuple[Action, ...]:
        fix = "choose one_f_one_b, say"
        try:
            found = self.site.schedule.order(stage, stages, micro_batches, 1)
        except SpecError as error:
            raise SpecError("schedule", type(self.site.schedule).__name__, error.problem, fix) from None
        if any(action.chunk for action in found):
            problem = "a search knows pipelines that micro-batches pass once, in one direction"
            raise SpecError("schedule", type(self.site.schedule).__name__, problem, fix)
        return found

    def boundary_ps(self, source: Seat, target: Seat, *, near: bool = False) -> int:
        samples = max(source.samples, target.samples)
        key = ("boundary", source.kind, source.tp, target.kind, target.tp, samples, near)
        return self._once(key, lambda: self._links().boundary_ps(source, target, samples, near=near))

    def host(self, rank: int) -> int:
        return self._links().hosts[rank]

    def hand_overs_ps(self, stages: Sequence[tuple[Seat, ...]]) -> tuple[int, ...]:
        return hand_overs_ps(self, stages)

    def send_weights(self, stages: int) -> tuple[int, int]:
        return 1, 1

    def sync_ps(self, sketch: Sketch) -> int:
        return longest_ps(self.sums_ps(sketch))

    def sums_ps(self, sketch: Sketch) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        return sums(holdings(sketch, self.layers), self.scenario.model, self._links().sum_ps)

    def sync_floor_ps(self, kind: str, tp: int, ends: tuple[bool, bool]) -> Ints:
        model, head = self.scenario.model, self.layers + 1
        size = max(map(len, self.ranks[kind].values()))
        rate = max(self._links().port(kind, within, size, 1, 1)[0] for within in (False, True))
        own = model.held_parameters(layer for layer, held in zip((0, head), ends, strict=True) if held)
        parameters = own + np.arange(head) * model.layer_parameters(1)
        floor = parameters * (self.scenario.gradient_dtype_bytes / tp / rate * PS_PER_S)  # of two: each sends it once
        return np.maximum(floor.astype(np.int64) - head - 2, 0)  # each block is rounded

    def update_ps(self, kind: str, tp: int, layers: range, samples: int = 1) -> int:
        ends = (0 in layers, self.layers + 1 in layers)
        key = ("update", kind, tp, len(layers), ends)
        return self._once(key, lambda: self._update_ps(kind, tp, layers))

    def _update_ps(self, kind: str, tp: int, layers: range) -> int:
        group = DeviceGroup(ranks=self._links().group(kind, tp), samples=1)
        steps = self._bodies().update(Stage(groups=(group,), layers=(layers,)), group, {}).steps
        return sum(max(step.durations_ps) for step in steps if isinstance(step, Compute))

    def _once(self, key: Hashable, find: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = find()
        found: T = self._known[key]  # type: ignore[assignment]
        return found

    def _kinds(self) -> tuple[Kind, ...]:
        def kind(name: str, hosts: Mapping[int, Sequence[int]]) -> Kind:
            sizes = tuple(len(own) for own in hosts.values())
            first = next(iter(hosts.values()))[0]
            return Kind(name, rank_devices(self.scenario.cluster)[first], sum(sizes), max(sizes), sizes)

        return tuple(kind(name, hosts) for name, hosts in self.ranks.items())

    def _devices(self, kind: str) -> list[DeviceSpec]:
        devices = rank_devices(self.scenario.cluster)
        return [devices[rank] for own in self.ranks[kind].values() for rank in own]

    def _links(self) -> Links:
        def found() -> Links:
            hosts = rank_hosts(self.scenario.cluster)
            return Links(self.scenario, self.site, self.ranks, hosts, self.sequence_parallel, self.apart)

        return self._once("links", found)

    def _bodies(self) -> Bodies:
        site = self.site
        devices = rank_devices(self.scenario.cluster)
        return self._once("bodies", lambda: Bodies(Passes(self.scenario, site.compute, devices), site.algorithm, site))

    def _halves(self) -> bool:
        return self._once("halves", lambda: any(a.kind == "W" for a in self._order(0, 2, 4)))

    def _footprint(self, tp: int, samples: int) -> Footprint:
        own = {"sequence_parallel": self._cut(tp), "halves": self._halves()}
        return self._once(("footprint", tp, samples), lambda: Footprint.of(self.scenario, tp, samples, **own))

    def _cut(self, tp: int) -> bool:
        return self.sequence_parallel and tp > 1

    def _column(self, kind: str, tp: int, samples: int, passes: Sequence[str], again: frozenset[str]) -> Ints:
        last = self.layers + 1
        group = DeviceGroup(ranks=self._links().group(kind, tp), samples=samples)
        recompute = tuple(Recompute(operator=name, layers=range(1, 2)) for name in sorted(again))
        cut = self._cut(tp)
        stage = Stage(groups=(group,), layers=(range(last + 1),), sequence_parallel=cut, recompute=recompute)
        bodies = self._bodies()
        each = [sum(bodies.layer_ps(pass_, stage, group, layer) for pass_ in passes) for layer in (0, 1, last)]
        if max(each) > LONGEST_PS:
            problem = f"a pass through a layer takes a {kind} more than {LONGEST_PS / PS_PER_S / 3600:.0f} hours"
            raise SpecError(
                "model", self.scenario.model.name, problem, "choose a smaller one, or smaller micro-batches"
            )
        return np.array([each[0], *[each[1]] * self.layers, each[2]], dtype=np.int64)
