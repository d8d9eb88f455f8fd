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

from runners.brake import Brake
from runners.pool import Limits, finished
from runners.ray_session import PoolError, ray_session, resource
from runners.stop import Stop
from runners.worker import Greeting, Outcome, Worker
from tests.runners.test_pool import point, short

__all__ = ["short"]  # a fixture

PATIENCE_S = 120.0  # a test that waits for more than this has failed
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


class Where(Worker):
    """Tells where it looks for its simulator."""

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        return Outcome(status="ok", reason="\n".join(sys.path), details="", metrics={}, wall_s=1.0)


class Unknown(Worker):
    """Its module is on no worker."""

    __module__ = "module_that_only_the_driver_has"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cloudpickle: Any = ray.cloudpickle  # workers do not find the tests: classes travel by value
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 10**8, "_system_config": QUICK}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1, object_store_memory=10**8)
    yield made
    made.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def address(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


def limits(**changed: Any) -> Limits:
    brake = Brake(time_budget_s=PATIENCE_S)
    return Limits(**{"workers": 2, "timeout_s": None, "retries": 0, "address": "auto", "brake": brake} | changed)


def test_a_sweep_of_its_own_joins_no_cluster_that_happens_to_run(
    tmp_path: Path, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ray 60991 and 26678: neither that of RAY_ADDRESS nor the one that Ray noted last, which is dead.

    Nor do the cluster's actors notice, in the tests below: Ray asks for a token only while the sweep runs.
    """
    noted = tmp_path / "ray" / "ray_current_cluster"
    noted.parent.mkdir()
    noted.write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    mode = os.environ.get("RAY_AUTH_MODE")

    with ray_session("local", 1, Stop()) as session:
        assert session.workers == 1
        assert resource(ray.cluster_resources, "CPU") == 1
        assert not session.lost
    assert os.environ.get("RAY_AUTH_MODE") == mode


def test_a_lost_node_costs_its_points_an_attempt_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    """Nor does it count as a death of their process: there are no retries here."""
    node = cluster.add_node(num_cpus=1, object_store_memory=10**8)
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
            os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
            cluster.add_node(num_cpus=1, object_store_memory=10**8)
        elif started == 3:  # the lost one's point runs again, and its process still runs too
            marker.touch()

    assert sorted(entry.point.key for entry in done) == [each.key for each in points]
    assert {entry.outcome["status"] for entry in done} == {"ok"}
    assert sorted(entry.attempt for entry in done) == [1, 1, 1, 1, 2]


def test_workers_have_their_own_simulator_or_get_this_one(cluster: Cluster) -> None:
    """What is shipped comes before what is installed there."""
    (own,) = [entry for entry in finished([point(0, "")], limits(workers=1), Where) if entry]
    (shipped,) = [entry for entry in finished([point(0, "")], limits(workers=1, ship=True), Where) if entry]

    assert "py_modules_files" not in own.outcome["reason"]
    places = shipped.outcome["reason"].splitlines()
    there = [index for index, place in enumerate(places) if "py_modules_files" in place]
    assert len(there) == 3
    assert max(there) < min(index for index, place in enumerate(places) if place.endswith("site-packages"))


def test_another_version_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(PoolError, match=r"host gpu7 runs another version: numba is 0.1 there, [\d.]+ here; install"):
        list(finished([point(0, "")], limits(workers=1), Older))


def test_what_a_worker_cannot_import_is_named(cluster: Cluster) -> None:
    """Not queued for ever (cube-harness 345)."""
    sys.modules["module_that_only_the_driver_has"] = type(sys)("module_that_only_the_driver_has")
    sys.modules["module_that_only_the_driver_has"].__dict__["Unknown"] = Unknown
    with pytest.raises(PoolError, match=r"workers do not start: .*module_that_only_the_driver_has"):
        list(finished([point(0, "")], limits(workers=1), Unknown))
