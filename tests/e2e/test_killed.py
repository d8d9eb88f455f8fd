"""A sweep whose simulations go wrong and that is killed again and again ends with every row, by the same command."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

import analysis
from runners import leftovers
from runners.cli import read_command
from runners.points import plan_single
from runners.worker import simulate
from tests.faulty_worker import FATES, FOLDER, STATUS

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
POINTS = 60 if SOAK else 32  # among which each fate is at least once
PATIENCE_S = 120.0  # for what has to happen some time; nothing here is measured
DRIVER = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
KILLS: list[str | signal.Signals] = ["worker", "raylet", *DRIVER, "worker", "gcs_server", "worker"]


def until(holds: Callable[[], bool], what: str) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_s, what
        time.sleep(0.05)


class Sweep:
    """The command, started as often as it takes."""

    def __init__(self, folder: Path, short: Path) -> None:
        self.folder, self.short = folder, short
        self.words = [
            "network=analytic",
            f"model.seq_len=range(128,{128 * POINTS + 1},128)",
            *("num_workers=2", "timeout_s=15", "reserve.analytic.memory=2GB", "retries=1", f"out={folder / 'outputs'}"),
        ]
        self.environment = os.environ | {FOLDER: str(folder), "TMPDIR": str(short)}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runners.sweep", *self.words],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def rows(self) -> int:
        return len(list((self.folder / "outputs" / "adhoc" / "runs").glob("*/*.arrow")))

    @property
    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def victims(self, name: str) -> list[psutil.Process]:
        assert self.process is not None
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
            return [one for one in found if one.name().startswith(name) and one.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []

    def kill(self, victim: str | signal.Signals, choose: random.Random) -> None:
        """One of its processes, or itself; whatever Ray started for it is gone then, and so are its files."""
        assert self.process is not None
        if isinstance(victim, str):
            name = "ray::Worker" if victim == "worker" else victim
            until(lambda: bool(self.victims(name)) or self.ended, f"no {name} starts")
            for process in self.victims(name)[: choose.choice((1, 1, 2))]:
                process.kill()
            return
        self.process.send_signal(victim)
        until(lambda: self.ended, f"it does not end by {victim.name}")
        assert self.process.returncode in (-9, -2, -15, 0, 1, 130, 143)
        until(self.left_nothing, "something is left behind")

    def left_nothing(self) -> bool:
        return not list(leftovers.holders(str(self.short))) and not list(self.short.glob("xsim-ray-*"))


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    """Not yet started. Its temporary files lie where names are so short that Ray's sockets fit in."""
    short = Path(tempfile.mkdtemp(prefix="xk", dir="/tmp"))
    made = Sweep(tmp_path, short)
    yield made
    if made.process is not None:
        made.process.kill()
        until(made.left_nothing, "something is left behind")
    shutil.rmtree(short)


def sound_metrics() -> str:
    plan = plan_single(read_command(["network=analytic"], ""))
    return json.dumps(dict(simulate(plan.points[0].config)["metrics"]))


@pytest.mark.parametrize("seed", range(4 if SOAK else 1))
def test_kills_lose_nothing(sweep: Sweep, tmp_path: Path, seed: int) -> None:
    """Of workers, of Ray's servers (ray 44704: it takes the driver along after a minute), and of the driver.

    No dead worker keeps its slot (ray 62746), every failure has its own traceback (hydra 2284), done is done
    (hydra 1407), a file is whole or not there (arrow 3203), and no process or file is left (ray 31451, 2005, 62961).
    """
    choose = random.Random(seed)
    kills = KILLS * (3 if SOAK else 1)
    if SOAK:
        choose.shuffle(kills)
    (tmp_path / "metrics.json").write_text(sound_metrics())
    sweep.start()
    for victim in kills:
        goal = min(sweep.rows + choose.choice((0, 1, 2, 4)), POINTS - 4)
        until(lambda goal=goal: sweep.rows >= goal or sweep.ended, "no row comes")  # type: ignore[misc]
        time.sleep(choose.random() * 0.3)
        if sweep.ended:
            sweep.start()
        sweep.kill(victim, choose)
        if sweep.ended:
            sweep.start()
    assert sweep.process is not None
    until(lambda: sweep.ended, "it does not end")
    if sweep.process.returncode != 1:
        sweep.start()
        until(lambda: sweep.ended, "it does not end")

    assert sweep.process.returncode == 1, (tmp_path / "log").read_text()
    table = analysis.load(tmp_path / "outputs" / "adhoc")
    check_rows(table.to_pylist())
    check_mlflow(tmp_path / "outputs" / "mlflow.db", table.to_pylist())
    until(sweep.left_nothing, "something is left behind")
    log = (tmp_path / "log").read_text()
    assert f"{POINTS} points" in log
    assert "Traceback" not in log


def check_rows(rows: list[dict[str, object]]) -> None:
    assert len(rows) == len({row["key"] for row in rows}) == POINTS
    found = {int(str(row["point"]).partition("=")[2]) // 128: row for row in rows}
    assert {FATES[number] for number in found.keys() & FATES.keys()} == set(FATES.values())
    for number, row in found.items():
        fate = FATES.get(number, "")
        assert row["status"] == STATUS.get(fate, "ok"), (number, fate, row)
        time_s = row["training_time_s"]
        if fate == "is nan":
            assert isinstance(time_s, float)
            assert math.isnan(time_s)
        else:
            assert time_s == (number if row["status"] == "ok" else None)
    assert "KeyError: 'no 5'" in str(found[5]["reason"])
    assert "Traceback" in str(found[5]["details"])
    assert "more memory than its process may use: 2.0 GB" in str(found[7]["reason"])
    assert "timeout_s=15" in str(found[29]["reason"])
    assert int(str(found[13]["attempt"])) >= 2


def check_mlflow(database: Path, rows: list[dict[str, object]]) -> None:
    client = MlflowClient(f"sqlite:///{database}")
    (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
    runs = client.search_runs([experiment.experiment_id], max_results=5000)
    children = {run.data.tags["xsim.key"]: run for run in runs if "xsim.key" in run.data.tags}
    assert len(runs) == 1 + POINTS
    assert Counter(run.info.status for run in runs)["RUNNING"] == 0
    assert set(children) == {row["key"] for row in rows}
    for row in rows:
        run = children[str(row["key"])]
        assert run.data.tags["xsim.status"] == row["status"]
        time_s = row["training_time_s"]
        known = isinstance(time_s, float) and math.isfinite(time_s)
        assert run.data.metrics.get("training_time_s") == (time_s if known else None)
