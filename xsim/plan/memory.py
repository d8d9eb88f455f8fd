"""What each rank must hold at its fullest, and whether it fits.

Weights, gradients and optimizer states as in ZeRO (https://arxiv.org/abs/1910.02054 section 3.1: 16 bytes a parameter
for Adam in 16 bits; section 5: sharding leaves each of N data-parallel ranks 4 + 12 / N of them, or 2 + 14 / N with the
gradients, or 16 / N with the weights too; of these one bucket at a time is whole); activations by what each operator
keeps for its backward pass. With fused attention and without dropout masks that is, per layer, the
``s b h (34 + 5 a s / h)`` of Korthikanti et al. (https://arxiv.org/abs/2205.05198 table 2) without its score term and
its masks, ``32 s b h``, and 4 bytes per token and head; tensor and sequence parallelism divide it as there. The
framework's own memory and fragmentation are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xsim.plan.operators import ShardedOperator, layer_operators, like_layer
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.route import Order, scheduled
from xsim.plan.workload import Action
from xsim.plan.zero import kept_states
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan
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
    model, own = scenario.model, scenario.dtype_bytes
    held = share_cuts(model.held_parameters(_each(load.layers)), load.tp, load.shares)
    parameters = held[index + 1] - held[index]
    sharded = int(parameters * load.kept[index]) if load.zero else parameters
    bucket = -(-load.bucket // load.tp) if load.zero >= 2 else 0
    needed = -(-load.needed // load.tp) if load.zero >= 3 else 0
    alike = {layer: like_layer(model, layer) for layer in _each(load.layers)}
    operators = {like: _operators(scenario, load, like, index) for like in set(alike.values())}
    kept = {like: sum(operator.kept_bytes for operator in some) for like, some in operators.items()}
    widest = max(operator.moved_bytes for some in operators.values() for operator in some)
    return RankMemory(
        weight_bytes=(sharded if load.zero >= 3 else parameters) * own,
        gradient_bytes=(sharded if load.zero >= 2 else parameters) * own,
        optimizer_bytes=sharded * optimizer_state_bytes(scenario.optimizer, scenario.precision),
        activation_bytes=_peak_kept(load, [sum(kept[alike[layer]] for layer in part) for part in load.layers]),
        workspace_bytes=widest + (bucket + needed) * own,
    )


def _peak_kept(load: Load, chunk_bytes: Sequence[int]) -> int:
    """The most that is kept at once: each forward adds its chunk's activations, the last use takes them away.

    A backward in two halves keeps all of them until the gradients of the weights are done.
    """
    now = most = 0
    for action in load.actions:
        if action.kind == "F":
            now += chunk_bytes[action.chunk]
            most = max(most, now)
        elif action.completes:
            now -= chunk_bytes[action.chunk]
    return most


def _operators(scenario: Scenario, load: Load, layer: int, index: int) -> list[ShardedOperator]:
    parts = layer_operators(
        scenario.model,
        layer,
        samples=load.samples,
        tp=load.tp,
        index=index,
        precision=scenario.precision,
        sequence_parallel=load.sequence_parallel,
        shares=load.shares,
    )
    return [part for part in parts if isinstance(part, ShardedOperator)]


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
            load = Load(*held, actions)
            if plan.zero:
                own = [kept[rank] for rank in group.ranks]
                parts = tuple(Fraction(each.parameters, max(each.tp_parameters, 1)) for each in own)
                bucket = max(each.bucket for each in own) * group.tp
                needed = max(each.needed for each in own) * group.tp
                load = replace(load, zero=plan.zero, kept=parts, bucket=bucket, needed=needed)
            key = (place, *held, load.kept, load.bucket, load.needed)
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
