"""Devices that wait for their hosts: the time of launches where it is longer than the work, else none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.plan.toy import US, cluster, lowered, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import ComputeModel
from xsim.plan.dispatch import host_waits_ps
from xsim.plan.operator import Pass, Place, ShardedOperator
from xsim.plan.workload import Body, Collect, Compute
from xsim.spec.cluster import DeviceSpec
from xsim.spec.deployment import Recompute
from xsim.spec.scenario import Scenario

FORWARD, BACKWARD = 10, 14  # kernels of a layer with fused attention: its four products have two each back
EMBEDDING = 2


def question(launch_ps: int, tp: int = 1, *, again: bool = False, overlap: bool = False) -> Scenario:
    """Two stages of two layers."""
    stages = [
        stage(tuple(range(s * tp, s * tp + tp)), layers=layers) for s, layers in enumerate((range(1, 3), range(3, 5)))
    ]
    if again:
        stages = [replace(s, recompute=(Recompute(operator="full", layers=s.layers[0]),)) for s in stages]
    asked = scenario(cluster(2 * tp), model(), replace(plan(tuple(stages)), tp_overlap=overlap))
    return replace(asked, launch_ps=launch_ps)


def found(asked: Scenario, network: str = "flow") -> Result:
    return run(Experiment(scenario=asked, network=build("network", {"name": network})))


def launch_ps(body: Body) -> int:
    return sum(step.durations_ps[0] for step in body.steps if isinstance(step, Compute) and step.kind == "launch")


def device_ps(body: Body) -> int:
    steps = (step for step in body.steps if isinstance(step, Compute) and step.kind != "launch")
    return sum(step.durations_ps[0] for step in steps)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2000)), max_size=8), st.integers(1, 100), st.integers(0, 20)
)
def test_nothing_ends_before_it_is_launched_nor_waits_longer(
    layers: list[tuple[int, int]], launch: int, more: int
) -> None:
    """The closed form: what is last held up by its launch is followed by work alone."""
    launches, works = [n for n, _ in layers], [work for _, work in layers]

    waits = list(host_waits_ps(launches, works, launch))

    total = sum(works) + sum(waits)
    assert total == max(
        [sum(works)] + [sum(launches[: k + 1]) * launch + sum(works[k + 1 :]) for k in range(len(works))]
    )
    assert min(waits, default=0) >= 0
    assert sum(works) + sum(host_waits_ps(launches, works, launch + more)) >= total


def test_an_action_of_short_kernels_takes_the_time_of_its_launches() -> None:
    """A device of these sizes takes less than a microsecond for anything."""
    plain, late = (lowered(question(launch)).programs[0] for launch in (0, 100 * US))

    for key, layers in (("F", 2 * FORWARD + EMBEDDING), ("B", 2 * BACKWARD + EMBEDDING)):
        body = late.bodies[key, 0]
        assert device_ps(body) == device_ps(plain.bodies[key, 0])
        assert abs(launch_ps(body) + device_ps(body) - layers * 100 * US) < 2 * device_ps(body)


def test_what_is_computed_again_is_launched_again() -> None:
    once, again = (lowered(question(100 * US, again=how)).programs[0].bodies["B", 0] for how in (False, True))

    more = launch_ps(again) + device_ps(again) - launch_ps(once) - device_ps(once)
    assert more == pytest.approx(2 * FORWARD * 100 * US, rel=0.01)


@pytest.mark.parametrize("overlap", [False, True])
def test_collectives_are_launched_too_and_their_time_hides_launches(overlap: bool) -> None:
    alone, two = (lowered(question(100 * US, tp=tp, overlap=overlap)).programs[0].bodies["F", 0] for tp in (1, 2))

    collectives = sum(isinstance(step, Collect) for step in two.steps)
    assert collectives == 5
    assert launch_ps(two) - launch_ps(alone) == pytest.approx(collectives * 100 * US, rel=0.01)
    priced = found(question(100 * US, tp=2, overlap=overlap)).workload.programs[0].bodies["F", 0]
    assert launch_ps(priced) < launch_ps(two)


@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_an_iteration_accounts_for_the_waits(network: str) -> None:
    plain, late = (found(question(launch, tp=2), network) for launch in (0, 50 * US))

    check_account(late.workload, late.timeline)
    column = late.account.operators.index("launch")
    waited = late.account.operators_ps[:, column]
    assert (waited > 0).all()
    assert not plain.account.operators_ps[:, column].any()
    own = late.account.cause_ps("compute") - plain.account.cause_ps("compute")
    assert np.array_equal(own, waited)
    assert late.timeline.makespan_ps > plain.timeline.makespan_ps
    assert late.metrics.row()["launch_time_s"] == waited.mean() / 1e12


def test_an_update_is_no_shorter_than_its_launches() -> None:
    """Cast, norm, clipping, step and cast."""
    body = lowered(question(300 * US)).programs[0].bodies["U", 0]

    assert [step.durations_ps for step in body.steps if isinstance(step, Compute)] == [(5 * 300 * US,)]


def test_short_launches_change_nothing() -> None:
    assert found(question(1)).timeline.makespan_ps == found(question(0)).timeline.makespan_ps


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(SpecError, match=r"^launch_ps = -1"):
        question(-1)


@dataclass(frozen=True, slots=True)
class Whole:
    """Times of layers that hold their collectives."""

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        return Roofline().time_ps(device, operator, pass_)

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        return True


def test_collectives_that_measured_times_hold_are_waited_for_once() -> None:
    """Where launches take longer than all work, an iteration takes them, whatever the work holds."""
    computes: tuple[ComputeModel, ...] = (Roofline(), Whole())
    network = build("network", {"name": "analytic"})
    asked = question(1000 * US, tp=2)

    times = {
        run(Experiment(scenario=asked, compute=compute, network=network)).timeline.makespan_ps for compute in computes
    }

    assert len(times) == 1
