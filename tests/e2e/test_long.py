"""Thousands of points, a fifth of which go wrong: memory, disk and logs stay as they were in the first minutes.

An hour or so with ``XSIM_SOAK_SEEDS=300``.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import analysis
from tests.e2e.faulty_sweeps import POINTS, SOAK, Sweep, check_mlflow, check_rows, prepared, until

SEEDS = int(os.environ.get("XSIM_SOAK_SEEDS", "40"))
TIMEOUT_S = 10  # on a machine with other work, memory that is eaten takes 5 s
LOOK_EVERY_S = 1.0
PATIENCE_S = 3.0  # for a point, in the mean
GROWTH = 1.1  # of the last third of the time over the second
ROW_BYTES = 50_000  # in the tables, in MLflow's store (two thirds) and in its artifacts
RAY_BYTES = 100_000_000  # of its logs and files
LOG_BYTES = 1_000_000  # what the command itself says


@dataclass(frozen=True, slots=True)
class Look:
    """At one instant, in bytes: memory of the driver, its writer for MLflow and Ray's servers, and Ray's files."""

    driver: int
    writer: int
    servers: int
    files: int


def look(sweep: Sweep) -> Look:
    assert sweep.process is not None
    servers = [*sweep.victims("raylet"), *sweep.victims("gcs_server")]
    files = sum(path.lstat().st_size for path in sweep.short.rglob("*") if path.is_file())
    driver = psutil.Process(sweep.process.pid).memory_info().rss
    (writer,) = sweep.writers()
    return Look(driver, writer.memory_info().rss, sum(one.memory_info().rss for one in servers), files)


@pytest.mark.skipif(not SOAK, reason="it takes a quarter of an hour: make soak")
def test_a_long_sweep_stays_small(tmp_path: Path) -> None:
    looks = list[Look]()
    with prepared(tmp_path, f"seed=range(0,{SEEDS})", timeout_s=TIMEOUT_S) as sweep:
        sweep.start()
        ends_s = time.monotonic() + PATIENCE_S * SEEDS * POINTS
        while not sweep.ended:
            assert time.monotonic() < ends_s, f"{sweep.rows} of {SEEDS * POINTS} rows"
            try:
                looks.append(look(sweep))
            except (OSError, ValueError, psutil.Error):  # a process or a file is not there yet, or has just gone
                continue
            time.sleep(LOOK_EVERY_S)
        assert sweep.process is not None
        assert sweep.process.returncode == 1
        until(sweep.left_nothing, "something is left behind")

    check_sizes(looks)
    rows = analysis.load(tmp_path / "outputs" / "adhoc").to_pylist()
    for seed in range(SEEDS):
        check_rows([row for row in rows if row["seed"] == seed], TIMEOUT_S)
    check_mlflow(tmp_path / "outputs" / "mlflow.db", rows)
    kept = sum(path.stat().st_size for path in (tmp_path / "outputs").rglob("*") if path.is_file())
    assert kept < ROW_BYTES * len(rows)
    assert (tmp_path / "log").stat().st_size < LOG_BYTES


def check_sizes(looks: list[Look]) -> None:
    third = len(looks) // 3
    for what in ("driver", "writer", "servers"):
        middle, last = (
            statistics.median(getattr(one, what) for one in part) for part in (looks[third:-third], looks[-third:])
        )
        print(f"{what}: {middle / 1e6:.0f} MB in the second third of the time, {last / 1e6:.0f} MB in the last")
        assert last < GROWTH * middle, what
    most = max(one.files for one in looks)
    print(f"Ray's files: {most / 1e6:.0f} MB at the most")
    assert most < RAY_BYTES
