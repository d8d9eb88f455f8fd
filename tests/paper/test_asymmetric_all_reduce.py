"""ETH (arxiv.org/abs/2610.22035), Figure 5: devices 0 and 1 hold 30 elements each, devices 2 and 3 half of them."""

from __future__ import annotations

import pytest

from tests.examples import TINY
from tests.plan.toy import cluster
from tests.strategies import SITE
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.comm import Collective, Zeros
from xsim.plan.layout import Layout
from xsim.plan.reshard.best import Best
from xsim.plan.reshard.blockwise import Blockwise
from xsim.plan.reshard.devicewise import Devicewise
from xsim.plan.reshard.tensorwise import Tensorwise
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.scenario import Scenario

FIGURE_5 = (Layout.even((0,), 30), Layout.even((1,), 30), Layout.even((2, 3), 30))
THREE_AND_TWO = (Layout.even((0, 1, 2), 12), Layout.even((3, 4), 12))


def test_device_wise_pads_the_missing_half_and_sums_all_thirty() -> None:
    plan = Devicewise().reduce(FIGURE_5, SITE)

    assert plan.steps == (Collective("all_reduce", (0, 1, 2, 3), range(30)),)
    assert plan.zeros == (Zeros(2, range(15, 30)), Zeros(3, range(15)))


def test_block_wise_sums_halves_among_three() -> None:
    assert Blockwise().reduce(FIGURE_5, SITE).steps == (
        Collective("all_reduce", (0, 1, 2), range(15)),
        Collective("all_reduce", (0, 1, 3), range(15, 30), after=(0,)),
    )


def test_tensor_wise_sums_the_same_in_a_call_per_operator_shard() -> None:
    steps = Tensorwise(calls=3).reduce(FIGURE_5, SITE).steps

    assert sorted((step.span.start, step.span.stop) for step in steps) == [(5 * i, 5 * i + 5) for i in range(6)]
    assert {step.after for step in steps} == {(), *((i,) for i in range(5))}


@pytest.mark.parametrize(("layers", "calls"), [(0, 1), (1, 3), (4, 12)])
def test_tensor_wise_calls_per_layer_and_block(layers: int, calls: int) -> None:
    layouts = [Layout.even(layout.ranks, 60, layers=layers) for layout in FIGURE_5]
    steps = Tensorwise(calls=3).reduce(layouts, SITE).steps

    assert len(steps) == 2 * calls


@pytest.mark.parametrize("member", [Blockwise(), Tensorwise()])
def test_degrees_that_do_not_divide_fall_to_cut_points_and_the_plan_says_so(member: Blockwise | Tensorwise) -> None:
    assert member.reduce(THREE_AND_TWO, SITE).strategy == "cut_points"
    assert member.reduce(FIGURE_5, SITE).strategy == ""
    assert Best(among=("blockwise",)).reduce(THREE_AND_TWO, SITE).strategy == "blockwise, cut_points"


def test_the_result_says_so_too() -> None:
    groups = ((0, 1, 2), (3, 4))
    replicas = [
        Replica(stages=(Stage(groups=(DeviceGroup(ranks=g, samples=1),), layers=(range(1, 5),)),), **ONCE)
        for g in groups
    ]
    plan = DeploymentPlan(replicas=tuple(replicas))
    asked = Scenario(cluster=cluster(5), model=TINY, batch=2, deployment=plan)

    result = run(Experiment(scenario=asked, reshard=build("reshard", {"name": "blockwise"}), memory="report"))

    assert {sync.strategy for sync in result.workload.syncs} == {"cut_points"}


ONCE = {"micro_batch": 1, "micro_batches": 1}


def test_they_can_be_refused() -> None:
    with pytest.raises(SpecError, match="groups of 3, 2 ranks are synchronised, whose shards are not whole blocks"):
        Blockwise(indivisible="refuse").reduce(THREE_AND_TWO, SITE)
