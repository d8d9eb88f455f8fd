"""Cephalo: every device works on all layers, takes samples by its speed, and keeps states by its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.load import Load, loads, rank_memory
from xsim.plan.memory import shortfall
from xsim.plan.search.grids import divisors
from xsim.plan.search.shortage import Shortage, nothing_fits
from xsim.plan.search.sync import ring_ps, ring_rate
from xsim.plan.search.tables import ModelTables, tables
from xsim.spec.cluster import rank_devices, rank_kinds
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.scenario import Scenario, check_deployment

__all__ = ["Cephalo"]


@dataclass(frozen=True, slots=True)
class Cephalo:
    """Sharded data parallelism with unequal batches and unequal shards (https://arxiv.org/abs/2411.01075 section 3).

    No tensor or pipeline parallelism: ``zero: 3`` over all devices, each layer gathered beside the one before, as in
    FSDP, on which it is built. What a device takes of each of the steps of an iteration, and what it keeps of weights,
    gradients and optimizer states, are chosen apart: samples so that the slowest is as fast as can be and its
    activations fit; then states in proportion to the memory that is left. Steps are as few as fit: each gathers all
    weights again. A device too slow for a sample idles. A step takes the slowest device's work or the rings of weights
    and gradients, whichever is longer.

    Attributes:
        recompute: What the backward pass computes again in every layer, as in ``uniform``: ``none``, ``selective``,
            ``full`` or the name of one operator.
        steps: Into how many parts the batch is cut, whose gradients are added up; 0: as few as fit.
    """

    recompute: str = "none"
    steps: int = 0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise SpecError("steps", self.steps, "a count is 0 or more", "write 0 to have it found")

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        shortage, search = Shortage(), _Samples(scenario, site, tables(scenario, site), self.recompute)
        if self.steps and scenario.batch % self.steps:
            problem = f"it does not divide the batch of {scenario.batch}"
            raise SpecError("planner.steps", self.steps, problem, "choose a divisor, or 0")
        counts = (self.steps,) if self.steps else divisors(scenario.batch)
        for number, count in enumerate(counts):
            site.progress(number, len(counts), "numbers of steps")
            deployment = search.deployment(count, shortage)
            if deployment is None:
                continue
            rank, lacks_bytes = shortfall(scenario, deployment, site.schedule.order)
            if not lacks_bytes:
                return deployment
            shortage.note(rank_devices(scenario.cluster)[rank].name, lacks_bytes)
        raise nothing_fits("cephalo", scenario, rank_devices(scenario.cluster), shortage)


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """How many samples each device takes."""

    scenario: Scenario
    site: PlannerSite
    tables: ModelTables
    recompute: str
    _passes: dict[tuple[str, int], int] = field(default_factory=dict)
    _needs: dict[int, int] = field(default_factory=dict)

    def deployment(self, steps: int, shortage: Shortage) -> DeploymentPlan | None:
        """With the fastest slowest device; None if activations and the layers that are whole at a time do not fit."""
        total, gathered_bytes = self.scenario.batch // steps, 0
        while samples := self._shared(total, shortage, gathered_bytes):
            equal = self._shared_out(samples, [1.0] * len(samples), steps)
            left, most_bytes = self._left(equal)
            if most_bytes <= gathered_bytes:
                return self._shared_out(samples, [room / 1e9 for room in left], steps)
            gathered_bytes = most_bytes  # known once ranks are: a rank alone gathers nothing
        return None

    def _shared_out(self, samples: list[int], states: list[float], steps: int) -> DeploymentPlan:
        """By rank its samples of a step, and its states in proportion; ranks without samples idle."""
        groups = tuple(
            DeviceGroup(ranks=(rank,), samples=own, state_shares=(states[rank],))
            for rank, own in enumerate(samples)
            if own
        )
        layers = range(1, self.scenario.model.layers + 1)
        replica = Replica(
            stages=(Stage(groups=groups, layers=(layers,), recompute=self._again()),),
            micro_batch=sum(samples),
            micro_batches=steps,
        )
        bucket = self.scenario.model.layer_parameters(1) * self.scenario.dtype_bytes
        predicted = steps * max(self._slowest_ps(samples), self._exchange_ps([group.ranks[0] for group in groups]))
        plan = DeploymentPlan(
            replicas=(replica,),
            name="cephalo",
            zero=3,
            gather_overlap=True,
            bucket_bytes=bucket,
            predicted_ps=predicted,
        )
        return check_deployment(plan, self.scenario)

    def _left(self, plan: DeploymentPlan) -> tuple[list[float], int]:
        """By rank the bytes that all but its states leave of it, at least 1, and the most that is whole at a time."""
        devices = rank_devices(self.scenario.cluster)
        one = replace(plan, replicas=tuple(replace(own, micro_batches=1) for own in plan.replicas))
        found, most_bytes = [1.0] * len(devices), 0
        for held in loads(self.scenario, one, self.site.schedule.order):
            need = rank_memory(self.scenario, held.load, 0)
            rest = need.activation_bytes + need.workspace_bytes + need.buffer_bytes
            (rank,) = held.ranks
            found[rank] = max(1.0, self._tensors_bytes(devices[rank].memory_bytes) - rest)
            most_bytes = max(most_bytes, need.buffer_bytes)
        return found, most_bytes

    def _tensors_bytes(self, memory_bytes: int) -> float:
        """What tensors may take of a device: not what the framework has, nor what lies unusable between them."""
        return (memory_bytes - self.scenario.framework_bytes) * (1 - self.scenario.fragmentation)

    def _slowest_ps(self, samples: list[int]) -> int:
        kinds = rank_kinds(self.scenario.cluster)
        return max(self.pass_ps(kind, own) for kind, own in zip(kinds, samples, strict=True))

    def _exchange_ps(self, ranks: list[int]) -> int:
        """Weights gathered twice and gradients scattered once, in rings at the rate of the slowest link on them."""
        if len(ranks) == 1:
            return 0
        own = self.scenario
        halves = own.model.parameters * (2 * own.dtype_bytes + own.gradient_dtype_bytes)
        return ring_ps(halves / 2, len(ranks), 1, ring_rate(self.site.fabric, ranks), latency_ps=0)

    def _shared(self, total: int, shortage: Shortage, gathered_bytes: int) -> list[int] | None:
        """Samples of each rank that sum to ``total``, with the least time of the slowest, by bisection of it.

        Args:
            gathered_bytes: What a rank has whole at a time of layers.
        """
        kinds = self.tables.kinds
        most = {kind.name: self._most(kind.name, total, gathered_bytes) for kind in kinds}
        if sum(kind.count * most[kind.name] for kind in kinds) < total:
            for kind in kinds:
                own = most[kind.name] + 1
                lacks = self.need_bytes(own) + gathered_bytes - self._tensors_bytes(kind.device.memory_bytes)
                shortage.note(kind.name, max(1, ceil(lacks / (1 - self.scenario.fragmentation))))
            return None
        low, high = 0, max(self.pass_ps(name, own) for name, own in most.items() if own)
        while low < high:
            middle = (low + high) // 2
            taken = sum(kind.count * self._within(kind.name, most[kind.name], middle) for kind in kinds)
            low, high = (low, middle) if taken >= total else (middle + 1, high)
        each = {kind.name: self._within(kind.name, most[kind.name], low) for kind in kinds}
        samples = [each[kind] for kind in rank_kinds(self.scenario.cluster)]
        return self._trimmed(samples, sum(samples) - total)

    def _trimmed(self, samples: list[int], excess: int) -> list[int]:
        """Less of them, always of the one that takes longest; of equals the last."""
        kinds = rank_kinds(self.scenario.cluster)
        while excess:
            slowest = max(range(len(samples)), key=lambda r: (self.pass_ps(kinds[r], samples[r]), r))
            samples[slowest] -= 1
            excess -= 1
        return samples

    def _most(self, kind: str, total: int, gathered_bytes: int) -> int:
        """Samples whose activations fit a device of ``kind`` beside what is gathered, at most ``total``."""
        tensors_bytes = self._tensors_bytes(self.tables.capacity_bytes(kind)) - gathered_bytes
        return _largest(total, lambda own: self.need_bytes(own) <= tensors_bytes)

    def _within(self, kind: str, most: int, limit_ps: int) -> int:
        return _largest(most, lambda own: self.pass_ps(kind, own) <= limit_ps)

    def pass_ps(self, kind: str, samples: int) -> int:
        """All layers forward and backward; 0 without samples."""
        key = (kind, samples)
        if key not in self._passes:
            self._passes[key] = self._both_ps(kind, samples) if samples else 0
        return self._passes[key]

    def _both_ps(self, kind: str, samples: int) -> int:
        again = frozenset(() if self.recompute == "none" else (self.recompute,))
        forward, backward = self.tables.forward_ps(kind, 1, samples), self.tables.backward_ps(kind, 1, samples, again)
        return int(forward.sum() + backward.sum())

    def _again(self) -> tuple[Recompute, ...]:
        layers = range(1, self.scenario.model.layers + 1)
        return () if self.recompute == "none" else (Recompute(operator=self.recompute, layers=layers),)

    def need_bytes(self, samples: int) -> int:
        """Of activations and the widest operator."""
        if samples not in self._needs:
            layers = (range(self.scenario.model.layers + 2),)
            load = Load(layers, samples, 1, (), False, self.site.schedule.order(0, 1, 1, 1), self._again())
            need = rank_memory(self.scenario, load, 0)
            self._needs[samples] = need.activation_bytes + need.workspace_bytes
        return self._needs[samples]


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest of 0..``most`` for which it holds; it holds for all below, and for 0."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
