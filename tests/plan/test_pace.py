"""The clock of a device: what is bound by arithmetic follows it, what is bound by memory does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.test_compute import EACH, operators
from tests.examples import SMALL
from tests.plan.toy import device
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.plan.contracts import ComputeModel, ShardedOperator
from xsim.plan.operator import PASSES, Pass
from xsim.plan.pace import paced_ps
from xsim.spec.cluster import DeviceSlot
from xsim.spec.codec import from_plain
from xsim.spec.device import DeviceSpec
from xsim.spec.scenario import Scenario


@EACH
@given(work=operators, pass_=st.sampled_from(PASSES), speed=st.floats(0.01, 10))
def test_products_follow_the_clock_and_what_moves_bytes_does_not(
    model: ComputeModel, work: ShardedOperator, pass_: Pass, speed: float
) -> None:
    nominal_ps = model.time_ps(device(), work, pass_)
    paced = paced_ps(model, replace(device(), speed=speed), work, pass_)

    if work.bound in {"memory", "norm"}:
        assert paced == nominal_ps
    else:
        assert paced == max(1, round(nominal_ps / speed))
    assert paced_ps(model, device(), work, pass_) == nominal_ps


def throttled(speed: float) -> Scenario:
    """``SMALL`` with all devices of its first kind of hosts at this speed."""
    first, *others = SMALL.cluster.hosts
    slots = tuple(replace(slot, device=replace(slot.device, speed=speed)) for slot in first.devices)
    return replace(SMALL, cluster=replace(SMALL.cluster, hosts=(replace(first, devices=slots), *others)))


def test_a_throttled_host_makes_the_iteration_longer() -> None:
    nominal, slow = (run(Experiment(scenario=throttled(speed), memory="report")).metrics for speed in (1.0, 0.5))

    assert slow.training_time_s > nominal.training_time_s
    assert slow.compute_time_s > nominal.compute_time_s
    assert slow.optimizer_time_max_s == nominal.optimizer_time_max_s


def test_a_file_says_how_fast_a_device_is() -> None:
    found = from_plain(DeviceSpec, {"library": "h100_80", "speed": 0.8}, "device")

    assert found == replace(from_plain(DeviceSpec, "h100_80", "device"), speed=0.8)
    with pytest.raises(SpecError, match=r"device\.speed = 0\.0: it is not within 0\.01 and 10; check the number"):
        from_plain(DeviceSpec, {"library": "h100_80", "speed": 0.0}, "device")


def test_an_explicit_rate_is_that_under_load() -> None:
    """The library's clock under load slows the peak, not a rate that somebody has written."""
    slot = from_plain(DeviceSlot, {"device": "h100_80", "count": 1, "rate": "204.9 TFLOPS"})
    spelled = from_plain(DeviceSpec, {"library": "h100_80", "rate": "204.9 TFLOPS"})
    slower = from_plain(DeviceSpec, {"library": "h100_80", "rate": "204.9 TFLOPS", "speed": 0.5})

    assert from_plain(DeviceSpec, "h100_80").speed < 1
    assert slot.rated_device.speed == spelled.speed == 1
    assert slower.speed == 0.5
