"""From deployment to workload: one program per device group, and all traffic between them (paper section 4.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.bodies import Bodies
from xsim.plan.comm import CommPlan, lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel, Reshard, Schedule, Site
from xsim.plan.gradients import gradient_buckets
from xsim.plan.groups import Holder
from xsim.plan.judge import verify_move, verify_reduce
from xsim.plan.layout import Layout
from xsim.plan.route import Order, routes, scheduled
from xsim.plan.workload import Action, Body, Move, Program, Sync, Workload
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Stage
from xsim.spec.scenario import Scenario
from xsim.spec.shares import share_cuts

__all__ = ["lower", "lower_comm"]

Ready = dict[int, tuple[int, ...]]


def lower(
    scenario: Scenario,
    plan: DeploymentPlan,
    *,
    schedule: Schedule,
    reshard: Reshard,
    collective: CollectiveAlgorithm,
    compute: ComputeModel,
    site: Site,
    verify: bool = False,
) -> Workload:
    """What every device group of ``plan``, which has its ends, does in one iteration.

    Args:
        verify: Let the judge prove every communication plan, its transfers, and every collective.

    Raises:
        SpecError: The schedule does not serve a pipeline of this shape.
        PlanError: The judge has found one wrong.
    """
    places = tuple(_places(plan, schedule.order))
    wires = _Wires(scenario, reshard, collective, site, verify)
    syncs, ready = _syncs(plan, places, wires)
    bodies = Bodies(scenario, compute, collective, site, verify)
    return Workload(_programs(places, bodies, ready), tuple(_moves(plan, places, wires)), syncs)


def lower_comm(
    plan: CommPlan,
    parties: Sequence[Sequence[int]],
    *,
    collective: CollectiveAlgorithm,
    site: Site,
) -> TransferGraph:
    """The transfers of ``plan``, its collectives expanded by ``collective``, in elements of ``site.element_bytes``."""
    return lower_plan(plan, parties, lambda step: collective.expand(step, site), site.element_bytes)


@dataclass(frozen=True, slots=True)
class _Place:
    """A device group and where the deployment has it; its position among all is its program number.

    Attributes:
        spec: Its stage, with all layers that the groups hold: the mirrored stage's too in a bidirectional schedule.
        samples: Which of each micro-batch it takes.
        actions: What it does, in order.
    """

    replica: int
    stage: int
    group: int
    spec: Stage
    devices: DeviceGroup
    samples: range
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class _Wires:
    """How tensors get from layout to layout: the transfers, and the strategy that was chosen if one chose."""

    scenario: Scenario
    reshard: Reshard
    collective: CollectiveAlgorithm
    site: Site
    verify: bool

    def move(self, source: Layout, target: Layout) -> tuple[TransferGraph, str]:
        plan = self.reshard.move(source, target, self.site)
        graph = self._lower(plan, [source.ranks + target.ranks])
        if self.verify:
            with _blamed(self.reshard, "move", (source, target)):
                verify_move(plan, source, target)
                verify_move(graph, source, target, self.scenario.dtype_bytes)
        return graph, plan.strategy

    def reduce(self, layouts: Sequence[Layout]) -> tuple[TransferGraph, str]:
        plan = self.reshard.reduce(layouts, self.site)
        graph = self._lower(plan, [layout.ranks for layout in layouts])
        if self.verify:
            with _blamed(self.reshard, "reduce", layouts):
                verify_reduce(plan, layouts)
                verify_reduce(graph, layouts, self.scenario.dtype_bytes)
        return graph, plan.strategy

    def _lower(self, plan: CommPlan, parties: Sequence[Sequence[int]]) -> TransferGraph:
        return lower_comm(plan, parties, collective=self.collective, site=self.site)


@contextmanager
def _blamed(strategy: Reshard, method: str, layouts: Sequence[Layout]) -> Iterator[None]:
    """A judge's complaint, with whose plan it is."""
    try:
        yield
    except PlanError as error:
        between = " and ".join(str(list(layout.ranks)) for layout in layouts)
        raise PlanError(f"{type(strategy).__name__}.{method} between ranks {between}: {error}") from error


def _places(plan: DeploymentPlan, order: Order) -> Iterator[_Place]:
    for r, s, stage, actions in scheduled(plan, order):
        cuts = accumulate((group.samples for group in stage.groups), initial=0)
        for g, (group, samples) in enumerate(zip(stage.groups, pairwise(cuts), strict=True)):
            yield _Place(r, s, g, stage, group, range(*samples), actions)


def _programs(places: Sequence[_Place], bodies: Bodies, ready: Sequence[Ready]) -> tuple[Program, ...]:
    programs = []
    for place, own_ready in zip(places, ready, strict=True):
        stage, group = place.spec, place.devices
        by_action: dict[tuple[str, int], Body] = {("U", 0): bodies.update(stage, group)}
        for chunk, layers in enumerate(stage.layers):
            for kind in sorted({action.kind for action in place.actions if action.chunk == chunk}):
                by_action[kind, chunk] = bodies.micro_batch(kind, stage, group, layers, own_ready)
        programs.append(Program(place.replica, place.stage, place.group, group, place.actions, by_action))
    return tuple(programs)


def _syncs(plan: DeploymentPlan, places: Sequence[_Place], wires: _Wires) -> tuple[tuple[Sync, ...], list[Ready]]:
    """The gradient syncs and, of each program, which are ready after the backward pass of which layer."""
    owners = [program for program, place in enumerate(places) for _ in place.spec.layers]
    holders = [Holder(place.devices.ranks, layers) for place in places for layers in place.spec.layers]
    own_bytes = wires.scenario.dtype_bytes
    most = None if plan.bucket_bytes is None else plan.bucket_bytes // own_bytes
    syncs: list[Sync] = []
    ready: list[defaultdict[int, tuple[int, ...]]] = [defaultdict(tuple) for _ in places]
    for number, bucket in enumerate(gradient_buckets(wires.scenario.model, holders, most)):
        programs = tuple(owners[i] for i in bucket.members)
        graph, strategy = wires.reduce([_cut(places[program].devices, bucket.size) for program in programs])
        syncs.append(Sync(programs, bucket.kind, bucket.layers, bucket.size * own_bytes, graph, strategy))
        for program, layer in zip(programs, bucket.after, strict=True):
            ready[program][layer] += (number,)
    return tuple(syncs), [dict(own) for own in ready]


def _cut(group: DeviceGroup, size: int) -> Layout:
    """How the group cuts ``size`` things among its ranks."""
    return Layout(group.ranks, share_cuts(size, group.tp, group.tp_shares))


def _moves(plan: DeploymentPlan, places: Sequence[_Place], wires: _Wires) -> Iterator[Move]:
    """Activations forward and their gradients back, between groups of neighbouring stages that share samples."""
    programs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for program, place in enumerate(places):
        programs[place.replica, place.stage].append(program)
    for r, replica in enumerate(plan.replicas):
        chunks = len(replica.stages[0].layers)
        directions = len(places[programs[r, 0][0]].spec.layers) // chunks
        ways = routes(len(replica.stages), chunks, directions)
        for (s, chunk), (t, next_chunk) in (hop for route in ways for hop in pairwise(route)):
            for source in programs[r, s]:
                for target in programs[r, t]:
                    shared = _overlap(places[source].samples, places[target].samples)
                    if not shared or source == target:
                        continue
                    sent = _activation(places[source], shared, wires.scenario)
                    wanted = _activation(places[target], shared, wires.scenario)
                    yield Move(source, target, "F", chunk, next_chunk, *wires.move(sent, wanted))
                    yield Move(target, source, "B", next_chunk, chunk, *wires.move(wanted, sent))


def _overlap(a: range, b: range) -> range:
    return range(max(a.start, b.start), min(a.stop, b.stop))


def _activation(place: _Place, shared: range, scenario: Scenario) -> Layout:
    """How a group holds the activations of ``shared`` samples: cut over the sequence, or each rank all of them."""
    model, ranks = scenario.model, place.devices.ranks
    row = len(shared) * model.hidden  # the sequence is the outermost axis
    if place.spec.sequence_parallel:
        return Layout(ranks, tuple(cut * row for cut in _cut(place.devices, model.seq_len).cuts))
    return Layout.even(ranks, model.seq_len * row, replicated=True)
