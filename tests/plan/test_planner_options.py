"""Options of planners that cannot do what they ask are refused by their own names."""

from __future__ import annotations

import pytest

from tests.plan.toy import cluster, device, model
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.families import build
from xsim.spec.scenario import Scenario

ASKED = Scenario(cluster=cluster(4, 4, devices=(device("fast", 200.0), device("slow", 50.0))), model=model(), batch=12)


@pytest.mark.parametrize(
    ("planner", "options", "message"),
    [
        (
            "malleus",
            {"micro_batch": 5},
            "planner.micro_batch = 5: it does not divide the batch of 12; choose a divisor, or 0",
        ),
        (
            "malleus",
            {"tp": 8},
            "planner.tp = 8: no tensor group of this model on this cluster has more than 4 devices; ",
        ),
        (
            "malleus",
            {"dp": 9},
            "planner.dp = 9: 8 tensor groups and a batch of 12 make no more than 8 pipelines; write 8 ",
        ),
        (
            "malleus",
            {"dp": 3, "tp": 4},
            "planner.dp = 3: 2 tensor groups and a batch of 12 make no more than 2 pipelines",
        ),
        ("hexiscale", {"micro_batch": 5}, "planner.micro_batch = 5: it does not divide the batch of 12; choose a "),
        (
            "hexiscale",
            {"pipelines": 5},
            "planner.pipelines = 5: so many pipelines on 8 devices do not get equal parts of 12; choose one of 1, ",
        ),
        (
            "sailor",
            {"stages": 5},
            "planner.stages = 5: 4 layers on 8 devices make no more than 4 stages; write 4 or less",
        ),
        ("eth", {"unit": 5}, "planner.unit = 5: no kind has more than 4 devices; write 4 or less, or 0"),
        (
            "typesplit",
            {"pipelines": 5},
            "planner.pipelines = 5: the least type has 4 units of 1 devices; write 4 or less",
        ),
        (
            "uniform",
            {"search": True, "recompute": "nonsense"},
            "planner.recompute = 'nonsense': no layer of this model has such an operator; choose full, selective or ",
        ),
        ("xsim", {"lost": (0, 0)}, "planner.lost = [0, 0]: a rank is lost once; name each once"),
        ("xsim", {"others": ("eth", "xsim")}, "planner.others = 'xsim': it would ask itself; leave it out"),
        (
            "xsim",
            {"others": ("given",)},
            "planner.others = 'given': it has the scenario's own deployment; leave it out",
        ),
        ("xsim", {"others": ("repair",)}, "planner.others = 'repair': it has the scenario's own deployment; leave it "),
        ("xsim", {"others": ("eth", "eth")}, "planner.others = 'eth': it is asked twice, and answers the same; name "),
        ("xsim", {"others": ("nobody",)}, "planner.others = 'nobody': there is no such option; choose one of amp, "),
    ],
)
def test_what_this_question_does_not_allow(planner: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        build("planner", {"name": planner, **options}).plan(ASKED, site_of(ASKED))

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("planner", "options", "message"),
    [
        (
            "xsim",
            {"point": 1},
            "planner.point = 1: objective: time has one best plan; leave it out, or write objective: ",
        ),
        ("xsim", {"proof": 10**12}, "planner.proof = 1000000000000: it must be 10000000 or less; "),
        ("metis", {"evaluations": 10**12}, "planner.evaluations = 1000000000000: it must be 10000000 or less; "),
        ("hexiscale", {"evaluations": 10**12}, "planner.evaluations = 1000000000000: it must be 10000000 or less; "),
    ],
)
def test_what_no_question_allows(planner: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        build("planner", {"name": planner, **options})

    assert str(caught.value).startswith(message)
