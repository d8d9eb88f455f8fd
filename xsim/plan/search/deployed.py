"""The closed form of ``xsim.plan.search.price`` for a deployment with its ranks, as groups over contexts or experts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from xsim.plan.bodies import Bodies
from xsim.plan.boundary import Side, boundary_layouts
from xsim.plan.contracts import PlannerSite
from xsim.plan.gradients import bucket_elements, gradient_buckets, gradient_layout
from xsim.plan.groups import Holder
from xsim.plan.layout import Layout
from xsim.plan.mixture import experts_of
from xsim.plan.passes import Passes
from xsim.plan.workload import Compute
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage, joined
from xsim.spec.scenario import Scenario

__all__ = ["Deployed"]


@dataclass(frozen=True, slots=True, eq=False)
class Deployed:
    """Prices of deployments of one scenario; what they have in common is found once."""

    scenario: Scenario
    site: PlannerSite
    _bodies: list[Bodies] = field(default_factory=list)
    _sums: dict[tuple[Layout, ...], int] = field(default_factory=dict)

    def price_ps(self, plan: DeploymentPlan) -> int:
        """An iteration of a plan that has passed ``check_deployment``, without virtual stages or sharded states."""
        longest_ps = max(self._replica_ps(replica) for replica in plan.replicas)
        each = [
            (stage, joined(cell)) for replica in plan.replicas for stage in replica.stages for cell in stage.cells()
        ]
        return longest_ps + self._sync_ps(plan) + max(self._update_ps(*own) for own in each)

    def bodies(self) -> Bodies:
        """What groups do."""
        if not self._bodies:
            passes = Passes(self.scenario, self.site.compute, rank_devices(self.scenario.cluster))
            self._bodies.append(Bodies(passes, self.site.algorithm, self.site))
        return self._bodies[0]

    def _replica_ps(self, replica: Replica) -> int:
        passes = [max(self._pass_ps(stage, joined(cell)) for cell in stage.cells()) for stage in replica.stages]
        sends = [0] * len(passes)
        for s, (near, far) in enumerate(pairwise(replica.stages)):
            sends[s] += self._move_ps(near, far)
            sends[s + 1] += self._move_ps(far, near)
        straggler_ps = max(own + sent for own, sent in zip(passes, sends, strict=True))
        return sum(passes) + sum(sends) + (replica.micro_batches - 1) * straggler_ps

    def _pass_ps(self, stage: Stage, group: DeviceGroup) -> int:
        """One micro-batch there and back; layers that recompute the same are alike."""
        (held,), passes = stage.layers, self.bodies().passes
        alike = passes.alike(passes.shape(stage, group), stage, held)
        one_of = dict(zip(alike, held, strict=True))
        kinds = ("I", "W") if any(action.kind == "W" for action in self.site.schedule.order(0, 2, 4, 1)) else ("B",)
        return sum(
            times * sum(self.bodies().layer_ps(kind, stage, group, one_of[like]) for kind in ("F", *kinds))
            for like, times in Counter(alike).items()
        )

    def _move_ps(self, source: Stage, target: Stage) -> int:
        """One hand-over of a micro-batch between the first groups of two stages that share samples, alone."""
        one, other = source.groups[0], target.groups[0]
        sides = Side(one, source.sequence_parallel), Side(other, target.sequence_parallel)
        pieces = boundary_layouts(*sides, min(one.samples, other.samples), self.scenario.model)
        moves = (self.site.strategy.move(sent, wanted, self.site) for sent, wanted in pieces)
        return max(self.site.price(move, self.scenario.dtype_bytes) for move in moves)

    def _sync_ps(self, plan: DeploymentPlan) -> int:
        """All sums that a rank has part in, one after another, of the rank that they take longest."""
        model, wide = self.scenario.model, self.scenario.gradient_dtype_bytes
        owned = [
            (part, Holder(part.ranks, stage.layers[0], experts_of(model.experts, stage.ep, position)))
            for replica in plan.replicas
            for stage in replica.stages
            for cell in stage.cells()
            for position, group in enumerate(cell)
            for part in group.contexts()
        ]
        busy = Counter[int]()
        for bucket in gradient_buckets(model, [holder for _, holder in owned], bucket_elements(plan, wide)):
            members = [owned[i][0] for i in bucket.members]
            layouts = tuple(gradient_layout(group, bucket) for group in members)
            if layouts not in self._sums:
                self._sums[layouts] = self.site.price(self.site.strategy.reduce(layouts, self.site), wide)
            for rank in {rank for group in members for rank in group.ranks}:
                busy[rank] += self._sums[layouts]
        return max(busy.values(), default=0)

    def _update_ps(self, stage: Stage, group: DeviceGroup) -> int:
        steps = self.bodies().update(stage, group, {}).steps
        return sum(max(step.durations_ps) for step in steps if isinstance(step, Compute))
