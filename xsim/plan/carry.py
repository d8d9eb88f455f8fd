"""An efficiency curve carried from one device to another that nobody measured."""

from __future__ import annotations

from dataclasses import replace

from xsim.spec.cluster import DeviceSpec, EfficiencyCurve

__all__ = ["carried"]


def carried(source: DeviceSpec, target: DeviceSpec, dtype: str) -> EfficiencyCurve:
    """The curve of ``source``, as ``target`` would have it.

    The same fractions of the peaks are reached, so what computes goes by the ratio of FLOP/s and what moves bytes by
    that of bandwidths (HeteroSim). What does not get faster with the arithmetic keeps its time, not its FLOPs: the
    start of a row of attention on a processor. Waves and queries go by the number of processors.
    """
    own, processors = source.efficiency, target.efficiency.processors
    if own.processors is None or processors is None:
        return replace(own, half_flops=own.half_flops * target.peak(dtype) / source.peak(dtype), processors=None)
    more = processors / own.processors
    faster = target.peak(dtype) / source.peak(dtype) / more  # each processor
    return replace(
        own,
        processors=processors,
        attention_half_keys=None if own.attention_half_keys is None else own.attention_half_keys * faster,
        attention_half_queries=own.attention_half_queries * more,
    )
