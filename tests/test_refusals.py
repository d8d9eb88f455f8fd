"""What a run refuses is named as it was written: by the option of the planner, by its path, by its place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.examples import SMALL
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.spec.scenario import check_deployment


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("one_f_one_b", "planner.chunks = 2: one_f_one_b takes one chunk per stage, one range of layers; use one, or "),
        ("dualpipe", "planner.chunks = 2: dualpipe takes one chunk per stage"),
    ],
)
def test_a_schedule_refuses_what_the_planner_made_by_its_option(schedule: str, message: str) -> None:
    planner = build("planner", {"name": "uniform", "tp": 5, "pp": 2, "chunks": 2})
    question = replace(SMALL, deployment=None, batch=8)
    experiment = Experiment(scenario=question, planner=planner, schedule=build("schedule", {"name": schedule}))

    with pytest.raises(SpecError) as caught:
        run(experiment)
    assert str(caught.value).startswith(message)


def test_a_schedule_refuses_what_the_deployment_says_by_its_path() -> None:
    plan = SMALL.deployment
    assert plan is not None
    halves = [(range(1, 3), range(5, 7)), (range(3, 5), range(7, 9))]
    stages = tuple(replace(stage, layers=layers) for stage, layers in zip(plan.replicas[0].stages, halves, strict=True))
    chunked = replace(plan, replicas=(replace(plan.replicas[0], stages=stages),))
    question = replace(SMALL, deployment=chunked, batch=chunked.samples)

    with pytest.raises(SpecError) as caught:
        run(Experiment(scenario=question, memory="report"))
    assert caught.value.field == "deployment.replicas[0].stages[0].layers"


def test_a_strategy_that_best_cannot_have_is_named_by_its_place() -> None:
    reshard = build("reshard", {"name": "best", "among": ["lcm", "lcmm"]})

    with pytest.raises(SpecError, match=re.escape("reshard.among[1] = 'lcmm': there is no such option; did you mean")):
        run(Experiment(scenario=SMALL, memory="report", reshard=reshard))


def test_embedding_and_head_may_be_written_or_not() -> None:
    plan = SMALL.deployment
    assert plan is not None
    complete = check_deployment(plan, SMALL)
    last = SMALL.model.layers + 1

    assert complete.replicas[0].layers == range(last + 1)
    assert check_deployment(complete, SMALL) == complete
    first, *others = complete.replicas
    *before, stage = first.stages
    beyond = replace(stage, layers=(range(stage.layers[0].start, last + 2),))
    wrong = replace(complete, replicas=(replace(first, stages=(*before, beyond)), *others))
    with pytest.raises(SpecError, match=f"its last stage ends at layer {last + 1}, the model has {last - 1}"):
        check_deployment(wrong, SMALL)
