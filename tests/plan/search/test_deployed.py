"""Plans with groups over contexts or experts: what they are priced at, and that they are searched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.search.small import question
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.plan.planner.metis import Metis
from xsim.plan.planner.uniform import Uniform
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search.deployed import Deployed
from xsim.plan.search.price import price
from xsim.plan.search.tables import tables
from xsim.plan.sketch import sketch_of
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment

DENSE = question(("fast", 4), ("fast", 4), layers=4, batch=8)
MIXTURE = replace(DENSE, batch=64, model=replace(DENSE.model, experts=4, experts_per_token=2, bias=False))
LONG = replace(DENSE, model=replace(DENSE.model, seq_len=16384), batch=2)


def whole(planner: Uniform, asked: Scenario) -> DeploymentPlan:
    return check_deployment(planner.plan(asked, site_of(asked)), asked)


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 2), (4, 2), (1, 4)])
def test_without_such_groups_it_is_the_price_of_the_plan_in_kinds(tp: int, pp: int) -> None:
    plan, site = whole(Uniform(tp=tp, pp=pp), DENSE), site_of(DENSE)

    found = Deployed(DENSE, site).price_ps(plan)

    priced = price(sketch_of(plan, DENSE), tables(DENSE, site)).iteration_ps
    assert found == pytest.approx(priced, rel=0.15)  # there sums go at the rates of ports, here by the strategy


@pytest.mark.parametrize(
    ("asked", "planner"),
    [
        (MIXTURE, Uniform(tp=1, ep=4)),
        (MIXTURE, Uniform(tp=2, ep=2, pp=2, sequence_parallel=True)),
        (LONG, Uniform(tp=1, cp=4)),
        (LONG, Uniform(tp=2, cp=2, pp=2)),
    ],
)
def test_it_is_about_what_the_simulation_says(asked: Scenario, planner: Uniform) -> None:
    plan, site = whole(planner, asked), site_of(asked)

    assert Deployed(asked, site).price_ps(plan) == pytest.approx(site.simulate(plan).training_time_ps, rel=0.15)


def test_every_stage_recomputes() -> None:
    """Also those that do not hold the first layer."""
    asked = replace(LONG, batch=4)
    plan, site = whole(Uniform(tp=1, cp=2, pp=4, recompute="full"), asked), site_of(asked)

    assert Deployed(asked, site).price_ps(plan) == pytest.approx(site.simulate(plan).training_time_ps, rel=0.02)


@pytest.mark.parametrize(("asked", "name"), [(MIXTURE, "ep"), (LONG, "cp")])
def test_a_search_finds_the_degree(asked: Scenario, name: str) -> None:
    site = site_of(asked)
    whole_time, cut_time = (
        site.simulate(whole(Uniform(search=True, **{name: degree}), asked)).training_time_ps  # type: ignore[arg-type]
        for degree in (1, 0)
    )
    fixed = whole(Uniform(search=True, **{name: 2}), asked)  # type: ignore[arg-type]

    assert cut_time <= whole_time
    assert {
        getattr(stage if name == "ep" else stage.groups[0], name) for r in fixed.replicas for stage in r.stages
    } == {2}


def test_what_no_group_can_be_cut_into_is_refused() -> None:
    with pytest.raises(SpecError, match=r"ep = 2: the model has no experts"):
        whole(Uniform(search=True, ep=2), DENSE)
    with pytest.raises(SpecError, match=r"ep = 0"):
        Uniform(ep=0)


def test_tensor_ranks_of_mixtures_have_parts_of_the_sequence() -> None:
    found = check_deployment(Metis().plan(MIXTURE, site_of(MIXTURE)), MIXTURE)

    assert all(stage.sequence_parallel for r in found.replicas for stage in r.stages if stage.groups[0].tp > 1)


def test_our_own_search_has_them_compete() -> None:
    """Two sequences on eight devices: whoever cuts no sequence has at most two pipelines, or long stages in a row."""
    site = site_of(LONG, "flow")
    own, alone = (site.simulate(Xsim(others=others).plan(LONG, site)) for others in (("uniform",), ()))

    assert own.training_time_ps <= alone.training_time_ps
