"""What planners are asked, and the site that a run would give them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tests.plan.toy import cluster, device, model
from xsim.experiment import Experiment, _Site
from xsim.families import build
from xsim.plan.contracts import PlannerSite
from xsim.spec.scenario import Scenario

__all__ = ["random_scenario", "scenarios", "site_of"]


def site_of(scenario: Scenario, network: str = "analytic") -> PlannerSite:
    """That of a run with the usual members of the other families."""
    usual = Experiment(scenario=scenario, network=build("network", {"name": network}))
    return _Site(usual, usual.topology.build(scenario.cluster), scenario.dtype_bytes)


def scenarios() -> st.SearchStrategy[Scenario]:
    """Random ones."""
    return st.integers(0, 10**6).map(random_scenario)


def random_scenario(seed: int) -> Scenario:
    """Two to four hosts of one to three kinds of devices, some short of memory, and a model of a few layers."""
    rng = random.Random(seed)
    kinds = [
        device(name, rng.choice((50.0, 100.0, 200.0, 400.0)), rng.choice((2.0, 4.0, 8.0, 16.0)))
        for name in ("one", "two", "three")[: rng.choice((1, 2, 2, 2, 3))]
    ]
    hosts = [*kinds, *rng.choices(kinds, k=rng.randint(max(0, 2 - len(kinds)), 4 - len(kinds)))]
    spec = model(
        layers=rng.randint(4, 12),
        hidden=rng.choice((512, 1024)),
        heads=8,
        ffn=2048,
        vocab=rng.choice((1000, 32000)),
        seq_len=256,
        tied=rng.random() < 0.5,
    )
    counts = [rng.choice((1, 2, 3, 4, 4)) for _ in hosts]
    return Scenario(cluster=cluster(*counts, devices=tuple(hosts)), model=spec, batch=rng.choice((8, 12, 16, 32, 48)))
