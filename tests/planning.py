"""What planners are asked, and the site that a run would give them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.plan.toy import cluster, device, model
from xsim.experiment import Experiment, _Site
from xsim.families import build
from xsim.plan.contracts import PlannerSite
from xsim.spec.scenario import Scenario

__all__ = ["scenarios", "site_of"]


def site_of(scenario: Scenario, network: str = "analytic") -> PlannerSite:
    """That of a run with the usual members of the other families."""
    usual = Experiment(scenario=scenario, network=build("network", {"name": network}))
    return _Site(usual, usual.topology.build(scenario.cluster), scenario.dtype_bytes)


@st.composite
def scenarios(draw: st.DrawFn, most_hosts: int = 4) -> Scenario:
    """Two to four hosts of one to three kinds of devices, some short of memory, and a model of a few layers."""
    kinds = [
        device(name, draw(st.sampled_from((50.0, 100.0, 200.0, 400.0))), draw(st.sampled_from((2.0, 4.0, 8.0, 16.0))))
        for name in ("one", "two", "three")[: draw(st.integers(1, 3))]
    ]
    hosts = draw(st.lists(st.sampled_from(kinds), min_size=max(2, len(kinds)), max_size=most_hosts))
    counts = [draw(st.sampled_from((1, 2, 3, 4, 4))) for _ in hosts]
    spec = model(
        layers=draw(st.integers(4, 12)),
        hidden=draw(st.sampled_from((512, 1024))),
        heads=8,
        ffn=2048,
        vocab=draw(st.sampled_from((1000, 32000))),
        seq_len=256,
        tied=draw(st.booleans()),
    )
    return Scenario(
        cluster=cluster(*counts, devices=tuple(hosts)), model=spec, batch=draw(st.sampled_from((8, 12, 16, 32, 48)))
    )
