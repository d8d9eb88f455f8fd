"""What a row measured, in one unit: seconds of a step, and bytes of the device that needs most."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runners.published.rows import Row
from runners.published.sources import Flops
from xsim.spec.codec import from_plain
from xsim.spec.model import ModelSpec

__all__ = ["flops_per_sample", "measured_bytes", "measured_s"]

GIB = 2**30
ALLOCATED = re.compile(r"real alloc GiB=([0-9.]+)")
RECOMPUTED = 4 / 3  # forward, backward of twice its work, and the forward again, over the first two


def measured_s(row: Row, model: Mapping[str, object], flops: Flops) -> float | None:
    """Of a step: as stated, or else from tokens or FLOP/s of each device; absent if the row has none of them."""
    if "step_time_s" in row.floats:
        return row.floats["step_time_s"]
    ranks, batch = row.whole["num_gpus"], row.whole["gbs"]
    spec = from_plain(ModelSpec, model, "model")
    if "tokens_per_s_per_gpu" in row.floats:
        return spec.seq_len * batch / (row.floats["tokens_per_s_per_gpu"] * ranks)
    if "tflops_per_gpu" in row.floats:
        return batch * flops_per_sample(spec, flops) / (row.floats["tflops_per_gpu"] * 1e12 * ranks)
    return None


def flops_per_sample(model: ModelSpec, flops: Flops) -> float:
    """What a source counts for one sample; with recomputation the layers count 4/3 times, the head once.

    For layers of 12 hidden^2 weights that is 72 or 96 B s l h^2 (1 + s / 6h + V / 12lh or V / 16lh), equation 3 of
    https://arxiv.org/abs/2104.04473.
    """
    head = 6 * model.seq_len * model.vocab * model.hidden
    return RECOMPUTED * (model.flops_per_sample - head) + head if flops == "recomputed" else model.flops_per_sample


def measured_bytes(row: Row) -> int | None:
    """Largest need of any device: a column of its own, or in the notes."""
    if "max_mem_bytes" in row.floats:
        return int(row.floats["max_mem_bytes"])
    found = ALLOCATED.search(row.texts["notes"])
    return round(float(found[1]) * GIB) if found else None
