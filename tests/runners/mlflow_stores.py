"""MLflow stores for tests: making a database takes seconds, copying one does not."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from runners.mlflow_runs import experiment_of, open_client, runs_of
from runners.store import Store
from runners.track import Tracker

GRID = "some_grid"


FIRST_CONTACT = """
import sys
from runners.mlflow_runs import experiment_of, open_client
client = open_client(sys.argv[1])
client.create_run(experiment_of(client, "other", sys.argv[1]))
"""


def made(folder: Path) -> Path:
    """A database that two processes make at once: without a lock both would fail, and it would stay broken."""
    database = folder / "mlflow.db"
    words = [sys.executable, "-c", FIRST_CONTACT, f"sqlite:///{database}"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ) as other:
        open_client(f"sqlite:///{database}")
        _, errors = other.communicate(timeout=240)
    assert other.returncode == 0, errors
    return database


def copied(template: Path, out: Path) -> str:
    """The URI of an empty store of the results under ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(template)) as source, closing(sqlite3.connect(out / "mlflow.db")) as target:
        source.backup(target)  # what its journal holds is part of it
    return f"sqlite:///{out / 'mlflow.db'}"


def logged(uri: str) -> tuple[list[Any], dict[str, Any]]:
    """Parent runs, and the others by their key, each of which is there once."""
    client = open_client(uri)
    everything = list(runs_of(client, experiment_of(client, GRID, uri), ""))
    children = [run for run in everything if "xsim.key" in run.data.tags]
    by_key = {run.data.tags["xsim.key"]: run for run in children}
    assert len(by_key) == len(children)
    return [run for run in everything if "xsim.sweep" in run.data.tags], by_key


def tracker(uri: str, store: Store, sweep: str = "s1", **more: Any) -> Tracker:
    """Of one sweep into ``store``."""
    return Tracker(uri=uri, grid=GRID, sweep=sweep, folder=store.folder, code="c1", **more)


def track(found: Tracker, rows: Sequence[dict[str, object]] = (), stored: Sequence[str] = ()) -> Tracker:
    """All of it logged."""
    found.add_stored(stored)
    found.start()
    for row in rows:
        found.add(row)
    found.close()
    assert found.problem == ""
    return found
