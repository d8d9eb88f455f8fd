"""The roofline: an operator takes as long as its arithmetic or as its memory traffic, whichever is longer."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.plan.contracts import Pass
from xsim.plan.operator import ShardedOperator, Work
from xsim.plan.tiles import busiest_flops
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve
from xsim.units import PS_PER_S

__all__ = ["Roofline"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """FLOPs and bytes against the device's peaks, scaled by its efficiency curve (Williams et al. 2009)."""

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        work = operator.work(pass_)
        if not work.kernels:
            return 0
        curve = device.efficiency
        fraction = curve.memory if operator.bound != "norm" or curve.norm is None else curve.norm
        moving_s = work.moved_bytes / (device.memory_bandwidth_bytes_per_s * fraction)
        computing_s = _computing_s(device, operator, work, pass_) * work.kernels
        return int(max(computing_s, moving_s) * PS_PER_S + 0.5) + work.kernels * curve.overhead_ps


def _computing_s(device: DeviceSpec, operator: ShardedOperator, work: Work, pass_: Pass) -> float:
    """Time of the arithmetic of one kernel."""
    if operator.bound not in {"matmul", "attention"}:
        return 0.0
    flops = work.flops / work.kernels
    if device.rate_flops_per_s is not None:
        return flops / device.rate_flops_per_s
    curve, peak = device.efficiency, device.peak(operator.dtype)
    if operator.bound == "matmul":
        return _matmul_flops(curve, work, flops) / (peak * curve.matmul)
    backward = pass_ != "forward" and curve.attention_backward is not None
    fraction = curve.attention_backward if backward else curve.attention
    return _attention_flops(curve, work, flops) / (peak * (fraction or curve.attention))


def _matmul_flops(curve: EfficiencyCurve, work: Work, flops: float) -> float:
    """What the device has time for at its best while it works on a product of ``flops``."""
    if curve.processors is None or work.product is None:
        return flops + curve.half_flops
    return curve.processors * busiest_flops(work.product, curve.processors, curve.inner_ramp, curve.edge_ramp)


def _attention_flops(curve: EfficiencyCurve, work: Work, flops: float) -> float:
    """The same of attention's core: it lacks work where a query has few keys, or all processors few queries."""
    if curve.attention_half_keys is None or work.product is None:
        return flops + (curve.half_flops if curve.attention_half_flops is None else curve.attention_half_flops)
    shape = work.product
    keys = 1 + curve.attention_half_keys / shape.columns
    return flops * keys * (1 + curve.attention_half_queries / (shape.batch * shape.rows))
