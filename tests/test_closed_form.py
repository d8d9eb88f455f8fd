"""The closed form is near what is simulated where it knows all that happens, and refuses what it does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

import xsim.closed_form
from tests.examples import load
from xsim.closed_form import UNKNOWN, ClosedForm
from xsim.errors import SpecError
from xsim.experiment import Experiment, planned, run, site_of
from xsim.families import build
from xsim.spec.cluster import ClusterSpec
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

NEAR = 0.02
SHARED_NICS = 0.05  # hand-overs that meet on a NIC wait for each other, and delay little


def experiment(cluster: str, hosts: int, model: str, batch: int, **options: object) -> Experiment:
    """With the uniform planner and these options of it, on some hosts of a cluster of equal ones."""
    whole = load(ClusterSpec, cluster)
    some = replace(whole, hosts=(replace(whole.hosts[0], count=hosts),))
    scenario = Scenario(cluster=some, model=load(ModelSpec, model), batch=batch)
    return Experiment(scenario=scenario, planner=build("planner", {"name": "uniform", **options}), memory="report")


def difference(asked: Experiment) -> float:
    """Of the closed form from the simulation."""
    found = run(asked)
    return ClosedForm(asked).price(found.deployment).iteration_ps / found.timeline.makespan_ps - 1


@pytest.mark.parametrize(
    ("hosts", "model", "batch", "tp", "pp", "micro_batch", "sequence_parallel"),
    [
        (2, "llama2_7b", 64, 1, 1, 1, False),
        (2, "llama2_7b", 64, 1, 8, 2, False),
        (2, "llama2_7b", 64, 2, 4, 1, True),
        (2, "llama2_7b", 64, 8, 1, 2, True),
        (4, "llama2_13b", 128, 2, 2, 1, False),
        (4, "llama2_13b", 128, 4, 8, 2, True),
        (8, "llama2_70b", 128, 8, 4, 1, False),
        (8, "llama2_70b", 128, 2, 8, 1, True),
    ],
)
def test_it_is_near_the_simulation(
    hosts: int, model: str, batch: int, tp: int, pp: int, micro_batch: int, sequence_parallel: bool
) -> None:
    options = {"tp": tp, "pp": pp, "micro_batch": micro_batch, "sequence_parallel": sequence_parallel}

    off = difference(experiment("h100_16x8", hosts, model, batch, **options))

    assert 0 < off < NEAR


@pytest.mark.parametrize(
    ("hosts", "tp", "pp"), [(2, 1, 1), (2, 2, 1), (2, 4, 1), (4, 4, 1), (4, 2, 2), (2, 2, 8), (2, 4, 2), (2, 8, 2)]
)
def test_where_devices_share_nics_it_is_less_near(hosts: int, tp: int, pp: int) -> None:
    """Two devices share a NIC: rings of two tensor ranks leave a host by one of four, those of four by two."""
    assert 0 < difference(experiment("aws_p4d", hosts, "gpt3_6_7b", 64, tp=tp, pp=pp)) < SHARED_NICS


def test_what_it_has_found_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = experiment("h100_16x8", 2, "llama2_7b", 64, tp=4, pp=2)
    deployment = planned(asked).deployment
    closed = ClosedForm(asked)
    first = closed.price(deployment)

    monkeypatch.setattr(xsim.closed_form, "site_of", lambda _: pytest.fail("there is a site"))
    assert closed.price(deployment) == first

    fewer = replace(asked, scenario=replace(asked.scenario, batch=32))
    assert ClosedForm(fewer)._tables == {}
    monkeypatch.setattr(xsim.closed_form, "site_of", site_of)
    assert ClosedForm(fewer).price(planned(fewer).deployment).iteration_ps < first.iteration_ps


@pytest.mark.parametrize("name", UNKNOWN)
def test_it_says_what_it_does_not_know(name: str) -> None:
    asked = experiment("h100_16x8", 2, "llama2_7b", 64, tp=4, pp=2, **{name: 1 if name == "zero" else True})

    with pytest.raises(SpecError, match=rf"^deployment.{name} = (1|True): the closed form does not know it; leave"):
        ClosedForm(asked).price(planned(asked).deployment)


def test_it_prices_no_deployment_of_another_scenario() -> None:
    asked = experiment("h100_16x8", 2, "llama2_7b", 64, tp=4, pp=2)
    other = replace(asked, scenario=replace(asked.scenario, batch=32))

    with pytest.raises(SpecError, match="32"):
        ClosedForm(asked).price(planned(other).deployment)


def test_virtual_stages_have_no_closed_form() -> None:
    schedule = build("schedule", {"name": "interleaved"})
    asked = replace(experiment("h100_16x8", 2, "llama2_7b", 64, tp=4, pp=2, chunks=2), schedule=schedule)

    with pytest.raises(SpecError, match="virtual stages"):
        ClosedForm(asked).price(planned(asked).deployment)
