"""Grids from the command line, with Ray's start and a cold cache of compiled code; and again, with nothing to do.

What a sweep costs beside its simulations, and what a second worker brings.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

import analysis
from runners.cli import read_command
from runners.points import Point, plan_sweep
from runners.pool import Finished, Limits, finished
from runners.store import Store, row_of
from runners.worker import Outcome, Worker

LIMIT_S, LIMIT_AGAIN_S, LIMIT_ALL_S = 60, 15, 90
TRIVIAL, LIMIT_TRIVIAL_S, LIMIT_SLOWER = 2000, 0.003, 2
MANY_SEEDS, MOST_BYTES = 418, 400_000_000
SEEDS, PAIRS, LIMIT_SECOND, QUIET_LOAD = 8, 5, 1.85, 1.0


class Trivial(Worker):
    """Answers at once."""

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        return Outcome(status="ok", reason="", details="", metrics={"training_time_s": 1.0}, wall_s=0.0001)


def limits(workers: int) -> Limits:
    return Limits(workers=workers, timeout_s=None, retries=0, address="local")


def points(*words: str) -> list[Point]:
    return list(plan_sweep(read_command(list(words), "")).points)


def sweep(folder: Path, grid: str = "hetero_llama") -> None:
    """The sweep, its results and its compiled code under ``folder``."""
    subprocess.run(
        [sys.executable, "-m", "runners.sweep", f"+grid={grid}", f"out={folder / 'outputs'}"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "compiled")},
        capture_output=True,
        check=True,
    )


def test_hetero_llama_and_again(benchmark: Any, tmp_path: Path) -> None:
    benchmark.pedantic(sweep, args=(tmp_path,), rounds=1)

    assert len(analysis.load(tmp_path / "outputs" / "hetero_llama")) == 48
    assert benchmark.stats.stats.max < LIMIT_S


def test_hetero_llama_when_nothing_is_missing(benchmark: Any, tmp_path: Path) -> None:
    sweep(tmp_path)
    (part,) = (tmp_path / "outputs" / "hetero_llama" / "table").glob("*.parquet")
    written = part.stat().st_mtime_ns

    benchmark.pedantic(sweep, args=(tmp_path,), rounds=3)

    assert part.stat().st_mtime_ns == written
    assert benchmark.stats.stats.max < LIMIT_AGAIN_S


def test_every_strategy_on_eight_clusters(benchmark: Any, tmp_path: Path) -> None:
    benchmark.pedantic(sweep, args=(tmp_path, "reshard_all"), rounds=1)

    table = analysis.load(tmp_path / "outputs" / "reshard_all")
    assert table["status"].to_pylist() == ["ok"] * 8 * 10
    assert (len(set(table["cluster"].to_pylist())), len(set(table["reshard"].to_pylist()))) == (8, 10)
    assert benchmark.stats.stats.max < LIMIT_ALL_S


def test_the_overhead_of_a_point(benchmark: Any, tmp_path: Path) -> None:
    """Of the driver, each row forced to disk; the first two hundred start the workers.

    The last thousand cost as much as those before them (ray 11233: a sweep that slows with its length).
    """
    cloudpickle: Any = ray.cloudpickle
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    one, *_ = points("network=analytic", "reshard=lcm,hetauto")
    many = [replace(one, key=f"{number:032x}") for number in range(TRIVIAL + 200)]
    store, spent_s = Store(tmp_path), list[float]()

    def run() -> None:
        ended = 0
        for done in finished(many, limits(2), Trivial):
            if isinstance(done, Finished):
                store.write(row_of(done.point, done.outcome, worker=done.worker, attempt=done.attempt))
                ended += 1
                if ended in (200, 200 + TRIVIAL // 2, 200 + TRIVIAL):
                    spent_s.append(time.process_time())

    benchmark.pedantic(run, rounds=1)

    assert len(store.known()) == TRIVIAL + 200
    benchmark.extra_info["ms a point"] = 1000 * (spent_s[2] - spent_s[0]) / TRIVIAL
    assert (spent_s[2] - spent_s[0]) / TRIVIAL < LIMIT_TRIVIAL_S
    assert spent_s[2] - spent_s[1] < LIMIT_SLOWER * (spent_s[1] - spent_s[0])


def test_the_memory_of_ten_thousand_points(benchmark: Any, tmp_path: Path) -> None:
    """Of the process that starts them, with MLflow and the report at the end."""
    words = ["+grid=hetero_llama", "network=analytic", f"seed=range(0,{MANY_SEEDS})", f"out={tmp_path}"]
    seen = list[int]()

    def run() -> None:
        command = [sys.executable, "-m", "runners.sweep", *words]
        with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as sweep:
            while sweep.poll() is None:
                with suppress(psutil.Error):  # it has just ended
                    seen.append(psutil.Process(sweep.pid).memory_info().rss)
                time.sleep(0.25)
        assert sweep.returncode == 0, (tmp_path / "log").read_text()

    benchmark.pedantic(run, rounds=1)

    third = len(seen) // 3
    running, most = statistics.median(seen[third:-third]), max(seen)
    benchmark.extra_info["MB while it runs, at the most"] = [running // 10**6, most // 10**6]
    assert len(analysis.load(tmp_path / "hetero_llama")) == MANY_SEEDS * 24
    assert most < MOST_BYTES


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
def test_what_a_second_worker_brings(benchmark: Any) -> None:
    """How many simulations go on at once, and, where nothing else runs on the machine, how much sooner all have ended.

    Medians of pairs of runs: of two plain loops side by side on two processors of a shared machine each may be slower
    by a tenth.
    """
    many = points("+grid=hetero_llama", f"seed={','.join(map(str, range(SEEDS)))}")
    quiet = os.getloadavg()[0] < QUIET_LOAD
    found: list[tuple[float, float]] = []

    def run() -> None:
        one_s, _ = followed(many, 1)
        two_s, at_once = followed(many, 2)
        found.append((one_s / two_s, at_once))

    benchmark.pedantic(run, rounds=PAIRS)

    sooner, at_once = (statistics.median(each) for each in zip(*found, strict=True))
    told = {"at once": at_once, "times one worker": sooner, "of pairs": [pair[0] for pair in found], "quiet": quiet}
    benchmark.extra_info.update(told)
    assert at_once > LIMIT_SECOND
    assert not quiet or sooner > LIMIT_SECOND


def followed(many: list[Point], workers: int) -> tuple[float, float]:
    """Seconds from the first answer of the last worker to that of the last but two, when one may have nothing to do.

    And how many simulations went on at once then.
    """
    turns: list[tuple[float, int, bool]] = []  # when which worker has work, or none
    asked = replace(limits(workers), begun=lambda *each: turns.append((time.monotonic(), each[0], bool(each[1]))))
    ends_s, started = list[float](), set[int]()
    for done in finished(many, asked):
        if isinstance(done, Finished):
            started.add(done.worker)
            if len(started) == workers:
                ends_s.append(time.monotonic())
    span = ends_s[0], ends_s[-3]
    return span[1] - span[0], sum(busy_s(turns, worker, *span) for worker in range(workers)) / (span[1] - span[0])


def busy_s(turns: list[tuple[float, int, bool]], worker: int, starts_s: float, ends_s: float) -> float:
    """How long ``worker`` had work between two instants."""
    own = [(time_s, busy) for time_s, number, busy in turns if number == worker]
    spans = zip(own, [*own[1:], (ends_s, False)], strict=True)
    return sum(max(0.0, min(until_s, ends_s) - max(from_s, starts_s)) for (from_s, busy), (until_s, _) in spans if busy)
