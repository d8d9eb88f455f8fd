"""Sweeps of simulations that go wrong, by the command, and what has to be there in the end."""

from __future__ import annotations

import functools
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
from contextlib import contextmanager
from pathlib import Path

import psutil
from mlflow import MlflowClient

from runners import leftovers
from runners.cli import read_command
from runners.mlflow_runs import runs_of
from runners.points import plan_single
from runners.worker import simulate
from tests.faulty_worker import FATES, FOLDER, STATUS

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0  # for what has to happen some time; nothing here is measured
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
POINTS = 60
WRITER = "MLflow's writer"


def until(holds: Callable[[], bool], what: str) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_s, what
        time.sleep(0.05)


class Sweep:
    """The command, started as often as it takes; a simulation may take so long.

    Its temporary files lie in ``short``, a name so short that Ray's sockets fit in.
    """

    def __init__(self, folder: Path, short: Path, *words: str, timeout_s: int = 15) -> None:
        self.folder, self.short = folder, short
        self.words = [
            "network=analytic",
            f"model.seq_len=range(128,{128 * POINTS + 1},128)",
            *words,
            *("num_workers=2", "retries=3", "reserve.analytic.memory=2GB"),  # a point may be hit more than once
            *(f"timeout_s={timeout_s}", f"out={folder / 'outputs'}"),
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

    def writers(self) -> list[psutil.Process]:
        """The process that writes for MLflow, if it runs."""
        return [one for one in self.victims("python") if "runners.mlflow_writer" in one.cmdline()]

    def kill(self, victim: str | signal.Signals, choose: random.Random) -> None:
        """One of its processes, or itself; whatever Ray started for it is gone then, and so are its files."""
        assert self.process is not None
        if isinstance(victim, str):
            name = "ray::Worker" if victim == "worker" else victim
            found = self.writers if victim == WRITER else functools.partial(self.victims, name)
            until(lambda: bool(found()) or self.ended, f"no {name} starts")
            for process in found()[: choose.choice((1, 1, 2))]:
                process.kill()
            return
        self.process.send_signal(victim)
        until(lambda: self.ended, f"it does not end by {victim.name}")
        assert self.process.returncode in (-9, -2, -15, 0, 1, 130, 143)
        until(self.left_nothing, "something is left behind")

    def finish(self) -> None:
        """Until all is done; it may have been stopped, or MLflow's writer have been killed."""
        until(lambda: self.ended, "it does not end")
        assert self.process is not None
        if self.process.returncode != 1 or "the same command logs the rest" in (self.folder / "log").read_text():
            self.start()
            until(lambda: self.ended, "it does not end")
        assert self.process.returncode == 1, (self.folder / "log").read_text()

    def left_nothing(self) -> bool:
        """Neither a process of Ray nor its files."""
        return not list(leftovers.holders(str(self.short))) and not list(self.short.glob("xsim-ray-*"))


@contextmanager
def prepared(folder: Path, *words: str, timeout_s: int = 15) -> Iterator[Sweep]:
    """Not yet started; in the end nothing is left of it but its results in ``folder``."""
    short = Path(tempfile.mkdtemp(prefix="xk", dir="/tmp"))
    made = Sweep(folder, short, *words, timeout_s=timeout_s)
    note_sound_metrics(folder)
    yield made
    if made.process is not None:
        made.process.kill()
        until(made.left_nothing, "something is left behind")
    shutil.rmtree(short)


def note_sound_metrics(folder: Path) -> None:
    """What the simulations that go well are to answer."""
    plan = plan_single(read_command(["network=analytic"], ""))
    (folder / "metrics.json").write_text(json.dumps(dict(simulate(plan.points[0].config)["metrics"])))


def check_rows(rows: list[dict[str, object]], timeout_s: int) -> None:
    """Of one sweep, or of one of its seeds."""
    assert len(rows) == len({row["key"] for row in rows}) == POINTS
    found = {json.loads(str(row["config_json"]))["model"]["seq_len"] // 128: row for row in rows}
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
    assert f"timeout_s={timeout_s}" in str(found[29]["reason"])
    assert int(str(found[13]["attempt"])) >= 2


def check_mlflow(database: Path, rows: list[dict[str, object]]) -> None:
    """It says what the tables say."""
    client = MlflowClient(f"sqlite:///{database}")
    (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
    runs = list(runs_of(client, experiment.experiment_id, ""))
    children = {run.data.tags["xsim.key"]: run for run in runs if "xsim.key" in run.data.tags}
    assert len(runs) == 1 + len(rows)
    assert Counter(run.info.status for run in runs)["RUNNING"] == 0
    assert set(children) == {row["key"] for row in rows}
    for row in rows:
        run = children[str(row["key"])]
        assert run.data.tags["xsim.status"] == row["status"]
        time_s = row["training_time_s"]
        known = isinstance(time_s, float) and math.isfinite(time_s)
        assert run.data.metrics.get("training_time_s") == (time_s if known else None)
