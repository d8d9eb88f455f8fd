"""What every compute model must do."""

from __future__ import annotations

import pickle
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import device
from xsim.families import members
from xsim.plan.contracts import ComputeModel, Pass
from xsim.plan.operators import ShardedOperator

EACH = pytest.mark.parametrize("model", [pytest.param(cls(), id=name) for name, cls in members("compute")])

BOUNDS: tuple[Literal["matmul", "attention", "memory"], ...] = ("matmul", "attention", "memory")
PASSES: tuple[Pass, ...] = ("forward", "backward", "update")


@st.composite
def operators(draw: st.DrawFn) -> ShardedOperator:
    bound = draw(st.sampled_from(BOUNDS))
    return ShardedOperator(
        kind="mlp",
        name="up",
        flops=0 if bound == "memory" else draw(st.integers(1, 10**15)),
        moved_bytes=draw(st.integers(1, 10**11)),
        bound=bound,
        dtype="bf16",
    )


@EACH
@given(work=operators(), pass_=st.sampled_from(PASSES))
def test_time_is_a_positive_integer_and_repeats(model: ComputeModel, work: ShardedOperator, pass_: Pass) -> None:
    first = model.time_ps(device(), work, pass_)

    assert isinstance(first, int)
    assert first > 0
    assert pickle.loads(pickle.dumps(model)).time_ps(device(), work, pass_) == first


@EACH
@given(work=operators(), times=st.integers(1, 50), pass_=st.sampled_from(PASSES))
def test_a_faster_device_is_not_slower(model: ComputeModel, work: ShardedOperator, times: int, pass_: Pass) -> None:
    assert model.time_ps(device(tflops=100.0 * times), work, pass_) <= model.time_ps(device(), work, pass_)


@EACH
@given(work=operators(), more=operators(), pass_=st.sampled_from(PASSES))
def test_more_work_is_not_faster(
    model: ComputeModel, work: ShardedOperator, more: ShardedOperator, pass_: Pass
) -> None:
    small, large = (
        ShardedOperator(
            kind="mlp",
            name="up",
            flops=pick(work.flops, more.flops),
            moved_bytes=pick(work.moved_bytes, more.moved_bytes),
            bound="matmul",
            dtype="bf16",
        )
        for pick in (min, max)
    )

    assert model.time_ps(device(), small, pass_) <= model.time_ps(device(), large, pass_)


@EACH
@given(work=operators())
def test_backward_is_not_shorter_than_forward(model: ComputeModel, work: ShardedOperator) -> None:
    assert model.time_ps(device(), work, "backward") >= model.time_ps(device(), work, "forward")
