"""The closed form of GPT-3 175B on 1024 devices, with what it has found before, and from nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.test_iteration import gpt3
from xsim.closed_form import ClosedForm
from xsim.experiment import planned, run

LIMIT_S = 0.010


@pytest.mark.benchmark(group="closed form")
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_gpt3_on_1024_devices_in_closed_form(benchmark: Any, sequence_parallel: bool) -> None:
    experiment = gpt3("flow", sequence_parallel=sequence_parallel)
    deployment = planned(experiment).deployment

    priced = benchmark.pedantic(ClosedForm(experiment).price, args=(deployment,), rounds=50, warmup_rounds=1)

    simulated_ps = run(experiment).timeline.makespan_ps
    assert abs(priced.iteration_ps / simulated_ps - 1) < 0.01
    assert benchmark.stats.stats.min < LIMIT_S


@pytest.mark.benchmark(group="closed form")
def test_gpt3_on_1024_devices_from_nothing(benchmark: Any) -> None:
    experiment = gpt3("flow")
    deployment = planned(experiment).deployment

    priced = benchmark.pedantic(lambda: ClosedForm(experiment).price(deployment), rounds=10, warmup_rounds=1)

    assert priced == ClosedForm(experiment).price(deployment)
    assert benchmark.stats.stats.min < 20 * LIMIT_S
