"""A sweep whose simulations go wrong and that is killed again and again ends with every row, by the same command."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

import analysis
from tests.e2e.faulty_sweeps import POINTS, SOAK, WRITER, Sweep, check_mlflow, check_rows, prepared, until

TIMEOUT_S = 15
DRIVER = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
KILLS: list[str | signal.Signals] = ["worker", "raylet", *DRIVER, "worker", WRITER, "gcs_server", "worker"]


@pytest.mark.parametrize("seed", range(4 if SOAK else 1))
def test_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Of workers, Ray's servers (ray 44704: it takes the driver along after a minute), MLflow's writer, and the driver.

    No dead worker keeps its slot (ray 62746), every failure has its own traceback (hydra 2284), done is done
    (hydra 1407), a file is whole or not there (arrow 3203), and no process or file is left (ray 31451, 2005, 62961).
    """
    choose = random.Random(seed)
    kills = KILLS * (3 if SOAK else 1)
    if SOAK:
        choose.shuffle(kills)
    with prepared(tmp_path, timeout_s=TIMEOUT_S) as sweep:
        sweep.start()
        for victim in kills:
            hit(sweep, victim, choose)
        sweep.finish()

        rows = analysis.load(tmp_path / "outputs" / "adhoc").to_pylist()
        check_rows(rows, TIMEOUT_S)
        check_mlflow(tmp_path / "outputs" / "mlflow.db", rows)
        until(sweep.left_nothing, "something is left behind")
    log = (tmp_path / "log").read_text()
    assert f"{POINTS} points" in log
    assert "Traceback" not in log


def hit(sweep: Sweep, victim: str | signal.Signals, choose: random.Random) -> None:
    """Kill ``victim`` some rows later, and start again what has ended by that."""
    goal = min(sweep.rows + choose.choice((0, 1, 2, 4)), POINTS - 4)
    until(lambda: sweep.rows >= goal or sweep.ended, "no row comes")
    time.sleep(choose.random() * 0.3)
    if sweep.ended:
        sweep.start()
    sweep.kill(victim, choose)
    if sweep.ended:
        sweep.start()
