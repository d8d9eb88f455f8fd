"""What the update of the weights reads, writes and keeps."""

from __future__ import annotations

from xsim.plan.operators import FP32_BYTES, ShardedOperator
from xsim.spec.scenario import DTYPE_BYTES

__all__ = ["optimizer_operator", "optimizer_state_bytes"]


def optimizer_operator(parameters: int, optimizer: str, precision: str) -> ShardedOperator:
    """One update of ``parameters`` weights: read the gradient, read and write the state, write the weight."""
    own, state = DTYPE_BYTES[precision], optimizer_state_bytes(optimizer, precision)
    weight = 2 * own if own == FP32_BYTES else own  # an fp32 weight is its own master copy, and read too
    return ShardedOperator(
        kind="optimizer",
        name=optimizer,
        flops=0,
        moved_bytes=parameters * (own + 2 * state + weight),
        bound="memory",
        dtype=precision,
    )


def optimizer_state_bytes(optimizer: str, precision: str) -> int:
    """Bytes per parameter: an fp32 master copy of 16-bit weights, and Adam's two fp32 moments."""
    master = 0 if DTYPE_BYTES[precision] == FP32_BYTES else FP32_BYTES
    return master + (2 * FP32_BYTES if optimizer == "adam" else 0)
