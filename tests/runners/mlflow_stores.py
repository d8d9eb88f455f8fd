"""MLflow stores for tests: making a database takes seconds, copying one does not."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from runners.mlflow_runs import experiment_of, open_client, runs_of
from runners.mlflow_writer import Ending, Target, Writer, serve
from runners.store import Store

GRID = "some_grid"


FIRST_CONTACT = """
import sys
from pathlib import Path
from runners.mlflow_runs import experiment_of, open_client
client = open_client(sys.argv[1])
client.create_run(experiment_of(client, "other", sys.argv[1], Path()))
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
    everything = list(runs_of(client, experiment_id(client, uri), ""))
    children = [run for run in everything if "xsim.key" in run.data.tags]
    by_key = {run.data.tags["xsim.key"]: run for run in children}
    assert len(by_key) == len(children)
    return [run for run in everything if "xsim.sweep" in run.data.tags], by_key


def experiment_id(client: Any, uri: str) -> str:
    """Of all sweeps here."""
    return experiment_of(client, GRID, uri, Path("outputs", GRID).absolute())


def target(uri: str, store: Store, sweep: str = "s1", part: str = "") -> Target:
    """Of one sweep into ``store``."""
    return Target(uri=uri, grid=GRID, sweep=sweep, folder=store.folder, code="c1", part=part)


def log(
    to: Target, rows: Sequence[dict[str, object]] = (), stored: Sequence[str] = (), status: str = "FAILED", **more: Any
) -> None:
    """All of it written, in this process."""
    Writer(to).write(rows, Ending(status, keys=stored, **more))


class WriterThread:
    """Stands for the process of ``runners.mlflow_writer``, where a test looks into what it does or needs no new one."""

    def __init__(self) -> None:
        asked, answers = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(asked[1], "w", buffering=1), os.fdopen(answers[0])
        self._ends = os.fdopen(asked[0]), os.fdopen(answers[1], "w")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        lines, answers = self._ends
        with suppress(BrokenPipeError), lines, answers:  # a test that is over reads no answer
            answers.write(json.dumps(serve(lines)))

    def __enter__(self) -> WriterThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()

    def wait(self) -> int:
        self._thread.join()
        return 0

    def kill(self) -> None:
        """A thread cannot be killed; it ends with the test's process."""
