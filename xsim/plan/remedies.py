"""What would make a device group fit, and what each such change costs; the cheapest that is enough is advised.

Needs are computed again, exactly. Costs are estimates of the further time of one iteration, at the peak rates of the
device: the FLOPs and bytes of what is computed again, the weights that more micro-batches read again, the bytes that
sharding sends besides (https://arxiv.org/abs/1910.02054 section 7), and, of layers that move to another stage, the work
that the other then has more. Sequence parallelism and the sharding of optimizer states send no more bytes than what
they replace. What takes more devices comes last. Operators are recomputed one kind alone, or one kind after the other
from those that save most for their time until the stage fits, as the planner of ETH does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.plan.activations import Part
from xsim.plan.load import Held, Load, each_layer, loads, parts_of, rank_memory
from xsim.plan.operator import Pass, ShardedOperator, Tensor
from xsim.plan.operators import like_layer
from xsim.plan.recompute import FULL, SELECTIVE, kept_tensors, recomputed
from xsim.plan.route import Order
from xsim.spec.cluster import DeviceSpec, rank_devices, rank_hosts
from xsim.spec.deployment import DeploymentPlan, Recompute
from xsim.spec.scenario import Scenario, check_deployment
from xsim.units import PS_PER_S

__all__ = ["Remedy", "advice", "remedies"]

NONE = "use devices with more memory, or more ranks and more stages"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change after which a group fits.

    Attributes:
        text: What to do.
        cost_ps: What an iteration takes longer, estimated; absent if it takes more devices.
    """

    text: str
    cost_ps: int | None


def advice(scenario: Scenario, plan: DeploymentPlan, order: Order, held: Held, rank: int) -> str:
    """The cheapest change after which the group ``held`` fits devices like ``rank``, in words."""
    found = list(remedies(scenario, plan, order, held, rank))
    if not found:
        return NONE
    best = min(found, key=lambda each: (each.cost_ps is None, each.cost_ps or 0))
    if best.cost_ps is None:
        return best.text
    if not best.cost_ps:
        return best.text
    time = f"{best.cost_ps / 1e12:.1f} s" if best.cost_ps >= PS_PER_S else f"{best.cost_ps / 1e9:.3g} ms"
    return f"{best.text} (about {time} an iteration)"


def remedies(scenario: Scenario, plan: DeploymentPlan, order: Order, held: Held, rank: int) -> Iterator[Remedy]:
    """Changes that are enough, each by as little as is."""
    group = _Group(scenario, held.load, rank_devices(scenario.cluster)[rank])
    yield from group.sequence_parallel()
    yield from _sharding(scenario, plan, order, held, rank, group)
    yield from group.recomputing()
    yield from group.smaller()
    yield from group.moving(lambda layers: _others_with_room(scenario, plan, order, held, layers))
    yield from group.sharing()
    yield from group.spreading()


@dataclass(frozen=True, slots=True)
class _Group:
    scenario: Scenario
    load: Load
    device: DeviceSpec

    def fits(self, load: Load) -> bool:
        """Whether all ranks do; of equal shares the last is never smaller than others."""
        indices = range(load.tp) if load.shares or load.zero else (load.tp - 1,)
        return all(rank_memory(self.scenario, load, i).total_bytes <= self.device.memory_bytes for i in indices)

    def sequence_parallel(self) -> Iterator[Remedy]:
        """Of its stage."""
        if self.load.tp == 1 or self.load.sequence_parallel:
            return
        if self.fits(replace(self.load, sequence_parallel=True)):
            yield Remedy("set sequence_parallel: true on its stage", 0)

    def recomputing(self) -> Iterator[Remedy]:
        """All of a layer, its attention, or operators, in as few layers as do; those of the first stage first."""
        movable = self._movable(each_layer(self.load))
        if not movable or any(entry.operator == FULL for entry in self.load.recompute):
            return
        parts = parts_of(self.scenario, self.load, like_layer(self.scenario.model, movable[0]), self.load.tp - 1)
        names = [part.name for part in parts if isinstance(part, ShardedOperator)]
        for name in (SELECTIVE, *names, FULL):
            yield from self._recomputing([(name, layer) for layer in movable], parts, len(movable))
        ranked = [(name, layer) for name in self._ranked(parts, names) for layer in movable]
        yield from self._recomputing(ranked, parts, len(movable))

    def _recomputing(self, entries: Sequence[tuple[str, int]], parts: Sequence[Part], layers: int) -> Iterator[Remedy]:
        """The least of (operator, layer) ``entries`` from the first that is enough."""

        def again(count: int) -> Load:
            more = tuple(Recompute(operator=name, layers=range(layer, layer + 1)) for name, layer in entries[:count])
            return replace(self.load, recompute=(*self.load.recompute, *more))

        count = _least(len(entries), lambda count: self.fits(again(count)))
        if count is None or (len(entries) > layers >= count):  # one operator is enough, which others have said
            return
        asked = again(count).recompute
        each = dict.fromkeys(layer for _, layer in entries[:count])
        known = {layer: recomputed(self.load.recompute, layer, parts) for layer in each}
        cost_ps = sum(
            self._passes(layer) * self._again_ps(parts, recomputed(asked, layer, parts) - known[layer])
            for layer in each
        )
        yield Remedy(_recompute_text([name for name, _ in entries[:count]], layers), cost_ps)

    def _ranked(self, parts: Sequence[Part], names: Sequence[str]) -> list[str]:
        """Operators that save anything, those first that save most for their time, as ETH's planner takes them."""
        whole = _size(kept_tensors(parts))
        saved = {name: whole - _size(kept_tensors(parts, {name})) for name in names}
        cost_ps = {name: self._again_ps(parts, frozenset((name,))) for name in names}
        return sorted((name for name in names if saved[name] > 0), key=lambda name: cost_ps[name] / saved[name])

    def smaller(self) -> Iterator[Remedy]:
        """Fewer samples of a micro-batch, and more micro-batches, which read the weights again."""
        samples = _least(self.load.samples - 1, lambda less: self.fits(replace(self.load, samples=self._less(less))))
        if samples is None:
            return
        left = self._less(samples)
        text = f"give it {left} of the {self.load.samples} samples of a micro-batch"
        more = math.ceil(self._turns() * self.load.samples / left) - self._turns()
        weights = rank_memory(self.scenario, self.load, self.load.tp - 1).weight_bytes
        yield Remedy(text, _ps(more * 3 * weights, self.device.memory_bandwidth_bytes_per_s))

    def moving(self, others: Callable[[Sequence[int]], str]) -> Iterator[Remedy]:
        """Layers to others with room, in words, off the longest chunk; those then have so much more to do."""
        chunk = max(range(len(self.load.layers)), key=lambda c: len(self.load.layers[c]))
        movable = self._movable(self.load.layers[chunk])

        def without(count: int) -> Load:
            part = tuple(layer for layer in self.load.layers[chunk] if layer not in movable[:count])
            return replace(self.load, layers=(*self.load.layers[:chunk], part, *self.load.layers[chunk + 1 :]))

        count = _least(len(movable) - 1, lambda count: self.fits(without(count)))
        if count is not None and (where := others(movable[:count])):
            parts = parts_of(self.scenario, self.load, like_layer(self.scenario.model, movable[0]), self.load.tp - 1)
            operators = [part for part in parts if isinstance(part, ShardedOperator)]
            passes: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
            each_ps = sum(self._work_ps(operator, pass_) for operator in operators for pass_ in passes)
            what = f"{count} of its layers" if count > 1 else "one of its layers"
            yield Remedy(f"move {what} to {where}", count * self._passes(movable[0]) * each_ps)

    def sharing(self) -> Iterator[Remedy]:
        """More groups for the same experts."""
        for ep in (self.load.ep * 2, self.load.ep * 4, self.load.ep * 8):
            shared = [replace(self.load, ep=ep, position=position) for position in range(ep)]
            if ep <= self.scenario.model.experts and all(self.fits(load) for load in shared):
                yield Remedy(f"share out its experts over {ep} groups (ep: {ep})", None)
                return

    def spreading(self) -> Iterator[Remedy]:
        """More ranks for the same layers."""
        for tp in (self.load.tp * 2, self.load.tp * 4, self.load.tp * 8):
            if tp <= self.scenario.model.heads:
                kept = (max(self.load.kept),) * tp if self.load.zero else ()
                if self.fits(replace(self.load, tp=tp, shares=(), kept=kept)):
                    yield Remedy(f"spread its layers over {tp} ranks", None)
                    return

    def _less(self, taken: int) -> int:
        return self.load.samples - taken

    def _movable(self, layers: Sequence[int] | Iterator[int]) -> list[int]:
        return [layer for layer in layers if 0 < layer <= self.scenario.model.layers]

    def _turns(self) -> int:
        return sum(action.kind == "F" for action in self.load.actions)

    def _passes(self, layer: int) -> int:
        """How many micro-batches pass it."""
        own = {chunk for chunk, part in enumerate(self.load.layers) if layer in part}
        return sum(action.kind == "F" and action.chunk in own for action in self.load.actions)

    def _again_ps(self, parts: Sequence[Part], names: frozenset[str]) -> int:
        operators = (part for part in parts if isinstance(part, ShardedOperator) and part.name in names)
        return sum(self._work_ps(operator, "forward") for operator in operators)

    def _work_ps(self, operator: ShardedOperator, pass_: Pass) -> int:
        """At the peaks of the device."""
        work, device = operator.work(pass_), self.device
        peak = device.rate_flops_per_s or device.peak(operator.dtype)
        return max(_ps(work.flops, peak), _ps(work.moved_bytes, device.memory_bandwidth_bytes_per_s))


def _sharding(
    scenario: Scenario, plan: DeploymentPlan, order: Order, held: Held, rank: int, group: _Group
) -> Iterator[Remedy]:
    """The lowest stage of ZeRO that does, with buckets of one layer where none are set.

    Sharded gradients are summed after every micro-batch, sharded weights gathered before each pass.
    """
    host = list(scenario.cluster.each_host())[rank_hosts(scenario.cluster)[rank]]
    rate = host.nic.bandwidth_bytes_per_s * (host.nic.per_host or host.size) / host.size
    need = rank_memory(scenario, held.load, held.load.tp - 1)
    turns = sum(action.kind == "F" and action.chunk == 0 for action in held.load.actions)
    layer_bytes = scenario.model.layer_parameters(1) * scenario.gradient_dtype_bytes
    for zero in range(plan.zero + 1, 4):
        bucket_bytes = plan.bucket_bytes or (layer_bytes if zero >= 2 else None)
        try:
            sharded = check_deployment(replace(plan, zero=zero, bucket_bytes=bucket_bytes), scenario)
            load = next(each.load for each in loads(scenario, sharded, order) if each.ranks == held.ranks)
        except SpecError:
            continue
        if load.kept != (1,) * load.tp and group.fits(load):
            sent = need.gradient_bytes * (turns - 1) if zero >= 2 else 0
            sent += need.weight_bytes * (2 * turns - 1) if zero >= 3 else 0
            bucket = " and a bucket of one layer" if bucket_bytes != plan.bucket_bytes else ""
            yield Remedy(f"set zero: {zero}{bucket} on the deployment", _ps(sent, rate))
            return


def _others_with_room(scenario: Scenario, plan: DeploymentPlan, order: Order, held: Held, layers: Sequence[int]) -> str:
    """Which other stages of the pipeline of ``held`` have room for ``layers``, in words; empty if too little."""
    devices = rank_devices(scenario.cluster)
    replica, own, _ = held.path.split(".")
    room: dict[str, int] = {}
    for each in loads(scenario, plan, order):
        pipeline, stage, _ = each.path.split(".")
        if pipeline == replica and stage != own:
            has = [devices[rank].memory_bytes for rank in each.ranks]
            room[stage] = min(room.get(stage, len(layers)), _room(scenario, each.load, has, layers))
    if max(room.values(), default=0) >= len(layers):
        return "another stage"
    return "other stages" if sum(room.values()) >= len(layers) else ""


def _room(scenario: Scenario, load: Load, has: Sequence[int], layers: Sequence[int]) -> int:
    """How many of ``layers`` a group with so many bytes on each rank has room for on top of its shortest chunk."""
    chunk = min(range(len(load.layers)), key=lambda c: len(load.layers[c]))

    def too_many(count: int) -> bool:
        part = (*load.layers[chunk], *layers[:count])
        more = replace(load, layers=(*load.layers[:chunk], part, *load.layers[chunk + 1 :]))
        return any(rank_memory(scenario, more, i).total_bytes > most for i, most in enumerate(has))

    least = _least(len(layers), too_many)
    return len(layers) if least is None else least - 1


def _recompute_text(names: Sequence[str], layers: int) -> str:
    """In words, if each of ``names`` is for one of so many layers."""
    if names[-1] == FULL:
        return (
            "recompute its layers in full"
            if len(names) == layers
            else (f"recompute {len(names)} of its {layers} layers in full")
        )
    told = ["attention (selective)" if name == SELECTIVE else name for name in dict.fromkeys(names)]
    rest = len(names) % layers
    if not rest:
        return f"recompute {' and '.join(told)} in all of its layers"
    before = f"{' and '.join(told[:-1])} in all of its layers, and " if told[:-1] else ""
    return f"recompute {before}{told[-1]} in {rest} of its {layers} layers"


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.size_bytes for tensor in tensors)


def _least(most: int, enough: Callable[[int], bool]) -> int | None:
    """The least from 1 to ``most`` that is enough, if that is so of all greater ones too."""
    if most < 1 or not enough(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _ps(amount: float, per_s: float) -> int:
    return round(amount / per_s * PS_PER_S)
