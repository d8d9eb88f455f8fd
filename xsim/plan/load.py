"""What a device group has to hold, and what each of its ranks needs for it.

Weights, gradients and optimizer states as in ZeRO (https://arxiv.org/abs/1910.02054 section 3.1: 16 bytes a parameter
for Adam in 16 bits; section 5: sharding leaves each of N data-parallel ranks 4 + 12 / N of them, or 2 + 14 / N with the
gradients, or 16 / N with the weights too; of these one bucket at a time is whole); activations by what each operator
keeps for its backward pass, less what is dropped and computed again. Of unfused attention with dropout that is, per
layer, the ``s b h (34 + 5 a s / h)`` of Korthikanti et al. (https://arxiv.org/abs/2205.05198 table 2); fused attention
has 4 bytes per token and head in place of the score term, and without dropout there are no masks, ``2 s b h``; tensor
and sequence parallelism divide it as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from xsim.plan.activations import Activations, Part
from xsim.plan.mixture import experts_of
from xsim.plan.operators import layer_operators, like_layer
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.route import Order, scheduled
from xsim.plan.shard import Shard
from xsim.plan.workload import Action
from xsim.plan.zero import kept_states
from xsim.spec.deployment import DeploymentPlan, Recompute
from xsim.spec.scenario import Scenario
from xsim.spec.shares import share_cuts

__all__ = ["Held", "Load", "RankMemory", "activations", "each_layer", "loads", "parts_of", "rank_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The peak need of one rank by cause.

    Attributes:
        activation_bytes: Kept for the backward passes of all micro-batches in flight.
        workspace_bytes: What its widest operator reads and writes; with sequence parallelism products read what has
            been gathered whole.
        buffer_bytes: What it sends to and gets from neighbouring stages, a tensor each way; of sharded gradients the
            largest bucket, which is whole before it is cut; of sharded weights the most that is whole at once for the
            layers under way; of a ring of context ranks the keys and values that come beside those at hand, and as much
            for their gradients.
        reserve_bytes: Of the framework, and what lies unusable between tensors.
    """

    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    workspace_bytes: int
    buffer_bytes: int = 0
    reserve_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        found: list[int] = [getattr(self, field.name) for field in fields(self)]
        return sum(found)


@dataclass(frozen=True, slots=True)
class Load:
    """What a device group has to hold: all that its memory need depends on.

    Attributes:
        layers: Of each virtual stage, mirrored ones included.
        actions: Of its schedule; they say how many micro-batches are in flight.
        recompute: What is computed again instead of kept.
        zero: What data-parallel ranks share out.
        kept: With ``zero``, per rank the part of its parameters whose states it keeps.
        bucket: Parameters of its largest gradient bucket, over ``tp``.
        needed: Shared parameters of the stretch of layers that has most, over ``tp``; of two where the next is gathered
            meanwhile.
        cp: Context ranks, of which this is one.
        ep, position: How many share out the experts, and which of them this is.
        neighbours: How many sides another stage is on, 0 to 2.
    """

    layers: tuple[Sequence[int], ...]
    samples: int
    tp: int
    shares: tuple[float, ...]
    sequence_parallel: bool
    actions: tuple[Action, ...]
    recompute: tuple[Recompute, ...] = ()
    zero: int = 0
    kept: tuple[Fraction, ...] = ()
    bucket: int = 0
    needed: int = 0
    neighbours: int = 0
    cp: int = 1
    ep: int = 1
    position: int = 0

    def parameters(self, scenario: Scenario) -> int:
        """All that its tensor ranks hold together."""
        experts = len(experts_of(scenario.model.experts, self.ep, self.position))
        return scenario.model.held_parameters(each_layer(self), experts)


@dataclass(frozen=True, slots=True)
class Held:
    """The tensor ranks of a device group, or of one of its context ranks, and their load.

    Attributes:
        path: Where the deployment has it.
        key: Equal loads have equal ones.
    """

    path: str
    load: Load
    key: tuple[object, ...]
    ranks: tuple[int, ...]


def rank_memory(scenario: Scenario, load: Load, index: int) -> RankMemory:
    """The peak need of rank ``index`` of a group that holds ``load``."""
    own, gradient = scenario.dtype_bytes, scenario.gradient_dtype_bytes
    held = share_cuts(load.parameters(scenario), load.tp, load.shares)
    parameters = held[index + 1] - held[index]
    sharded = int(parameters * load.kept[index]) if load.zero else parameters
    bucket = -(-load.bucket // load.tp) if load.zero >= 2 else 0
    needed = -(-load.needed // load.tp) if load.zero >= 3 else 0
    kept = activations(scenario, load, index)
    need = RankMemory(
        weight_bytes=sharded * own if load.zero >= 3 else parameters * scenario.weight_bytes,
        gradient_bytes=(sharded if load.zero >= 2 else parameters) * gradient,
        optimizer_bytes=sharded * optimizer_state_bytes(scenario.optimizer, scenario.precision),
        activation_bytes=max((during for during, _ in kept.curve(load.actions)), default=0),
        workspace_bytes=kept.widest_bytes(),
        buffer_bytes=bucket * gradient
        + needed * own
        + _handed_bytes(scenario, load, index)
        + _coming_bytes(scenario, load, index),
    )
    if not (scenario.framework_bytes or scenario.fragmentation):
        return need
    part = Fraction(scenario.fragmentation)
    return replace(need, reserve_bytes=scenario.framework_bytes + int(need.total_bytes * part / (1 - part)))


def activations(scenario: Scenario, load: Load, index: int) -> Activations:
    """What rank ``index`` keeps for backward passes."""
    alike = {like_layer(scenario.model, layer) for layer in each_layer(load)}
    parts = {like: parts_of(scenario, load, like, index) for like in alike}
    return Activations(scenario.model, load.layers, load.recompute, parts)


def parts_of(scenario: Scenario, load: Load, layer: int, index: int) -> tuple[Part, ...]:
    """What rank ``index`` does in ``layer``."""
    return layer_operators(
        scenario,
        layer,
        samples=load.samples,
        tp=load.tp,
        index=index,
        sequence_parallel=load.sequence_parallel,
        shares=load.shares,
        cp=load.cp,
        ep=load.ep,
        position=load.position,
    )


def each_layer(load: Load) -> Iterator[int]:
    """All layers, those of the first virtual stage first."""
    return (layer for part in load.layers for layer in part)


def _handed_bytes(scenario: Scenario, load: Load, index: int) -> int:
    """On each side that has a neighbour, an activation one way and its gradient the other."""
    return 2 * load.neighbours * _shard(scenario, load, index).own * scenario.dtype_bytes


def _coming_bytes(scenario: Scenario, load: Load, index: int) -> int:
    """In a ring two blocks of keys and values, of which one comes, and backward two of their gradients."""
    if load.cp == 1 or scenario.context_parallel != "ring":
        return 0
    shard = _shard(scenario, load, index)
    return 4 * 2 * shard.tokens * shard.kv_heads * scenario.model.head_dim * scenario.dtype_bytes


def _shard(scenario: Scenario, load: Load, index: int) -> Shard:
    where = (scenario.model, load.samples, load.tp, index, scenario.precision, load.sequence_parallel, load.shares)
    return Shard(*where, scenario.gradient_dtype_bytes, load.cp)


def loads(scenario: Scenario, plan: DeploymentPlan, order: Order) -> Iterator[Held]:
    """Of every device group of ``plan``, which has its ends."""
    kept = kept_states(scenario, plan, order) if plan.zero else {}
    for r, s, stage, actions in scheduled(plan, order):
        replica = plan.replicas[r]
        stages = len(replica.stages)
        place = (s, stages, replica.micro_batches)
        sides = 0 if stages == 1 else 2 if len(stage.layers) > 1 else (s > 0) + (s + 1 < stages)
        for g, group in enumerate(stage.groups):
            held = (stage.layers, group.samples, group.tp, group.tp_shares, stage.sequence_parallel)
            experts = (stage.ep, g % stage.ep)
            alike = Load(*held, actions, stage.recompute, 0, (), 0, 0, sides, group.cp, *experts)
            for part in group.contexts():
                load = alike
                if plan.zero:
                    own = [kept[rank] for rank in part.ranks]
                    parts = tuple(Fraction(each.parameters, max(each.tp_parameters, 1)) for each in own)
                    bucket = max(each.bucket for each in own) * group.tp
                    needed = max(each.needed for each in own) * group.tp
                    load = replace(load, zero=plan.zero, kept=parts, bucket=bucket, needed=needed)
                key = (place, *held, group.cp, experts, stage.recompute, load.kept, load.bucket, load.needed)
                yield Held(f"replicas[{r}].stages[{s}].groups[{g}]", load, key, part.ranks)
