"""The roofline: an operator takes as long as its arithmetic or as its memory traffic, whichever is longer."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.contracts import Pass
from xsim.plan.operator import ShardedOperator
from xsim.spec.cluster import DeviceSpec
from xsim.units import PS_PER_S

__all__ = ["Roofline"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """FLOPs and bytes against the device's peaks, scaled by its efficiency curve (Williams et al. 2009)."""

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        work = operator.work(pass_)
        if not work.kernels:
            return 0
        moving_s = work.moved_bytes / (device.memory_bandwidth_bytes_per_s * device.efficiency.memory)
        computing_s = _computing_s(device, operator, work.flops / work.kernels) * work.kernels
        return int(max(computing_s, moving_s) * PS_PER_S + 0.5) + work.kernels * device.efficiency.overhead_ps


def _computing_s(device: DeviceSpec, operator: ShardedOperator, flops: float) -> float:
    """Time of the arithmetic of one kernel: at the explicit rate, or at ``peak * fraction * f / (f + half)``."""
    if operator.bound == "memory":
        return 0.0
    if device.rate_flops_per_s is not None:
        return flops / device.rate_flops_per_s
    curve, peak = device.efficiency, device.peak(operator.dtype)
    if operator.bound == "matmul":
        return (flops + curve.half_flops) / (peak * curve.matmul)
    half = curve.half_flops if curve.attention_half_flops is None else curve.attention_half_flops
    return (flops + half) / (peak * curve.attention)
