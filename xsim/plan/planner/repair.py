"""What is made of a deployment when devices fail or slow down: narrower groups, fewer replicas, other shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.batches import Running, soonest
from xsim.plan.search.price import price
from xsim.plan.search.survivors import check_lost, levelled
from xsim.plan.search.tables import tables
from xsim.plan.sketch import check_uncut, pipeline_of, sketch_of
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.scenario import Scenario, check_deployment

__all__ = ["Repair"]

SUFFIXES = {"shrink": "narrower", "drop": "fewer replicas", "keep": "dealt out anew"}


@dataclass(frozen=True, slots=True)
class Repair:
    """The scenario's own deployment without failed devices; its batch is dealt out anew to the replicas by their pace.

    ``shrink`` lets the other ranks of a tensor group go on with larger shards (nonuniform tensor parallelism, NTP:
    https://arxiv.org/abs/2504.06095); ``drop`` leaves out each replica that has lost a rank; ``keep`` leaves all as it
    is, for a cluster whose devices or links have become slower: a group goes at the pace of its slowest device. Slow
    devices can be left out like failed ones. A plan from scratch on what is left is ``planner=xsim`` with ``lost``.
    Replicas that stay have to have a price: equal shards of devices of one name, no virtual stages, and no cuts over
    contexts or experts.

    Attributes:
        lost: Ranks that have failed, or are to be left out.
        how: ``shrink``, ``drop`` or ``keep``.
    """

    lost: tuple[int, ...] = ()
    how: Literal["shrink", "drop", "keep"] = "shrink"

    def __post_init__(self) -> None:
        if self.how not in SUFFIXES:
            raise SpecError("how", self.how, "it is unknown", "choose shrink, drop or keep")

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        given = scenario.deployment
        if given is None:
            raise SpecError("deployment", None, "there is nothing to repair", "name a deployment")
        try:
            check_lost(self.lost, scenario.cluster)
        except SpecError as error:
            raise error.under("planner") from None
        hit = any(self._hit(replica.stages) for replica in given.replicas)
        if hit and self.how == "keep":
            problem = "the deployment uses a rank of it"
            raise SpecError("planner.lost", list(self.lost), problem, "write how: shrink or how: drop")
        if not hit and self.how != "keep":
            return given
        asked = replace(scenario, cluster=levelled(scenario.cluster, [group.ranks for _, group in given.groups()]))
        for number, replica in enumerate(given.replicas):
            if self.how != "drop" or not self._hit(replica.stages):
                check_uncut(given, number)  # what has no price is refused by the paths of the deployment
                pipeline_of(given, number, asked)
        left = self._dropped(given) if self.how == "drop" else self._shrunk(given)
        groups = [group.ranks for _, group in left.groups()]
        return self._dealt(left, scenario, replace(scenario, cluster=levelled(scenario.cluster, groups)), site)

    def _shrunk(self, given: DeploymentPlan) -> DeploymentPlan:
        replicas = []
        for r, replica in enumerate(given.replicas):
            stages = []
            for s, stage in enumerate(replica.stages):
                groups = tuple(self._narrower(group, f"replicas[{r}].stages[{s}]") for group in stage.groups)
                stages.append(replace(stage, groups=groups))
            replicas.append(replace(replica, stages=tuple(stages)))
        return replace(given, replicas=tuple(replicas))

    def _narrower(self, group: DeviceGroup, path: str) -> DeviceGroup:
        kept = [i for i, rank in enumerate(group.ranks) if rank not in self.lost]
        if len(kept) == len(group.ranks):
            return group
        if not kept:
            problem = f"deployment.{path} has a group with no device left"
            raise SpecError("planner.lost", list(self.lost), problem, "write how: drop, or choose planner=xsim")
        states = tuple(group.state_shares[i] for i in kept) if group.state_shares else ()
        return replace(group, ranks=tuple(group.ranks[i] for i in kept), state_shares=states)

    def _dropped(self, given: DeploymentPlan) -> DeploymentPlan:
        replicas = tuple(replica for replica in given.replicas if not self._hit(replica.stages))
        if not replicas:
            problem = "every replica has lost a device"
            raise SpecError("planner.lost", list(self.lost), problem, "write how: shrink, or choose planner=xsim")
        return replace(given, replicas=replicas)

    def _hit(self, stages: tuple[Stage, ...]) -> bool:
        return any(rank in self.lost for stage in stages for group in stage.groups for rank in group.ranks)

    def _dealt(self, left: DeploymentPlan, scenario: Scenario, paced: Scenario, site: PlannerSite) -> DeploymentPlan:
        """The whole batch on these replicas, so that the last ends as soon as can be.

        Args:
            paced: The scenario on a cluster where each group has the pace of its slowest device.
        """
        own = tables(paced, site)
        running = []
        for replica in left.replicas:
            # alone, with a batch of its own: only its pace is asked for
            alone = replace(left, replicas=(replica,), zero=0)
            sketch = sketch_of(alone, replace(paced, batch=replica.samples, deployment=None))
            ((fill_ps, straggler_ps, _),) = price(sketch, own).pipelines
            running.append(Running(fill_ps, straggler_ps, replica.micro_batch))
        found = soonest(running, scenario.batch)
        if found is None:
            problem = f"{len(left.replicas)} replicas cannot share it in whole micro-batches"
            raise SpecError("batch", scenario.batch, problem, "choose planner=xsim, or another batch")
        replicas: list[Replica] = []
        for replica, turns in zip(left.replicas, found[1], strict=True):
            (count,) = turns
            replicas.append(replace(replica, micro_batches=count))
        name = f"{left.name}, {SUFFIXES[self.how]}".lstrip(", ")
        return check_deployment(replace(left, replicas=tuple(replicas), name=name, predicted_ps=None), scenario)
