"""From deployment to workload: one program per device group, and all traffic between them (paper section 4.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, product

from xsim.errors import SpecError
from xsim.plan.bodies import Bodies
from xsim.plan.bound import Bounds
from xsim.plan.boundary import Side, boundary_layouts
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel, Reshard, Schedule, Site
from xsim.plan.gradients import Bucket, backward_order, bucket_elements, gradient_buckets, gradient_layout
from xsim.plan.groups import Holder
from xsim.plan.layout import Layout
from xsim.plan.mixture import experts_of
from xsim.plan.passes import Passes
from xsim.plan.route import Order, routes, scheduled
from xsim.plan.shards import shard_layout
from xsim.plan.wires import Wires
from xsim.plan.workload import Action, Body, Compute, Fetch, Move, Program, Ready, Sync, Workload
from xsim.plan.zero import Kept, kept_states, state_shares
from xsim.spec.cluster import DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Stage, joined
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = ["Lowered", "lower"]

LONGEST_PS = 1 << 61  # networks count to twice that
Complete = dict[int, tuple[Ready, ...]]
Needed = dict[tuple[str, int], tuple[Fetch, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A deployment lowered, on devices that are all as they should be.

    Attributes:
        programs: Of all device groups, made of these bodies.
    """

    workload: Workload
    bodies: Bodies
    programs: Callable[[Bodies], tuple[Program, ...]]

    def on(self, devices: Sequence[DeviceSpec]) -> Workload:
        """The same on the devices of each rank that are given; all transfers are these very ones."""
        return replace(self.workload, programs=self.programs(self.bodies.on(devices)))


def lower(
    scenario: Scenario,
    plan: DeploymentPlan,
    *,
    schedule: Schedule,
    reshard: Reshard,
    collective: CollectiveAlgorithm,
    compute: ComputeModel,
    site: Site,
    gradient_site: Site | None = None,
    verify: bool = False,
) -> Lowered:
    """What every device group of ``plan``, which has its ends, does in one iteration.

    Args:
        gradient_site: ``site`` for gradients of weights, if their elements are of another size.
        verify: Let the judge prove every communication plan, its transfers, and every collective.

    Raises:
        SpecError: The schedule does not serve a pipeline of this shape, or an iteration takes months.
        PlanError: The judge has found one wrong.
    """
    places = tuple(_places(plan, schedule.order))
    if plan.rendezvous and any(len(place.spec.layers) > 1 for place in places):
        problem = "stages with several parts of the layers would wait for each other in a circle"
        raise SpecError("deployment.rendezvous", True, problem, "give each stage one part, or leave it out")
    wires, sums = (
        Wires(scenario, reshard, collective, at, verify, Bounds(at.fabric, at.element_bytes))
        for at in (site, gradient_site or site)
    )
    syncs, ready, needed = _syncs(plan, places, wires, sums)
    devices = rank_devices(scenario.cluster)
    bodies = Bodies(Passes(scenario, compute, devices, plan.tp_async, plan.tp_overlap), collective, site, verify)
    kept = kept_states(scenario, plan, schedule.order) if plan.zero else {}
    programs = partial(_programs, places, ready, needed, kept, once=_gathers_ahead(plan))
    workload = Workload(
        programs=programs(bodies),
        moves=tuple(_moves(plan, places, wires)),
        syncs=syncs,
        serial_sync=plan.serial_sync,
        blocking_sends=plan.blocking_sends,
        rendezvous=plan.rendezvous,
        prefetch=plan.gather_overlap and plan.zero >= 3,
    )
    _check_countable(workload.programs, scenario)
    return Lowered(workload, bodies, programs)


def _check_countable(programs: Sequence[Program], scenario: Scenario) -> None:
    """Refuse what computes longer than the clock counts.

    Raises:
        SpecError: It may.
    """
    known: dict[Body, int] = {}
    for program in programs:
        for body in program.each_body():
            if body not in known:
                known[body] = sum(max(step.durations_ps) for step in body.steps if isinstance(step, Compute))
        if len(program.actions) * max(known[body] for body in program.each_body()) > LONGEST_PS:
            problem = f"an iteration may take more than {LONGEST_PS / PS_PER_S / 86400:.0f} days, too long to count"
            raise SpecError("model", scenario.model.name, problem, "choose a smaller one, or faster devices")


@dataclass(frozen=True, slots=True)
class _Place:
    """A device group and where the deployment has it; its position among all is its program number.

    Groups that share out experts do everything together: they are one here.

    Attributes:
        group: The number of the first.
        parts: Each of them, with which samples of each micro-batch it takes.
        spec: Its stage, with all layers that the groups hold: the mirrored stage's too in a bidirectional schedule.
        actions: What it does, in order.
    """

    replica: int
    stage: int
    group: int
    spec: Stage
    devices: DeviceGroup
    parts: tuple[tuple[DeviceGroup, range], ...]
    actions: tuple[Action, ...]

    def held(self) -> Iterator[tuple[DeviceGroup, int]]:
        """Those that hold the dense weights, each a copy, and which part of the experts each has."""
        for position, (group, _) in enumerate(self.parts):
            for part in group.contexts():
                yield part, position


def _places(plan: DeploymentPlan, order: Order) -> Iterator[_Place]:
    for r, s, stage, actions in scheduled(plan, order):
        cuts = accumulate((group.samples for group in stage.groups), initial=0)
        parts = [(group, range(*samples)) for group, samples in zip(stage.groups, pairwise(cuts), strict=True)]
        for number, cell in enumerate(stage.cells()):
            first = number * stage.ep
            yield _Place(r, s, first, stage, joined(cell), tuple(parts[first : first + stage.ep]), actions)


def _programs(
    places: Sequence[_Place],
    ready: Sequence[Complete],
    needed: Sequence[Needed],
    kept: Mapping[int, Kept],
    bodies: Bodies,
    *,
    once: bool,
) -> tuple[Program, ...]:
    """``once``: each needs what is in ``needed`` for its first pass alone."""
    programs = []
    for place, own_ready, own_needed in zip(places, ready, needed, strict=True):
        stage, group = place.spec, place.devices
        by_action: dict[tuple[str, int], Body] = {("U", 0): bodies.update(stage, group, kept)}
        first: dict[Action, Body] = {}
        for chunk, layers in enumerate(stage.layers):
            of_all = {} if once else own_needed
            for kind in sorted({action.kind for action in place.actions if action.chunk == chunk}):
                by_action[kind, chunk] = bodies.micro_batch(kind, stage, group, layers, own_ready, of_all)
            if once and any(layer in layers for _, layer in own_needed):
                action = next(each for each in place.actions if (each.kind, each.chunk) == ("F", chunk))
                first[action] = bodies.micro_batch("F", stage, group, layers, own_ready, own_needed)
        programs.append(Program(place.replica, place.stage, place.group, group, place.actions, by_action, first))
    return tuple(programs)


def _syncs(
    plan: DeploymentPlan, places: Sequence[_Place], wires: Wires, sums: Wires
) -> tuple[tuple[Sync, ...], list[Complete], list[Needed]]:
    """The gradient syncs and, of each program, which are ready after the backward pass of which layer.

    With optimizer sharding (ZeRO) each is two: shards of the sums before the update, and of parameters after it. If
    gradients are sharded too, no rank may keep its own, and there is a first half for every micro-batch (section 5.2 of
    https://arxiv.org/abs/1910.02054; https://github.com/deepspeedai/DeepSpeed/issues/373). If weights are sharded as
    well, no rank may keep those of others: in place of the second half there is a fetch for every pass of a micro-batch
    through the layers, forward and backward (section 7.2.2), and each program has those that it needs before which one.
    Second halves that overlap are those of the iteration before: they come first, in order of the layers, and each
    program has those that it needs before its first pass through which one.

    Args:
        wires, sums: Of parameters, and of their gradients.
    """
    model = wires.scenario.model
    owned = [
        (program, part, Holder(part.ranks, layers, experts_of(model.experts, place.spec.ep, position)))
        for program, place in enumerate(places)
        for part, position in place.held()
        for layers in place.spec.layers
    ]
    owners = [program for program, _, _ in owned]
    wide, own = sums.site.element_bytes, wires.site.element_bytes
    buckets = gradient_buckets(model, [holder for _, _, holder in owned], bucket_elements(plan, wide))
    if plan.serial_sync:
        buckets = backward_order(buckets)
    times = sum(action.completes and action.chunk == 0 for action in places[0].actions) if plan.zero >= 2 else 1
    every = len(buckets) if plan.zero >= 2 else 0
    shares = state_shares(plan)
    forward = sorted(range(len(buckets)), key=lambda number: buckets[number].layers.start)
    ahead = _gathers_ahead(plan)
    turns = {number: turn for turn, number in enumerate(forward) if ahead}
    before: list[Sync] = []
    after: list[Sync] = []
    ready: list[defaultdict[int, tuple[Ready, ...]]] = [defaultdict(tuple) for _ in places]
    needed: list[defaultdict[tuple[str, int], tuple[Fetch, ...]]] = [defaultdict(tuple) for _ in places]
    for number, bucket in enumerate(buckets):
        layouts = [gradient_layout(owned[i][1], bucket) for i in bucket.members]
        parties: defaultdict[int, list[int]] = defaultdict(list)
        for i in bucket.members:
            parties[owners[i]] += owned[i][1].ranks
        programs, ranks = tuple(parties), tuple(parties.values())
        what = (programs, bucket.kind, bucket.layers)
        if plan.zero:
            shards = shard_layout(layouts, shares)
            before.append(Sync(*what, bucket.size * wide, *sums.reduce_scatter(layouts, shards, ranks), does="scatter"))
            back = (*what, bucket.size * own, *wires.gather(shards, layouts, ranks))
            if plan.zero >= 3:
                after += [Sync(*back, does="fetch") for _ in _passes(bucket)]
            else:
                after.append(Sync(*back, does="ahead" if ahead else "gather"))
        else:
            before.append(Sync(*what, bucket.size * wide, *sums.reduce(layouts, ranks)))
        for program, layer in dict.fromkeys(zip((owners[i] for i in bucket.members), bucket.after, strict=True)):
            ready[program][layer] += (Ready(len(turns) + number, every),)
            if ahead:  # what a backward pass ends with a forward pass begins with
                needed[program]["F", layer] += (Fetch(turns[number]),)
    if plan.zero >= 3:
        needing = [(bucket.members, way, layer) for bucket in buckets for way, layer in _passes(bucket)]
        for number, (members, way, layer) in enumerate(needing, start=len(before) * times):
            for program in dict.fromkeys(owners[i] for i in members):
                needed[program][way, layer] += (Fetch(number, len(needing)),)
    first = [after[number] for number in turns]
    last = [] if ahead else after * (times if plan.zero >= 3 else 1)
    return (*first, *before * times, *last), [dict(own) for own in ready], [dict(own) for own in needed]


def _gathers_ahead(plan: DeploymentPlan) -> bool:
    """Whether what an iteration has updated is gathered beside the first passes of the next."""
    return plan.gather_overlap and plan.zero < 3


def _passes(bucket: Bucket) -> list[tuple[str, int]]:
    """(direction, layer) of each pass of a micro-batch through the layers of ``bucket``, and with which it begins."""
    return [place for use in bucket.uses for place in (("F", use.start), ("B", use.stop - 1))]


def _moves(plan: DeploymentPlan, places: Sequence[_Place], wires: Wires) -> Iterator[Move]:
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
                    if source == target:
                        continue
                    for sent, wanted in _boundaries(places[source], places[target], wires.scenario.model):
                        yield Move(source, target, "F", chunk, next_chunk, *wires.move(sent, wanted))
                        yield Move(target, source, "B", next_chunk, chunk, *wires.move(wanted, sent))


def _boundaries(source: _Place, target: _Place, model: ModelSpec) -> Iterator[tuple[Layout, Layout]]:
    """How both hold the activations of the samples that they share, piece by piece."""
    for (one, own), (other, needed) in product(source.parts, target.parts):
        if shared := _overlap(own, needed):
            ends = Side(one, source.spec.sequence_parallel), Side(other, target.spec.sequence_parallel)
            yield from boundary_layouts(*ends, len(shared), model)


def _overlap(a: range, b: range) -> range:
    return range(max(a.start, b.start), min(a.stop, b.stop))
