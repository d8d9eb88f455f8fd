"""What every planner must do; those that search are found by that they need no deployment and no degrees."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from tests.plan.toy import cluster, device, model, plan, stage
from tests.planning import scenarios, site_of
from xsim.errors import SpecError
from xsim.families import build, members
from xsim.plan.contracts import Planner
from xsim.plan.memory import deployment_memory
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment

MEMBERS = dict(members("planner"))
TOLD = ("given", "repair")  # they begin with the deployment of the scenario
PROOFLESS = {"xsim": {"proof": 0}}  # to prove a plan best takes a minute
SEARCHING_BY = {"uniform": {"search": True}}  # what makes a planner search that otherwise takes what it is told


def _each(names: Iterable[str], **options: Mapping[str, object]) -> pytest.MarkDecorator:
    own = {name: {"name": name, **options.get(name, {})} for name in names}
    return pytest.mark.parametrize("planner", [pytest.param(build("planner", o), id=name) for name, o in own.items()])


EACH = _each(MEMBERS, **PROOFLESS)
SEARCHING = _each((name for name in MEMBERS if name not in TOLD), **PROOFLESS, **SEARCHING_BY)
SAMPLE = settings().max_examples if settings().max_examples > 100 else 4  # all in soak

UNLIKE = Scenario(
    cluster=cluster(4, 4, devices=(device("fast", 200.0), device("slow", 50.0))),
    model=model(),
    batch=8,
    deployment=plan(
        (stage((0, 1, 2, 3), layers=range(1, 4)), stage((4, 5, 6, 7), layers=range(4, 5))), micro_batches=8
    ),
)


@EACH
def test_the_plan_fits_cluster_model_and_batch(planner: Planner) -> None:
    found = planner.plan(UNLIKE, site_of(UNLIKE))

    assert isinstance(found, DeploymentPlan)
    check_deployment(found, UNLIKE)


@EACH
def test_the_same_question_has_the_same_answer(planner: Planner) -> None:
    again: Planner = pickle.loads(pickle.dumps(planner))
    assert again.plan(UNLIKE, site_of(UNLIKE)) == planner.plan(UNLIKE, site_of(UNLIKE))


@EACH
def test_without_an_answer_it_says_why(planner: Planner) -> None:
    """No device has memory for a layer, the default grid does not divide, and no deployment is given."""
    tiny = replace(UNLIKE.cluster.hosts[0].devices[0].device, memory_bytes=100_000)
    asked = replace(UNLIKE, deployment=None, batch=3, cluster=cluster(4, 3, devices=(tiny, tiny)))

    with pytest.raises(SpecError):
        planner.plan(asked, site_of(asked))


@SEARCHING
@settings(max_examples=SAMPLE)
@given(asked=scenarios())
def test_a_plan_that_is_found_can_be_trained(planner: Planner, asked: Scenario) -> None:
    """Every layer once, no rank twice, the whole batch, and all within memory; or else what is missing."""
    site = site_of(asked)
    try:
        found = planner.plan(asked, site)
    except SpecError as error:
        missing = str(error)
        assume(not re.search(r"\d GB|^batch", missing))
        raise

    whole = check_deployment(found, asked)

    assert deployment_memory(asked, whole, site.schedule.order).fits
    assert whole.samples == asked.batch
    ranks = [rank for _, group in whole.groups() for rank in group.ranks]
    assert len(set(ranks)) == len(ranks)
    for replica in whole.replicas:
        held = [layer for each in replica.stages for part in each.layers for layer in part]
        assert held == list(range(asked.model.layers + 2))


@SEARCHING
def test_what_no_device_can_hold_is_told_in_gigabytes(planner: Planner) -> None:
    small = device("small", 100.0, 0.05)
    asked = Scenario(
        cluster=cluster(2, 2, devices=(small, small)), model=model(hidden=1024, heads=16, ffn=4096), batch=8
    )

    with pytest.raises(SpecError, match=r"\d GB"):
        planner.plan(asked, site_of(asked))
