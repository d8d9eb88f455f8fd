"""What every compute model must do."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.plan.toy import device
from xsim.families import members
from xsim.plan.contracts import ComputeModel, Pass
from xsim.plan.operator import PASSES, Bound, Product, ShardedOperator, Work

EACH = pytest.mark.parametrize("model", [pytest.param(cls(), id=name) for name, cls in members("compute")])

SIDES = ("batch", "rows", "columns", "inner")
BOUNDS: tuple[Bound, ...] = ("matmul", "attention", "memory")


def operator(bound: Bound, product: Product, moved_bytes: int) -> ShardedOperator:
    """One with the same work in all passes."""
    flops = 0 if bound == "memory" else 2 * product.batch * product.rows * product.columns * product.inner
    work = Work(flops, moved_bytes, product=None if bound == "memory" else product)
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
operators = st.builds(operator, st.sampled_from(BOUNDS), products, st.integers(1, 10**11))


@EACH
@given(work=operators, pass_=st.sampled_from(PASSES))
def test_time_is_a_positive_integer_and_repeats(model: ComputeModel, work: ShardedOperator, pass_: Pass) -> None:
    first = model.time_ps(device(), work, pass_)

    assert isinstance(first, int)
    assert first > 0
    assert pickle.loads(pickle.dumps(model)).time_ps(device(), work, pass_) == first


@EACH
@given(work=operators, times=st.integers(1, 50), pass_=st.sampled_from(PASSES))
def test_a_faster_device_is_not_slower(model: ComputeModel, work: ShardedOperator, times: int, pass_: Pass) -> None:
    assert model.time_ps(device(tflops=100.0 * times), work, pass_) <= model.time_ps(device(), work, pass_)


@EACH
@given(work=operators, more=operators, pass_=st.sampled_from(PASSES))
def test_more_work_is_not_faster(
    model: ComputeModel, work: ShardedOperator, more: ShardedOperator, pass_: Pass
) -> None:
    first, second = work.work(pass_).product, more.work(pass_).product
    assume(first is not None and second is not None)
    small, large = (
        operator(
            "matmul",
            Product(*(pick(getattr(first, name), getattr(second, name)) for name in SIDES)),
            pick(work.work(pass_).moved_bytes, more.work(pass_).moved_bytes),
        )
        for pick in (min, max)
    )

    assert model.time_ps(device(), small, pass_) <= model.time_ps(device(), large, pass_)


@EACH
@given(work=operators)
def test_a_pass_that_an_operator_does_not_have_takes_no_time(model: ComputeModel, work: ShardedOperator) -> None:
    assert model.time_ps(device(), replace(work, weight_gradient=None), "weight_gradient") == 0
