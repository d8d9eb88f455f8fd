"""The running example of the paper: Figures 1 and 4, sections 2.2, 4.3 and 4.4."""

from __future__ import annotations

from xsim.plan.groups import Holder
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage


def stage(ranks: tuple[int, ...], first: int, last: int) -> Stage:
    return Stage(groups=(DeviceGroup(ranks=ranks, samples=1),), layers=(range(first, last + 1),))


FIGURE_1 = DeploymentPlan(
    replicas=(
        Replica(stages=(stage((0, 1, 2), 1, 20), stage((5, 6), 21, 32)), micro_batch=1, micro_batches=16),
        Replica(stages=(stage((3, 4), 1, 15), stage((7, 8, 9), 16, 32)), micro_batch=1, micro_batches=8),
    )
)

DG0, DG1, DG2, DG3 = (
    Holder(stage.groups[0].ranks, stage.layers[0]) for replica in FIGURE_1.replicas for stage in replica.stages
)
