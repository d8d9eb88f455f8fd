"""MLflow's stores and the runs of sweeps in them: how they are opened, begun, found again and ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from runners.mlflow_database import build, is_usable, put_aside
from runners.mlflow_row import ARTIFACT
from runners.settings import default_uri, sqlite_file
from runners.whole_files import write_whole

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = [
    "ENVIRONMENT",
    "end_sweep",
    "experiment_of",
    "identity",
    "is_own",
    "open_client",
    "origin",
    "process",
    "runs_of",
    "sweep_run",
    "writes",
    "written_by",
]

PART = "xsim.part."  # begins a tag of a parent run: how that part of the sweep ended
ENDS = ("KILLED", "FAILED", "FINISHED")  # the worst first
IDENTITY = "identity"
SETTLED_S = 2.0  # longer than a store takes to make a run that was asked for

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "GIT_PYTHON_REFRESH": "quiet",
}
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}  # MLflow's: 4 minutes and more


def open_client(uri: str) -> MlflowClient:
    """A client whose store is ready: two sweeps that met on a new database would break it, so one waits."""
    os.environ.update(ENVIRONMENT | {name: os.environ.get(name, value) for name, value in PATIENCE.items()})
    os.environ.pop("MLFLOW_RUN_ID", None)  # a shell's run would capture ours
    from mlflow import MlflowClient

    database = sqlite_file(uri)
    if database is None:
        return MlflowClient(uri)
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(f".{database.name}.lock").open("w") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if database.exists() and not is_usable(database):
            put_aside(database)
        if not database.exists():
            for config in _artifacts(database).glob(f"*/*/artifacts/{ARTIFACT}"):  # runs of one that was deleted
                shutil.rmtree(config.parents[1])
            build(database)
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")  # it persists, and halves the cost of a run
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
    return client


def experiment_of(client: MlflowClient, name: str, uri: str, folder: Path) -> str:
    """Id of the experiment ``name``, which is made if there is none, and taken back if somebody deleted it.

    The files of its runs lie beside the database, if that is one of this machine's files; those of another database
    beside the tables in ``folder``; a server knows where.
    """
    found = client.get_experiment_by_name(name)
    if found is not None:
        there: str = found.experiment_id
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(there)
        return there
    database = sqlite_file(uri)
    beside = _artifacts(database or folder.parent / "mlflow.db") / name
    place = None if uri.startswith(("http:", "https:")) else beside.absolute().as_uri()
    from mlflow.exceptions import MlflowException

    try:
        made: str = client.create_experiment(name, artifact_location=place)
    except MlflowException:
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        made = found.experiment_id  # another sweep was faster
    return made


def runs_of(client: MlflowClient, experiment: str, where: str) -> Iterator[Run]:
    """Runs for which the filter ``where`` holds."""
    token: str | None = None
    while True:
        page = client.search_runs([experiment], where, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def origin(folder: Path) -> str:
    """Whence the runs of the tables in ``folder`` come, for people: another host may have a folder of that name too."""
    return f"{socket.gethostname()}:{folder}"


@lru_cache(maxsize=16)
def identity(folder: Path) -> str:
    """What tells the tables in ``folder`` from all others, whatever host sees them; made when it is first asked for."""
    path = folder / IDENTITY
    if not path.exists():
        own = uuid.uuid4().hex
        hidden = folder / f".{own}.{os.getpid()}@{socket.gethostname()}"
        write_whole(hidden, own.encode())
        try:
            os.link(hidden, path)
        except FileExistsError:  # another part of the sweep was faster
            pass
        except OSError:  # a file system without hard links
            hidden.rename(path)
        hidden.unlink(missing_ok=True)
    return path.read_text()


def is_own(tags: Mapping[str, str], folder: Path, uri: str) -> bool:
    """Whether a run with ``tags`` in the store at ``uri`` is one of the tables in ``folder``."""
    if "xsim.origin" in tags:
        return tags["xsim.origin"] == identity(folder)
    own = origin(folder)  # earlier versions said that much, or nothing
    return tags.get("xsim.folder", own if uri == default_uri(folder.parent) else "") == own


def process(number: int) -> str:
    """The process of that number on this machine, told apart from others that had it before; empty if it has ended."""
    try:
        stat = Path("/proc", str(number), "stat").read_text()
    except OSError:
        return ""
    return f"{number} since {stat.rpartition(')')[2].split()[19]}"


def writes(run: Run) -> bool:
    """Whether another process of this machine, which lives, writes ``run``: another part of a sweep."""
    writer: str = run.data.tags.get("xsim.process", "")
    number = writer.partition(" ")[0]
    return number.isdigit() and int(number) != os.getpid() and process(int(number)) == writer


def sweep_run(
    client: MlflowClient, experiment: str, sweep: str, *, name: str, code: str, folder: Path, uri: str, part: str = ""
) -> str:
    """Id of the parent run of a sweep, RUNNING; that of an earlier start, or of another ``part``, is continued.

    Parts that start at once make one each before they see that of another. None looks again sooner than all of these
    are there; then everybody takes the oldest.
    """
    tags = {"xsim.sweep": sweep, "xsim.code": code, **written_by(folder)}
    run_id = _oldest(client, experiment, sweep, folder, uri)
    if not run_id:
        run_id = made = str(client.create_run(experiment, run_name=name, tags=tags).info.run_id)
        if part:
            time.sleep(SETTLED_S)
            run_id = _oldest(client, experiment, sweep, folder, uri)
            if run_id != made:
                client.delete_run(made)
    client.update_run(run_id, status="RUNNING")
    for tag, value in {**written_by(folder), **({PART + part: "RUNNING"} if part else {})}.items():
        client.set_tag(run_id, tag, value)
    return run_id


def end_sweep(client: MlflowClient, run_id: str, status: str, part: str = "") -> None:
    """End the parent run with ``status``; of a sweep in parts when the last has ended, and as the worst of them did."""
    states = {status}
    if part:
        client.set_tag(run_id, PART + part, status)
        tags = client.get_run(run_id).data.tags
        states = {value for tag, value in tags.items() if tag.startswith(PART)}
    if "RUNNING" not in states:
        client.set_terminated(run_id, next(each for each in ENDS if each in states))


def _oldest(client: MlflowClient, experiment: str, sweep: str, folder: Path, uri: str) -> str:
    """The first of the parent runs of ``sweep`` into ``folder``; empty if there is none."""
    every = runs_of(client, experiment, f"tags.`xsim.sweep` = '{sweep}'")
    found = [run.info for run in every if is_own(run.data.tags, folder, uri)]
    return min(((info.start_time, str(info.run_id)) for info in found), default=(0, ""))[1]


def written_by(folder: Path) -> dict[str, str]:
    """Tags that say whose a run is."""
    return {"xsim.origin": identity(folder), "xsim.folder": origin(folder), "xsim.process": process(os.getpid())}


def _artifacts(database: Path) -> Path:
    """Folder of the files that belong to the runs in ``database`` alone."""
    return database.with_name(f"{database.stem}-artifacts")
