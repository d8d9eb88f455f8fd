"""Ten thousand runs in one folder: written, asked for again, compared, and given to MLflow. CPU time, and memory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.compare import show
from analysis.tables import select
from runners.mlflow_row import log_run
from runners.mlflow_runs import experiment_of, open_client
from runners.store import Row, Store, row_of
from runners.track import Tracker
from tests.runners.mlflow_stores import log, target
from tests.runners.test_store import FIGURES, outcome, point

ROWS = 10_000
WRITE_S, KNOWN_S, REPORT_S = 3e-3, 2.0, 2.0
PEAK_BYTES = 400e6
MLFLOW_S = 20e-3
WAYS = ("lcm", "hetauto", "alpacomm", "star")
CONFIG = json.dumps({"layers": [{"first": number, "last": number + 1} for number in range(150)]})  # 5 kB, as usual


def row(number: int) -> Row:
    """Of a grid of 2,500 cases and four strategies, as long as a real one."""
    case, way = divmod(number, 4)
    names = {
        "cluster": f"cluster_{case % 50}",
        "model": f"model_{case // 50}",
        "reshard": ("lcm", "hetauto", "a", "b")[way],
    }
    times = {"training_time_s": 1.0 + way + case / 7}
    key = f"{number * 2654435761 % 2**32:08x}"
    return row_of(point(key), outcome(), worker=0, attempt=1) | names | times | {"config_json": CONFIG}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """All of it written; without waiting for the disk, which the next test does."""
    store = Store(tmp_path_factory.mktemp("store") / "outputs" / "large")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        for number in range(ROWS):
            store.write(row(number))
    points = [{"key": row(number)["key"]} for number in range(ROWS)]
    store.begin({"code": "c1", "points": points})
    return store


def cpu_s(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def test_a_row_is_written_and_safe(benchmark: Any, tmp_path: Path) -> None:
    """What the disk takes depends on what else it does: of the time on the clock the least counts."""
    store, rows = Store(tmp_path), iter([row(number) for number in range(1200)])
    started = time.process_time()

    benchmark.pedantic(lambda: store.write(next(rows)), rounds=1200)

    assert (time.process_time() - started) / 1200 < WRITE_S
    assert len(store.known()) == 1200
    assert benchmark.stats.stats.min < WRITE_S


def test_what_is_there_already(benchmark: Any, store: Store) -> None:
    known = benchmark.pedantic(store.known, rounds=3)

    assert len(known) == ROWS
    assert store.older("c1") == 0
    assert cpu_s(lambda: (store.known(), store.older("c1"))) < KNOWN_S


def test_the_report_mlflow_21841_2730(benchmark: Any, store: Store) -> None:
    shown = io.StringIO()

    benchmark.pedantic(lambda: show(select(store.folder).table, file=shown), rounds=1)

    assert shown.getvalue().count("cluster_7 ") >= 50
    assert cpu_s(lambda: show(select(store.folder).table, file=io.StringIO())) < REPORT_S


PEAK = """
import os, sys
from pathlib import Path
from tests.bench.memory import peak_bytes
from tests.bench.test_store import ROWS, Store, row
os.fsync = lambda descriptor: None
store = Store(Path(sys.argv[1]))
store.known()
before = peak_bytes()
for number in range(ROWS):
    store.write(row(number))
half = peak_bytes()
print(before, half, len(store.known()), peak_bytes())
"""


def test_memory_is_flat(benchmark: Any, tmp_path: Path) -> None:
    def sweep() -> list[int]:
        words = [sys.executable, "-c", PEAK, str(tmp_path)]
        return [int(word) for word in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()]

    before, written, rows, asked = benchmark.pedantic(sweep, rounds=1)

    benchmark.extra_info["MB before, written, asked"] = [number // 10**6 for number in (before, written, asked)]
    assert rows == ROWS
    assert asked < PEAK_BYTES


def test_a_run_in_mlflow(benchmark: Any, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = open_client(uri)
    experiment = experiment_of(client, "large", uri, tmp_path)
    tags = {"mlflow.parentRunId": client.create_run(experiment).info.run_id}
    numbers = iter(range(ROWS))

    benchmark.pedantic(lambda: log_run(client, experiment, row(next(numbers)), tags), rounds=200, warmup_rounds=5)

    def hundred() -> None:
        for number in range(100):
            log_run(client, experiment, row(ROWS + number), tags)

    took = cpu_s(hundred)
    assert len(FIGURES) > 40
    assert took / 100 < MLFLOW_S


def test_a_sweep_ends_soon_after_its_simulations(benchmark: Any, tmp_path: Path) -> None:
    """MLflow is told beside them: of points that take a quarter of a second a tenth of their time is left at most."""
    store = Store(tmp_path / "outputs" / "some")
    store.begin({"code": "c1"})
    uri = f"sqlite:///{tmp_path / 'outputs' / 'mlflow.db'}"
    log(target(uri, store))  # the database is there
    found, times = Tracker(target(uri, store)), []

    def sweep() -> None:
        found.start()
        for number in range(80):
            time.sleep(0.25)
            started = time.perf_counter()
            found.add(row(number))
            times.append(time.perf_counter() - started)
        times.append(time.perf_counter())
        found.close()
        times.append(time.perf_counter())

    benchmark.pedantic(sweep, rounds=1)

    *added, ran, ended = times
    benchmark.extra_info["seconds after the simulations"] = ended - ran
    assert (found.problem, found.logged) == ("", 80)
    assert max(added) < 0.01
    assert ended - ran < 0.1 * 80 * 0.25
