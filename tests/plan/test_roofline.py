from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.plan.toy import US, device
from xsim.plan.compute.roofline import Roofline
from xsim.plan.operators import ShardedOperator
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve

CURVE = EfficiencyCurve(
    matmul=0.8, attention=0.4, memory=0.5, half_flops=1e9, attention_half_flops=3e9, overhead_ps=2 * US
)
CURVED = replace(device(tflops=100), efficiency=CURVE)


def operator(
    bound: Literal["matmul", "attention", "memory"], flops: int = 0, moved_bytes: int = 0, dtype: str = "bf16"
) -> ShardedOperator:
    return ShardedOperator(kind="mlp", name="x", flops=flops, moved_bytes=moved_bytes, bound=bound, dtype=dtype)


def time_us(spec: DeviceSpec, work: ShardedOperator, pass_: Literal["forward", "backward", "update"]) -> float:
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


def test_backward_is_twice_forward_and_an_update_once() -> None:
    work = operator("matmul", flops=10**12, moved_bytes=10**8)

    assert time_us(CURVED, work, "backward") == 2 * time_us(CURVED, work, "forward")
    assert time_us(CURVED, work, "update") == time_us(CURVED, work, "forward")


def test_an_explicit_rate_replaces_peak_and_curve() -> None:
    """The paper's A100: 77.97 TFLOPS."""
    rated = replace(device(), rate_flops_per_s=77.97e12)

    assert time_us(rated, operator("matmul", flops=77_970_000), "forward") == pytest.approx(1.0)
    assert time_us(rated, operator("attention", flops=77_970_000), "forward") == pytest.approx(1.0)


def test_the_peak_is_that_of_the_dtype() -> None:
    assert time_us(device(), operator("matmul", 10**12, dtype="fp32"), "forward") == pytest.approx(
        2 * time_us(device(), operator("matmul", 10**12), "forward")
    )
