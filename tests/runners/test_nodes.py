"""Several Ray nodes on this machine: a lost one costs nothing, one that runs another version is refused by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from runners.pool import Limits, finished
from runners.ray_session import PoolError
from runners.worker import Greeting, Outcome, Worker
from tests.runners.test_pool import point

QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


class Waits(Worker):
    """Does not answer until its marker is there."""

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        with open(f"{config['marker']}-{time.monotonic_ns()}", "w"):
            pass
        while not os.path.exists(str(config["marker"])):
            time.sleep(0.05)
        return Outcome(status="ok", reason=str(os.getpid()), details="", metrics={}, wall_s=1.0)


class Older(Worker):
    """Was installed long ago."""

    def hello(self) -> Greeting:
        known = super().hello()
        return Greeting(host="gpu7", node=known["node"], versions={**known["versions"], "numba": "0.1"})


class Unknown(Worker):
    """Its module is on no worker."""

    __module__ = "module_that_only_the_driver_has"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cloudpickle: Any = ray.cloudpickle  # workers do not find the tests: classes travel by value
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 10**8, "_system_config": QUICK}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


@pytest.fixture(autouse=True)
def address(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


def limits(**changed: Any) -> Limits:
    return Limits(**{"workers": 2, "timeout_s": None, "retries": 0, "address": "auto"} | changed)


def test_a_lost_node_costs_its_points_an_attempt_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    """Nor does it count as a death of their process: there are no retries here."""
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=10**8) for _ in range(2)]
    marker = tmp_path / "marker"
    points = [point(number, "", str(marker)) for number in range(5)]
    killed = False
    done = []

    for entry in finished(points, limits(), Waits):
        if entry is not None:
            done.append(entry)
        started = len(list(tmp_path.glob("marker-*")))
        if started == 2 and not killed:
            killed = True
            os.kill(nodes[0].all_processes["raylet"][0].process.pid, signal.SIGKILL)
            cluster.add_node(num_cpus=1, object_store_memory=10**8)
        elif started == 3:  # the lost one's point runs again, and its process still runs too
            marker.touch()

    assert sorted(entry.point.key for entry in done) == [each.key for each in points]
    assert {entry.outcome["status"] for entry in done} == {"ok"}
    assert sorted(entry.attempt for entry in done) == [1, 1, 1, 1, 2]


def test_another_version_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(PoolError, match=r"host gpu7 runs another version: numba is 0.1 there, [\d.]+ here; install"):
        list(finished([point(0, "")], limits(workers=1), Older))


def test_what_a_worker_cannot_import_is_named(cluster: Cluster) -> None:
    """Not queued for ever."""
    sys.modules["module_that_only_the_driver_has"] = type(sys)("module_that_only_the_driver_has")
    sys.modules["module_that_only_the_driver_has"].__dict__["Unknown"] = Unknown
    with pytest.raises(PoolError, match=r"workers do not start: .*module_that_only_the_driver_has"):
        list(finished([point(0, "")], limits(workers=1), Unknown))
