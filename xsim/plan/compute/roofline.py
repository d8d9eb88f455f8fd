"""The roofline: an operator takes as long as its arithmetic or as its memory traffic, whichever is longer."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.contracts import Pass
from xsim.plan.operators import ShardedOperator
from xsim.spec.cluster import DeviceSpec
from xsim.units import PS_PER_S

__all__ = ["Roofline"]

BACKWARD_PASSES = 2  # gradients of the input and of the weights, each a product of the forward's size


@dataclass(frozen=True, slots=True)
class Roofline:
    """FLOPs and bytes against the device's peaks, scaled by its efficiency curve (Williams et al. 2009)."""

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        moving_s = operator.moved_bytes / (device.memory_bandwidth_bytes_per_s * device.efficiency.memory)
        once_s = max(_computing_s(device, operator), moving_s)
        once_ps = int(once_s * PS_PER_S + 0.5) + device.efficiency.overhead_ps
        return BACKWARD_PASSES * once_ps if pass_ == "backward" else once_ps


def _computing_s(device: DeviceSpec, operator: ShardedOperator) -> float:
    """Time of the arithmetic: at the explicit rate, or at ``peak * fraction * f / (f + half)``."""
    if operator.bound == "memory":
        return 0.0
    if device.rate_flops_per_s is not None:
        return operator.flops / device.rate_flops_per_s
    curve, peak = device.efficiency, device.peak(operator.dtype)
    if operator.bound == "matmul":
        return (operator.flops + curve.half_flops) / (peak * curve.matmul)
    half = curve.half_flops if curve.attention_half_flops is None else curve.attention_half_flops
    return (operator.flops + half) / (peak * curve.attention)
