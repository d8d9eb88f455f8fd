"""What ranks need while they act: by cause, up to the peak that the verdict says, and nothing kept at the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.plan.toy import cluster, model, plan, scenario, stage
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.memory import memory_curves
from xsim.tables import memory_table

CAUSES = ("weight", "gradient", "optimizer", "activation", "workspace", "buffer", "reserve")


@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe", "zb_h1"])
def test_a_row_for_each_action_of_each_rank(schedule: str) -> None:
    stages = (stage((0, 2), layers=range(1, 3)), stage((1,), (3,), layers=range(3, 5)))
    stages = (replace(stages[0], groups=(replace(stages[0].groups[0], samples=2),)), stages[1])
    asked = scenario(cluster(4), model(), plan(stages))
    experiment = Experiment(
        scenario=replace(asked, framework_bytes=1000, fragmentation=0.1),
        schedule=build("schedule", {"name": schedule}),
    )
    result = run(experiment)
    curves = memory_curves(experiment.scenario, result.deployment, experiment.schedule.order)

    table = memory_table(curves, result.workload, result.timeline, result.memory)

    columns = {name: np.array(values) for name, values in table.items()}
    assert len({len(values) for values in columns.values()}) == 1
    assert np.array_equal(columns["needed_bytes"], sum(columns[f"{cause}_bytes"] for cause in CAUSES))
    for rank, need in result.memory.needs:
        own = columns["rank"] == rank
        assert columns["needed_bytes"][own].max() == need.total_bytes
        assert columns["action"][own][-1] == "U0"
        assert len(set(columns["action"][own])) == own.sum() == (13 if schedule == "zb_h1" else 9)
        assert columns["kept_bytes"][own][-1] == 0
        assert (np.diff(columns["from_ps"][own]) >= 0).all()
        assert (columns["kept_bytes"] <= columns["activation_bytes"])[own].all()
