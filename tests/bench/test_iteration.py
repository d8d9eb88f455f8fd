"""One iteration of GPT-3 175B on 1024 devices, planned, lowered and simulated; and its peak memory."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.account_checker import check_account
from tests.examples import load
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.spec.cluster import ClusterSpec
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

LIMIT_S, LIMIT_MB = 2, 600
LIMIT_16K_S, LIMIT_16K_MB = 60, 4000


def gpt3(network: str, hosts: int = 128, *, sequence_parallel: bool = False) -> Experiment:
    """TP8 PP16, 64 micro-batches per replica, 1F1B; DP 8 on 128 hosts of 8 devices."""
    cluster = load(ClusterSpec, "gpt3_1024")
    cluster = replace(cluster, hosts=(replace(cluster.hosts[0], count=hosts),))
    scenario = Scenario(cluster=cluster, model=load(ModelSpec, "gpt3_175b"), batch=64 * cluster.ranks // 128)
    planner = build("planner", {"name": "uniform", "tp": 8, "pp": 16, "sequence_parallel": sequence_parallel})
    return Experiment(scenario=scenario, planner=planner, network=build("network", {"name": network}), memory="report")


def check(result: Result, ranks: int) -> None:
    """Everything was simulated, and every picosecond is accounted for."""
    assert len(result.workload.programs) == ranks // 8
    assert len(result.timeline.start_ps) == len(result.workload.programs) * (2 * 64 + 1)
    assert (result.account.causes_ps.sum(axis=1) == result.timeline.makespan_ps).all()


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_gpt3_on_1024_devices_flow(benchmark: Any, sequence_parallel: bool) -> None:
    experiment = gpt3("flow", sequence_parallel=sequence_parallel)

    result = benchmark.pedantic(run, args=(experiment,), rounds=5, warmup_rounds=1)

    check(result, 1024)
    check_account(result.workload, result.timeline, result.account)
    assert (result.timeline.walk < 0).all(), "stages of 1F1B know that nobody disturbs them"
    assert benchmark.stats.stats.median < LIMIT_S


def test_gpt3_on_1024_devices_analytic(benchmark: Any) -> None:
    check(benchmark.pedantic(run, args=(gpt3("analytic"),), rounds=5, warmup_rounds=1), 1024)


def test_gpt3_on_1024_devices_flow_memory(benchmark: Any) -> None:
    assert benchmark.pedantic(peak_mb, args=(128,), rounds=1) < LIMIT_MB


def test_a_noisy_iteration_costs_little_more(benchmark: Any) -> None:
    """Of five, each beyond the first, against a quiet one; no two devices are alike, and some ranks stand still."""
    noise = build("noise", {"name": "devices", "stalls_per_hour": 10.0})
    noisy = replace(gpt3("flow"), noise=noise)
    quiet_s, extra_s = [], []
    for _ in range(3):
        quiet_s.append(cpu_s(gpt3("flow")))
        extra_s.append((cpu_s(replace(noisy, iterations=5)) - cpu_s(replace(noisy, iterations=1))) / 4)
    result = benchmark.pedantic(run, args=(noisy,), rounds=1)

    check(result, 1024)
    assert len(set(result.speeds)) > 1000
    assert min(extra_s) < 1.5 * min(quiet_s)


def cpu_s(experiment: Experiment) -> float:
    """CPU time of a run."""
    started_s = time.process_time()
    run(experiment)
    return time.process_time() - started_s


def test_gpt3_on_16384_devices_flow(benchmark: Any) -> None:
    peak = benchmark.pedantic(peak_mb, args=(2048,), rounds=1)

    assert peak < LIMIT_16K_MB
    assert benchmark.stats.stats.median < LIMIT_16K_S


def peak_mb(hosts: int) -> float:
    """Peak resident memory of a process of its own that runs the experiment, in 10^6 bytes."""
    script = (
        "from tests.bench.memory import peak_bytes; from tests.bench.test_iteration import check, gpt3; "
        "from xsim.experiment import run; "
        f"check(run(gpt3('flow', {hosts})), {hosts} * 8); "
        "print(peak_bytes() / 1e6)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)
