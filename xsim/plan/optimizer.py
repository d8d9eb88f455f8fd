"""What the update of the weights reads, writes and keeps: operator by operator, as Megatron-LM runs them.

See megatron/core/optimizer/optimizer.py and clip_grads.py of https://github.com/NVIDIA/Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsim.plan.operator import FP32_BYTES, ShardedOperator, Work
from xsim.spec.scenario import DTYPE_BYTES, Scenario

__all__ = ["optimizer_operators", "optimizer_state_bytes"]


def optimizer_operators(parameters: int, scenario: Scenario) -> Iterator[ShardedOperator]:
    """One update of ``parameters`` weights.

    Gradients become fp32 where they are not, their norm is taken, they are clipped; the step reads them, reads and
    writes the state, and an fp32 master copy is cast to the weights.
    """
    own, gradient = scenario.dtype_bytes, scenario.gradient_dtype_bytes
    state = optimizer_state_bytes(scenario.optimizer, scenario.precision)
    if gradient != FP32_BYTES:
        yield _updating("cast_gradients", parameters * (gradient + FP32_BYTES))
    yield _updating("gradient_norm", parameters * FP32_BYTES)
    yield _updating("clip", parameters * 2 * FP32_BYTES)
    weight = 2 * own if own == FP32_BYTES else 0  # an fp32 weight is its own master copy
    yield _updating(scenario.optimizer, parameters * (FP32_BYTES + 2 * state + weight))
    if own != FP32_BYTES:
        yield _updating("cast_weights", parameters * (FP32_BYTES + own))


def _updating(name: str, moved_bytes: int) -> ShardedOperator:
    return ShardedOperator(
        kind="optimizer", name=name, bound="memory", dtype="fp32", update=Work(flops=0, moved_bytes=moved_bytes)
    )


def optimizer_state_bytes(optimizer: str, precision: str) -> int:
    """Bytes per parameter: an fp32 master copy of 16-bit weights, and Adam's two fp32 moments."""
    master = 0 if DTYPE_BYTES[precision] == FP32_BYTES else FP32_BYTES
    return master + (2 * FP32_BYTES if optimizer == "adam" else 0)
