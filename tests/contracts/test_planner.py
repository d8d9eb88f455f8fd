"""What every planner must do."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from tests.plan.search.small import PlanningSite
from tests.plan.toy import cluster, device, model, plan, stage
from xsim.errors import SpecError
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.families import members
from xsim.plan.contracts import Planner
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment

EACH = pytest.mark.parametrize("planner", [pytest.param(cls(), id=name) for name, cls in members("planner")])

UNLIKE = Scenario(
    cluster=cluster(4, 4, devices=(device("fast", 200.0), device("slow", 50.0))),
    model=model(),
    batch=8,
    deployment=plan(
        (stage((0, 1, 2, 3), layers=range(1, 4)), stage((4, 5, 6, 7), layers=range(4, 5))), micro_batches=8
    ),
)
SITE = PlanningSite(OneSwitch().build(UNLIKE.cluster), UNLIKE.dtype_bytes)


@EACH
def test_the_plan_fits_cluster_model_and_batch(planner: Planner) -> None:
    found = planner.plan(UNLIKE, SITE)

    assert isinstance(found, DeploymentPlan)
    check_deployment(found, UNLIKE)


@EACH
def test_the_same_question_has_the_same_answer(planner: Planner) -> None:
    assert pickle.loads(pickle.dumps(planner)).plan(UNLIKE, SITE) == planner.plan(UNLIKE, SITE)


@EACH
def test_without_an_answer_it_says_why(planner: Planner) -> None:
    """Three samples cannot be dealt out evenly to seven devices, and no deployment is given."""
    odd = replace(UNLIKE, deployment=None, batch=3, cluster=cluster(4, 3))
    site = replace(SITE, fabric=OneSwitch().build(odd.cluster))
    try:
        found = planner.plan(odd, site)
    except SpecError:
        return
    check_deployment(found, odd)
