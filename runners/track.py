"""The MLflow side: a projection of the result tables for browsing, which can be rebuilt from them at any time.

The process that started the sweep is the only writer, in a thread of its own that the sweep never waits for until the
end. A row goes to MLflow after it is safe on disk. A run is found again by its tag ``xsim.key``, so nothing is
doubled; a journal beside the tables spares a repeated sweep the question.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.stored import read_json
from runners.options import LABELS
from runners.settings import sqlite_file
from runners.titles import title
from xsim.metrics import COLUMNS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from runners.store import Row

__all__ = ["Tracker", "tracked"]

JOURNAL = "tracked.json"
CONFIG = "config.json"  # the artifact of a run
TAG_LIMIT = 5000  # MLflow cuts longer tags silently

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "GIT_PYTHON_REFRESH": "quiet",
}
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}  # MLflow's: 4 minutes and more
FIGURES = tuple(column.name for column in COLUMNS if column.kind != "text")


def tracked(folder: Path, uri: str) -> set[str]:
    """Keys of the runs of the tables in ``folder`` that the store at ``uri`` has."""
    journal = read_json(folder / JOURNAL)
    database = sqlite_file(uri)
    if journal.get("uri") != uri or (database is not None and not database.exists()):
        return set()
    return set(journal["keys"])


@dataclass(slots=True)
class Tracker:
    """Logs rows from a thread; ``close`` waits for it.

    Attributes:
        uri: Tracking URI, absolute.
        grid: Name of the MLflow experiment.
        sweep: Identity of the sweep; its parent run carries it as a tag.
        folder: Of the tables; the journal lies there.
        code: Hash of the simulator.
        status: How the sweep ended: FINISHED, FAILED or KILLED.
        problem: Why tracking stopped, if it did. The tables are not touched by that.
    """

    uri: str
    grid: str
    sweep: str
    folder: Path
    code: str
    status: str = "FAILED"
    problem: str = ""
    _rows: queue.Queue[Row | None] = field(default_factory=queue.Queue)
    _thread: threading.Thread | None = None
    _keys: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Load MLflow and open the store: seconds, which pass beside the first simulations."""
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def add(self, row: Row) -> None:
        """Log ``row`` when there is time."""
        self._rows.put(row)

    def close(self) -> None:
        """End the parent run with ``status`` after the last row, if it was started."""
        if self._thread is None:
            return
        self._rows.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            try:
                self._log_all()
            finally:
                self._write_journal()
        except Exception as error:  # whatever MLflow raises, the sweep goes on
            self.problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

    def _log_all(self) -> None:
        client = _client(self.uri)
        self._keys = tracked(self.folder, self.uri)
        experiment = _experiment(client, self.grid, self.uri)
        parent = self._parent(client, experiment)
        while (row := self._rows.get()) is not None:
            key = str(row["key"])
            old = client.search_runs([experiment], f"tags.`xsim.key` = '{key}'", max_results=1)
            if not old or not _is_of(old[0], row):
                for run in old:
                    client.delete_run(run.info.run_id)
                _log(client, experiment, parent, row)
            self._keys.add(key)
        client.set_terminated(parent, self.status)

    def _parent(self, client: MlflowClient, experiment: str) -> str:
        found = client.search_runs([experiment], f"tags.`xsim.sweep` = '{self.sweep}'", max_results=1)
        if found:
            run_id: str = found[0].info.run_id
            client.update_run(run_id, status="RUNNING")
            return run_id
        tags = {"xsim.sweep": self.sweep, "xsim.code": self.code}
        created: str = client.create_run(experiment, run_name=f"sweep {self.grid}", tags=tags).info.run_id
        return created

    def _write_journal(self) -> None:
        from runners.store import write_whole

        if self._keys:
            text = json.dumps({"uri": self.uri, "keys": sorted(self._keys)})
            write_whole(self.folder / JOURNAL, text.encode())


def _log(client: MlflowClient, experiment: str, parent: str, row: Row) -> None:
    """One nested run: everything in one batch, and an explicit end."""
    from mlflow.entities import Metric, Param

    now_ms = int(time.time() * 1000)
    started_ms = now_ms - int(1000 * float(str(row["wall_s"])))
    tags = {
        "mlflow.parentRunId": parent,
        "xsim.key": str(row["key"]),
        "xsim.identity": _identity(row),
        "xsim.status": str(row["status"]),
        "xsim.reason": str(row["reason"])[:TAG_LIMIT],
        "xsim.code": str(row["code"]),
    }
    run = client.create_run(experiment, start_time=started_ms, tags=tags, run_name=_title(row))
    run_id = run.info.run_id
    metrics = [Metric(name, value, now_ms, 0) for name, value in _figures(row)]
    params = [
        Param(name, str(row[name])) for name in (*LABELS, "seed", "batch", "point") if row[name] not in (None, "")
    ]
    client.log_batch(run_id, metrics=metrics, params=params)
    client.log_text(run_id, json.dumps(json.loads(str(row["config_json"])), indent=1), CONFIG)
    client.set_terminated(run_id, "FINISHED" if row["status"] in ("ok", "does_not_fit", "invalid") else "FAILED")


def _figures(row: Row) -> Iterator[tuple[str, float]]:
    """Figures that MLflow can hold: it mangles infinities and counts NaN as 0."""
    for name in FIGURES:
        value = row[name]
        if isinstance(value, int | float) and math.isfinite(value):
            yield name, float(value)


def _identity(row: Row) -> str:
    """Differs if the same key was run again."""
    return f"{row['status']} {row['attempt']} {row['wall_s']}"


def _is_of(run: Run, row: Row) -> bool:
    """Whether ``run`` is the whole of ``row``: a crash leaves the half of one."""
    return run.info.status != "RUNNING" and run.data.tags["xsim.identity"] == _identity(row)


def _title(row: Row) -> str:
    labels = {label: None if row[label] is None else str(row[label]) for label in LABELS}
    batch, seed = int(str(row["batch"])), int(str(row["seed"]))
    return title(labels, str(row["point"]), batch=batch, seed=seed, sound=row["status"] != "invalid")


def _client(uri: str) -> MlflowClient:
    """A client whose store is ready: two sweeps that met on a new database would break it, so one waits."""
    os.environ.update(ENVIRONMENT | {name: os.environ.get(name, value) for name, value in PATIENCE.items()})
    os.environ.pop("MLFLOW_RUN_ID", None)  # a shell's run would capture ours
    from mlflow import MlflowClient

    database = sqlite_file(uri)
    if database is None:
        return MlflowClient(uri)
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(f".{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            for config in _artifacts(database).glob(f"*/*/artifacts/{CONFIG}"):  # runs of one that was deleted
                shutil.rmtree(config.parents[1])
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")  # it persists, and halves the cost of a run
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
    return client


def _experiment(client: MlflowClient, name: str, uri: str) -> str:
    """Id of the experiment ``name``, which is made if there is none."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        there: str = found.experiment_id
        return there
    database = sqlite_file(uri)
    made: str = client.create_experiment(
        name, artifact_location=None if database is None else (_artifacts(database) / name).as_uri()
    )
    return made


def _artifacts(database: Path) -> Path:
    """Folder of the files that belong to the runs in ``database`` alone."""
    return database.with_name(f"{database.stem}-artifacts")
