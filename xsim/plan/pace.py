"""What a pass takes on a device that does not run at its nominal clock.

Power and heat slow the clock of a device's cores, and that of its memory is another: with caps from 700 W down to 200 W
it is by the clock of the cores that H100 and H200 keep them (https://arxiv.org/abs/2604.11391). So matrix products and
attention take ``1 / speed`` of their time, and operators that only move bytes what they always take. Launches of
kernels, which are the host's, and products so thin that their bytes bound them are not told apart: they too take
``1 / speed`` of their time, which is too much.
"""

from __future__ import annotations

from xsim.plan.contracts import ComputeModel, Pass, ShardedOperator
from xsim.spec.cluster import DeviceSpec

__all__ = ["paced_ps"]


def paced_ps(compute: ComputeModel, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
    """Picoseconds of one pass, as ``compute`` has it at the nominal clock, at the speed of ``device``."""
    nominal_ps = compute.time_ps(device, operator, pass_)
    if operator.bound not in ("matmul", "attention") or device.speed == 1.0:
        return nominal_ps
    return max(min(nominal_ps, 1), round(nominal_ps / device.speed))
