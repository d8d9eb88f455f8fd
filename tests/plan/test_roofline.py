from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.plan.toy import US, device
from xsim.plan.compute.roofline import Roofline
from xsim.plan.operator import Pass, ShardedOperator, Work
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve
from xsim.spec.codec import from_plain

CURVE = EfficiencyCurve(
    matmul=0.8, attention=0.4, memory=0.5, half_flops=1e9, attention_half_flops=3e9, overhead_ps=2 * US
)
CURVED = replace(device(tflops=100), efficiency=CURVE)


def operator(
    bound: Literal["matmul", "attention", "memory"], flops: int = 0, moved_bytes: int = 0, dtype: str = "bf16"
) -> ShardedOperator:
    work = Work(flops, moved_bytes)
    return ShardedOperator(kind="mlp", name="x", bound=bound, dtype=dtype, forward=work, weight_gradient=work)


def time_us(spec: DeviceSpec, work: ShardedOperator, pass_: Pass) -> float:
    return Roofline().time_ps(spec, work, pass_) / US


def test_a_product_of_half_flops_runs_at_half_its_share_of_the_peak() -> None:
    assert time_us(CURVED, operator("matmul", flops=10**9), "forward") == pytest.approx(2 + 1e9 / 40e12 * 1e6)


def test_attention_has_a_curve_of_its_own() -> None:
    assert time_us(CURVED, operator("attention", flops=3 * 10**9), "forward") == pytest.approx(2 + 3e9 / 20e12 * 1e6)
    shared = replace(CURVED, efficiency=replace(CURVE, attention_half_flops=None))
    assert time_us(shared, operator("attention", flops=10**9), "forward") == pytest.approx(2 + 1e9 / 20e12 * 1e6)


def test_what_moves_more_than_it_computes_takes_as_long_as_its_bytes() -> None:
    thin = operator("matmul", flops=10**6, moved_bytes=10**9)

    assert time_us(CURVED, thin, "forward") == pytest.approx(2 + 1e9 / 500e9 * 1e6)
    assert time_us(CURVED, operator("memory", moved_bytes=10**9), "forward") == time_us(CURVED, thin, "forward")


def test_a_pass_costs_its_own_work_and_a_launch_for_each_kernel() -> None:
    once, twice = Work(10**12, 10**8), Work(2 * 10**12, 2 * 10**8, kernels=2)
    work = ShardedOperator(kind="mlp", name="x", bound="matmul", dtype="bf16", forward=once, input_gradient=twice)

    assert time_us(CURVED, work, "input_gradient") == 2 * time_us(CURVED, work, "forward")
    assert time_us(CURVED, work, "weight_gradient") == 0


def test_an_explicit_rate_replaces_peak_and_curve() -> None:
    """The paper's A100: 77.97 TFLOPS."""
    rated = replace(device(), rate_flops_per_s=77.97e12)

    assert time_us(rated, operator("matmul", flops=77_970_000), "forward") == pytest.approx(1.0)
    assert time_us(rated, operator("attention", flops=77_970_000), "forward") == pytest.approx(1.0)


def test_the_peak_is_that_of_the_dtype() -> None:
    assert time_us(device(), operator("matmul", 10**12, dtype="fp32"), "forward") == pytest.approx(
        2 * time_us(device(), operator("matmul", 10**12), "forward")
    )


def measured(folder: Path, group: str) -> Iterator[tuple[ShardedOperator, float]]:
    """Kernels and their time in picoseconds, as others measured them."""
    with (folder / "measured" / "kernels.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["group"] == group:
                work = product(row) if row["op"] == "gemm" else prefill(row)
                yield work, float(row["time_ms"]) * 1e9


def product(row: dict[str, str]) -> ShardedOperator:
    m, n, k = (int(row[name]) for name in "mnk")
    return operator("matmul", 2 * m * n * k, 2 * (m * k + k * n + m * n))


def prefill(row: dict[str, str]) -> ShardedOperator:
    """As the layers of a model count it: causal, half of the scores."""
    batch, seq, heads, kv_heads, width = (int(row[n]) for n in ("batch", "seq", "heads", "kv_heads", "head_dim"))
    return operator("attention", 2 * batch * seq**2 * heads * width, 4 * batch * seq * width * (heads + kv_heads))


@pytest.mark.parametrize(
    ("name", "group", "most"),
    [
        ("a100_80", "aic_gemm_a100_sxm", 0.05),
        ("h100_80", "aic_gemm_h100_sxm", 0.035),
        ("h200", "aic_gemm_h200_sxm", 0.035),
        ("b200", "aic_gemm_b200_sxm", 0.04),
        ("a100_80", "aic_attn_a100_sxm", 0.07),
        ("h100_80", "aic_attn_h100_sxm", 0.12),
        ("h200", "aic_attn_h200_sxm", 0.12),
        ("b200", "aic_attn_b200_sxm", 0.14),
    ],
)
def test_the_library_meets_the_kernels_it_was_fitted_to(
    reference_data: Path, name: str, group: str, most: float
) -> None:
    spec = from_plain(DeviceSpec, name)

    errors = [abs(Roofline().time_ps(spec, work, "forward") / ps - 1) for work, ps in measured(reference_data, group)]

    assert len(errors) > 300
    assert statistics.median(errors) < most
