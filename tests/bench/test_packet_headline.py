"""Every packet of one iteration of Llama 2 7B on 128 devices, 190 million of them in the gradient sync alone."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Any

import pytest

from tests.examples import load
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

LIMIT_S, EXACT_LIMIT_S = 60, 900
PAYLOAD = {"payload_bytes": 9000, "scale_up_payload_bytes": 9000}


def equal(hosts: int, **options: Any) -> Experiment:
    """TP 2, all else data-parallel, on hosts of 8 H100."""
    cluster = load(ClusterSpec, "h100_16x8")
    cluster = replace(cluster, hosts=(replace(cluster.hosts[0], count=hosts),))
    scenario = Scenario(cluster=cluster, model=load(ModelSpec, "llama2_7b"), batch=4 * hosts)
    network = build("network", {"name": "packet", **PAYLOAD, **options})
    return Experiment(scenario=scenario, planner=build("planner", {"name": "uniform", "tp": 2}), network=network)


def unequal(**options: Any) -> Experiment:
    """TP 2 on 64 H100, TP 4 on 64 A100."""
    scenario = Scenario(
        cluster=load(ClusterSpec, "h100_8x8_a100_8x8"),
        model=load(ModelSpec, "llama2_7b"),
        batch=48,
        deployment=load(DeploymentPlan, "h100_8x8_a100_8x8_7b"),
    )
    network = build("network", {"name": "packet", **PAYLOAD, **options})
    return Experiment(scenario=scenario, planner=build("planner", {"name": "given"}), network=network)


def timed(experiment: Experiment) -> tuple[int, float]:
    """The iteration in ps, and the seconds of a processor that it took to simulate."""
    began = process_time()
    iteration_ps = run(replace(experiment, memory="report")).timeline.makespan_ps
    return iteration_ps, process_time() - began


@pytest.mark.parametrize("experiment", [equal(16), unequal()], ids=["equal", "unequal"])
def test_128_devices_fast_and_packet_by_packet(benchmark: Any, experiment: Experiment) -> None:
    run(replace(equal(2), memory="report"))  # compiles the kernels

    fast_ps, fast_s = benchmark.pedantic(timed, args=(experiment,), rounds=1)
    every = replace(experiment, network=build("network", {"name": "packet", **PAYLOAD, "fast_forward": False}))
    slow_ps, slow_s = timed(every)

    assert fast_s < LIMIT_S
    assert slow_s < EXACT_LIMIT_S
    assert fast_ps == pytest.approx(slow_ps, rel=0.01)


def test_reuse_changes_no_number_on_16_devices(benchmark: Any) -> None:
    found = [timed(equal(2, **options))[0] for options in ({"fast_forward": False}, {"exact": True})]
    fast_ps, _ = benchmark.pedantic(timed, args=(equal(2),), rounds=1)

    assert found[0] == found[1]
    assert fast_ps == pytest.approx(found[0], rel=0.01)
