"""What one sees of the packets of a training iteration, and that looking changes nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.examples import TINY, load
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.planner.uniform import Uniform
from xsim.sim.network.packet import Packet
from xsim.sim.packets.instances import Instances
from xsim.sim.traffic.compiled import Compiled
from xsim.spec.cluster import ClusterSpec
from xsim.spec.scenario import Scenario
from xsim.tables import link_table, queue_table

SCENARIO = Scenario(cluster=load(ClusterSpec, "h100x4_a100x4"), model=TINY, batch=8)
EXPERIMENT = Experiment(scenario=SCENARIO, planner=Uniform(tp=2, pp=2), network=Packet())


def test_a_run_that_is_looked_at_is_the_same_run() -> None:
    """What is folded, counted and never simulated in its place, is simulated in its place then."""
    plain = run(replace(EXPERIMENT, network=Packet(exact=True)))
    found = run(replace(EXPERIMENT, network=Packet(sample="1 us")))

    assert found.metrics == plain.metrics
    assert plain.network.packets is not None
    assert found.network.packets is not None
    for field in fields(plain.network.packets):
        counted = getattr(plain.network.packets, field.name)
        assert getattr(found.network.packets, field.name).tolist() == counted.tolist(), field.name
    assert plain.network.samples is None
    assert found.network.samples is not None
    table = queue_table([link.name for link in found.fabric.links], found.network.samples)
    assert {len(column) for column in table.values()} == {len(found.network.samples.time_ps)}
    links = link_table(found.fabric, found.network, found.timeline.makespan_ps)
    sent = np.bincount(found.network.samples.link, found.network.samples.sent_bytes, minlength=len(found.fabric.links))
    assert sent.tolist() == list(links["sent_bytes"])
    assert sum(sent) > found.network.link_bytes.sum() > 0
    assert found.network.samples.time_ps.max() <= found.timeline.makespan_ps + 10**6


@pytest.mark.parametrize(("sample", "problem"), [("1", "a quantity needs its unit"), ("2 days", "the unit 'days'")])
def test_an_interval_needs_its_unit(sample: str, problem: str) -> None:
    with pytest.raises(SpecError, match=f"^sample = .*: {problem}"):
        Packet(sample=sample)


def test_traffic_is_told_apart_by_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectives within stages, hand-overs, gradient syncs and the traffic of others, each in a class of its own."""
    seen = set[int | None]()
    opened = Instances.open

    def noted(self: Instances, handle: int, compiled: Compiled, traffic_class: int | None = None) -> int:
        seen.add(traffic_class)
        return opened(self, handle, compiled, traffic_class)

    monkeypatch.setattr(Instances, "open", noted)
    others = build("background", {"name": "incast", "size": "1 MB", "period": "200 us"})
    network = Packet(sample="1 us", hand_over_class=4, sync_class=5, background_class=6, class_order="strict")
    found = run(replace(EXPERIMENT, network=network, background=others))

    assert seen - {None} == {3, 4, 5, 6}
    assert found.metrics != run(replace(EXPERIMENT, network=Packet(sample="1 us"), background=others)).metrics
