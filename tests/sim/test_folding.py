"""Whether a group has its wires to itself: asked often, so little may be looked at each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.toy import cluster, model, plan, scenario, stage
from xsim.experiment import Experiment, run
from xsim.sim.folding import Folding

LAYERS, REPLICAS = 16, 4


@pytest.mark.parametrize("zero", [0, 1])
def test_members_are_asked_of_syncs_that_may_come_first(monkeypatch: pytest.MonkeyPatch, zero: int) -> None:
    """A bucket for each layer, four replicas of two ranks that share the wires of their sums."""
    asked = {"groups": 0, "syncs": 0}
    quiet, earliest = Folding.quiet_until_ps, Folding._earliest_ps

    def counted_quiet(self: Folding, program: int, now_ps: int) -> int:
        asked["groups"] += 1
        return quiet(self, program, now_ps)

    def counted_earliest(self: Folding, sync: int) -> int:
        asked["syncs"] += 1
        return earliest(self, sync)

    monkeypatch.setattr(Folding, "quiet_until_ps", counted_quiet)
    monkeypatch.setattr(Folding, "_earliest_ps", counted_earliest)
    replicas = [(stage((2 * r, 2 * r + 1), layers=range(1, LAYERS + 1)),) for r in range(REPLICAS)]
    deployment = replace(plan(*replicas, bucket_bytes=1), zero=zero)
    asked_for = scenario(cluster(2 * REPLICAS), model(layers=LAYERS), deployment)

    result = run(Experiment(scenario=asked_for, memory="report"))

    assert asked["groups"] >= REPLICAS
    assert 0 < asked["syncs"] < asked["groups"] * LAYERS / 2
    plain = run(Experiment(scenario=asked_for, memory="report", fold=False))
    assert result.timeline.makespan_ps == plain.timeline.makespan_ps
