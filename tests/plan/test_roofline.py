from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.plan.toy import US, device
from xsim.plan.compute.roofline import Roofline
from xsim.plan.operator import Bound, Pass, Product, ShardedOperator, Work
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve

CURVE = EfficiencyCurve(
    matmul=0.8, attention=0.4, memory=0.5, half_flops=1e9, attention_half_flops=3e9, overhead_ps=2 * US
)
CURVED = replace(device(tflops=100), efficiency=CURVE)


def operator(bound: Bound, flops: int = 0, moved_bytes: int = 0, dtype: str = "bf16") -> ShardedOperator:
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


SHAPED = replace(CURVED, efficiency=replace(CURVE, processors=100, inner_ramp=100.0, norm=0.25))


def shaped(bound: Literal["matmul", "attention"], product: Product, flops: int) -> ShardedOperator:
    work = Work(flops, 0, product=product)
    return ShardedOperator(
        kind="mlp", name="x", bound=bound, dtype="bf16", forward=work, input_gradient=work, weight_gradient=work
    )


def test_a_product_takes_whole_waves_of_tiles() -> None:
    """100 tiles of 256 x 128 keep 100 processors busy once, 101 twice; their inner side has the ramp besides."""
    one, more = (Product(1, 256 * tiles, 128, 900) for tiles in (100, 101))

    times = [time_us(SHAPED, shaped("matmul", each, 1), "forward") - 2 for each in (one, more)]

    assert times[0] == pytest.approx(2 * 256 * 128 * 1000 * 100 / 80e12 * 1e6)
    assert times[0] < times[1] <= 2 * times[0]


def test_small_products_are_cut_into_small_tiles_which_lose_at_their_edges() -> None:
    """Of 256 x 128: one tile would leave all processors but one idle, eight of 64 x 64 all but eight."""
    small = shaped("matmul", Product(1, 256, 128, 900), 1)
    lossy = replace(SHAPED, efficiency=replace(SHAPED.efficiency, edge_ramp=16.0))

    exact = time_us(SHAPED, small, "forward") - 2

    assert exact == pytest.approx(2 * 64 * 64 * 1000 * 100 / 80e12 * 1e6)
    assert time_us(lossy, small, "forward") - 2 == pytest.approx(exact * (1 + 16 * (1 / 64 + 1 / 64 - 3 / 256)))


def test_attention_lacks_work_with_few_keys_or_queries() -> None:
    halves = replace(CURVE, attention_half_keys=1000.0, attention_half_queries=8000.0)
    spec = replace(CURVED, efficiency=halves)

    half, quarter = (
        time_us(spec, shaped("attention", Product(4, 2000 * times, 1000, 128), 10**9), "forward") - 2
        for times in (1_000_000, 1)
    )

    assert half == pytest.approx(1e9 / 20e12 * 1e6, rel=1e-5)
    assert quarter == pytest.approx(2 * half, rel=1e-5)


def test_gradients_of_attention_and_norms_have_fractions_of_their_own() -> None:
    spec = replace(CURVED, efficiency=replace(SHAPED.efficiency, attention_backward=0.2))
    core = operator("attention", flops=10**9)

    assert time_us(spec, core, "weight_gradient") - 2 == pytest.approx(2 * (time_us(spec, core, "forward") - 2))
    assert time_us(spec, operator("norm", moved_bytes=10**9), "forward") == pytest.approx(2 + 1e9 / 250e9 * 1e6)
    assert time_us(CURVED, operator("norm", moved_bytes=10**9), "forward") == pytest.approx(2 + 1e9 / 500e9 * 1e6)
