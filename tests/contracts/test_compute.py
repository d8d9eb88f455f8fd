"""What every compute model must do."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import device
from xsim.families import members
from xsim.plan.contracts import ComputeModel, Pass
from xsim.plan.operator import PASSES, Bound, Product, ShardedOperator, Work
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve

EACH = pytest.mark.parametrize("model", [pytest.param(cls(), id=name) for name, cls in members("compute")])

SIDES = ("batch", "rows", "columns", "inner")
BOUNDS: tuple[Bound, ...] = ("matmul", "attention", "memory", "norm")
COMPUTING: tuple[Bound, ...] = BOUNDS[:2]
SHAPED = EfficiencyCurve(
    matmul=0.8,
    attention=0.5,
    memory=0.8,
    overhead_ps=1000,
    processors=108,
    inner_ramp=200.0,
    edge_ramp=13.0,
    attention_half_keys=500.0,
    attention_half_queries=14_000.0,
    attention_backward=0.4,
    norm=0.4,
)


def operator(bound: Bound, product: Product, moved_bytes: int) -> ShardedOperator:
    """One with the same work in all passes."""
    flops = 0 if bound not in COMPUTING else 2 * product.batch * product.rows * product.columns * product.inner
    work = Work(flops, moved_bytes, product=product if bound in COMPUTING else None)
    return ShardedOperator(
        kind="mlp",
        name="up",
        bound=bound,
        dtype="bf16",
        forward=work,
        input_gradient=work,
        weight_gradient=work,
        update=work,
    )


products = st.builds(Product, *[st.integers(1, 64)] + [st.integers(1, 20_000)] * 3)
curves = st.sampled_from([device().efficiency, SHAPED])
sizes = st.integers(1, 10**11)
shapes = st.tuples(products, sizes)
operators = st.builds(operator, st.sampled_from(BOUNDS), products, sizes)


def curved(curve: EfficiencyCurve, tflops: float = 100.0) -> DeviceSpec:
    return replace(device(tflops=tflops), efficiency=curve)


@EACH
@given(work=operators, pass_=st.sampled_from(PASSES), curve=curves)
def test_time_is_a_positive_integer_and_repeats(
    model: ComputeModel, work: ShardedOperator, pass_: Pass, curve: EfficiencyCurve
) -> None:
    first = model.time_ps(curved(curve), work, pass_)

    assert isinstance(first, int)
    assert first > 0
    assert pickle.loads(pickle.dumps(model)).time_ps(curved(curve), work, pass_) == first


@EACH
@given(work=operators, times=st.integers(1, 50), pass_=st.sampled_from(PASSES), curve=curves)
def test_a_faster_device_is_not_slower(
    model: ComputeModel, work: ShardedOperator, times: int, pass_: Pass, curve: EfficiencyCurve
) -> None:
    fast = model.time_ps(curved(curve, 100.0 * times), work, pass_)

    assert fast <= model.time_ps(curved(curve), work, pass_)


@EACH
@given(first=shapes, second=shapes, pass_=st.sampled_from(PASSES), bound=st.sampled_from(COMPUTING), curve=curves)
def test_more_work_is_not_faster(
    model: ComputeModel,
    first: tuple[Product, int],
    second: tuple[Product, int],
    pass_: Pass,
    bound: Bound,
    curve: EfficiencyCurve,
) -> None:
    small, large = (
        operator(
            bound,
            Product(*(pick(getattr(first[0], name), getattr(second[0], name)) for name in SIDES)),
            pick(first[1], second[1]),
        )
        for pick in (min, max)
    )

    assert model.time_ps(curved(curve), small, pass_) <= model.time_ps(curved(curve), large, pass_) + 1  # rounded


@EACH
@given(work=operators)
def test_a_pass_that_an_operator_does_not_have_takes_no_time(model: ComputeModel, work: ShardedOperator) -> None:
    assert model.time_ps(device(), replace(work, weight_gradient=None), "weight_gradient") == 0
