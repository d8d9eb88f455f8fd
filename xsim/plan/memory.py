"""What each rank must hold at its fullest, and whether it fits.

Weights, gradients and optimizer states as in ZeRO (https://arxiv.org/abs/1910.02054 section 3.1: 16 bytes a parameter
for Adam in 16 bits; section 5: sharding leaves each of N data-parallel ranks 4 + 12 / N of them, or 2 + 14 / N with the
gradients, or 16 / N with the weights too; of these one bucket at a time is whole); activations by what each operator
keeps for its backward pass, less what is dropped and computed again. Of unfused attention with dropout that is, per
layer, the ``s b h (34 + 5 a s / h)`` of Korthikanti et al. (https://arxiv.org/abs/2205.05198 table 2); fused attention
has 4 bytes per token and head in place of the score term, and without dropout there are no masks, ``2 s b h``; tensor
and sequence parallelism divide it as there. The framework's own memory and fragmentation are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xsim.plan.operator import Exchange, ShardedOperator, Tensor
from xsim.plan.operators import layer_operators, like_layer
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.recompute import FULL, kept_tensors, recomputed
from xsim.plan.route import Order, scheduled
from xsim.plan.workload import Action
from xsim.plan.zero import kept_states
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan, Recompute
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.spec.shares import share_cuts

__all__ = ["Load", "RankMemory", "Verdict", "deployment_memory", "rank_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The peak need of one rank by cause.

    Attributes:
        activation_bytes: Kept for the backward passes of all micro-batches in flight.
        workspace_bytes: What its widest operator reads and writes; of sharded gradients the largest bucket, which is
            whole before it is cut; and of sharded weights the most that is whole at once for the layers under way.
    """

    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    workspace_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        fixed = self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
        return fixed + self.activation_bytes + self.workspace_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a deployment fits the memory of its devices.

    Attributes:
        needs: (rank, its need), in rank order.
        rank: The one that lacks most; if all fit, the one with the fewest bytes to spare.
        shortfall_bytes: What it lacks; 0 if all fit.
        utilisation: The largest need over what its device has.
        text: One sentence: who, how much, and what would help.
    """

    needs: tuple[tuple[int, RankMemory], ...]
    rank: int
    shortfall_bytes: int
    utilisation: float
    text: str

    @property
    def fits(self) -> bool:
        """Whether every rank's need fits its device."""
        return self.shortfall_bytes == 0


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
        needed: Shared parameters of the stretch of layers that has most, over ``tp``.
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


def deployment_memory(scenario: Scenario, plan: DeploymentPlan, order: Order) -> Verdict:
    """The peak need of every rank of ``plan``, which has its ends, and whether it fits.

    Args:
        order: A schedule's order of actions, by (stage, stages, micro-batches, chunks).
    """
    devices = rank_devices(scenario.cluster)
    needs: dict[int, RankMemory] = {}
    places: dict[int, tuple[str, Load]] = {}
    known: dict[tuple[object, ...], list[RankMemory]] = {}
    for path, load, key, ranks in _loads(scenario, plan, order):
        if key not in known:
            known[key] = [rank_memory(scenario, load, index) for index in range(load.tp)]
        needs.update(zip(ranks, known[key], strict=True))
        places.update(dict.fromkeys(ranks, (path, load)))
    rank = max(needs, key=lambda rank: (needs[rank].total_bytes - devices[rank].memory_bytes, -rank))
    need, has = needs[rank].total_bytes, devices[rank].memory_bytes
    path, load = places[rank]
    if need <= has:
        text = f"all ranks fit; rank {rank} has the fewest bytes to spare: it needs {_gb(need)} of {_gb(has)}"
    else:
        who = f"rank {rank} ({devices[rank].name}, deployment.{path})"
        text = (
            f"{who} needs {_gb(need)} and has {_gb(has)}, {_gb(need - has)} too little; {_advice(scenario, load, has)}"
        )
    return Verdict(
        needs=tuple(sorted(needs.items())),
        rank=rank,
        shortfall_bytes=max(0, need - has),
        utilisation=max(need.total_bytes / devices[rank].memory_bytes for rank, need in needs.items()),
        text=text,
    )


def rank_memory(scenario: Scenario, load: Load, index: int) -> RankMemory:
    """The peak need of rank ``index`` of a group that holds ``load``."""
    model, own, gradient = scenario.model, scenario.dtype_bytes, scenario.gradient_dtype_bytes
    held = share_cuts(model.held_parameters(_each(load.layers)), load.tp, load.shares)
    parameters = held[index + 1] - held[index]
    sharded = int(parameters * load.kept[index]) if load.zero else parameters
    bucket = -(-load.bucket // load.tp) if load.zero >= 2 else 0
    needed = -(-load.needed // load.tp) if load.zero >= 3 else 0
    layers = _Activations(scenario, load, index)
    return RankMemory(
        weight_bytes=(sharded if load.zero >= 3 else parameters) * own,
        gradient_bytes=(sharded if load.zero >= 2 else parameters) * gradient,
        optimizer_bytes=sharded * optimizer_state_bytes(scenario.optimizer, scenario.precision),
        activation_bytes=layers.peak_bytes(),
        workspace_bytes=layers.widest_bytes() + bucket * gradient + needed * own,
    )


class _Activations:
    """What a rank keeps for the backward passes: by layer what is kept, and what is dropped and computed again."""

    def __init__(self, scenario: Scenario, load: Load, index: int) -> None:
        self.load = load
        alike = {layer: like_layer(scenario.model, layer) for layer in _each(load.layers)}
        self.parts = {like: _parts(scenario, load, like, index) for like in set(alike.values())}
        whole = {like: _size(kept_tensors(parts)) for like, parts in self.parts.items()}
        self.kept: dict[int, int] = {}
        self.dropped: dict[int, int] = {}
        for layer, like in alike.items():
            again = recomputed(load.recompute, layer, self.parts[like])
            self.kept[layer] = _size(kept_tensors(self.parts[like], again)) if again else whole[like]
            self.dropped[layer] = max(0, whole[like] - self.kept[layer])

    def peak_bytes(self) -> int:
        """The most that is kept at once: each forward adds its chunk's activations, the last use takes them away.

        What was dropped is there again for one layer at a time, or, of a backward in two halves, for the whole chunk
        until the gradients of the weights are done.
        """
        chunks = self.load.layers
        kept, dropped = ([sum(by[layer] for layer in part) for part in chunks] for by in (self.kept, self.dropped))
        passing = [max((self.dropped[layer] for layer in part), default=0) for part in chunks]
        now = most = 0
        for action in self.load.actions:
            chunk = action.chunk
            if action.kind == "F":
                now += kept[chunk]
            elif action.kind == "I":
                now += dropped[chunk]
            most = max(most, now + (passing[chunk] if action.kind == "B" else 0))
            if action.completes:
                now -= kept[chunk] + (dropped[chunk] if action.kind == "W" else 0)
        return most

    def widest_bytes(self) -> int:
        """The most that one operator reads and writes."""
        operators = (part for parts in self.parts.values() for part in parts if isinstance(part, ShardedOperator))
        return max(operator.work("forward").moved_bytes for operator in operators)


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.size_bytes for tensor in tensors)


def _parts(scenario: Scenario, load: Load, layer: int, index: int) -> tuple[ShardedOperator | Exchange, ...]:
    return layer_operators(
        scenario,
        layer,
        samples=load.samples,
        tp=load.tp,
        index=index,
        sequence_parallel=load.sequence_parallel,
        shares=load.shares,
    )


def _each(parts: tuple[Sequence[int], ...]) -> Iterator[int]:
    return (layer for part in parts for layer in part)


def _loads(
    scenario: Scenario, plan: DeploymentPlan, order: Order
) -> Iterator[tuple[str, Load, tuple[object, ...], tuple[int, ...]]]:
    """Of every device group: its path, its load, a key that equal loads share, and its ranks."""
    kept = kept_states(scenario, plan, order) if plan.zero else {}
    for r, s, stage, actions in scheduled(plan, order):
        replica = plan.replicas[r]
        place = (s, len(replica.stages), replica.micro_batches)
        for g, group in enumerate(stage.groups):
            held = (stage.layers, group.samples, group.tp, group.tp_shares, stage.sequence_parallel)
            load = Load(*held, actions, stage.recompute)
            if plan.zero:
                own = [kept[rank] for rank in group.ranks]
                parts = tuple(Fraction(each.parameters, max(each.tp_parameters, 1)) for each in own)
                bucket = max(each.bucket for each in own) * group.tp
                needed = max(each.needed for each in own) * group.tp
                load = replace(load, zero=plan.zero, kept=parts, bucket=bucket, needed=needed)
            key = (place, *held, stage.recompute, load.kept, load.bucket, load.needed)
            yield f"replicas[{r}].stages[{s}].groups[{g}]", load, key, group.ranks


def _advice(scenario: Scenario, load: Load, has_bytes: int) -> str:
    """The gentlest change that would make the load fit, found by computing the need again."""
    for change, text in _changes(scenario.model, load):
        if max(rank_memory(scenario, change, index).total_bytes for index in range(change.tp)) <= has_bytes:
            return text
    return "use devices with more memory, or more ranks and more stages"


def _changes(model: ModelSpec, load: Load) -> Iterator[tuple[Load, str]]:
    if load.tp > 1 and not load.sequence_parallel:
        yield replace(load, sequence_parallel=True), "set sequence_parallel: true on its stage"
    for samples in range(load.samples - 1, 0, -1):
        yield replace(load, samples=samples), f"give it {samples} of the {load.samples} samples of a micro-batch"
    movable = [layer for layer in _each(load.layers) if 0 < layer <= model.layers]
    if movable and not any(entry.operator == FULL for entry in load.recompute):
        whole = tuple(Recompute(operator=FULL, layers=range(layer, layer + 1)) for layer in movable)
        yield replace(load, recompute=whole), "recompute its layers in full"
    chunk = max(range(len(load.layers)), key=lambda c: len(load.layers[c]))
    movable = [layer for layer in load.layers[chunk] if 0 < layer <= model.layers]
    for fewer in range(1, len(movable)):
        part = tuple(layer for layer in load.layers[chunk] if layer not in movable[:fewer])
        less = (*load.layers[:chunk], part, *load.layers[chunk + 1 :])
        yield replace(load, layers=less), f"move {fewer} of its layers to another stage"
    for tp in (load.tp * 2, load.tp * 4, load.tp * 8):
        if tp <= model.heads:
            kept = (max(load.kept),) * tp if load.zero else ()
            yield replace(load, tp=tp, shares=(), kept=kept), f"spread its layers over {tp} ranks"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB"
