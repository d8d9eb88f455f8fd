"""What could spoil a long sweep where its results lie: disks, earlier sweeps, MLflow's store; as ``checks`` does."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from analysis.secrets import shown
from runners.checks import Finding, gigabytes, there
from xsim.errors import SpecError

__all__ = ["mlflow_store", "places", "sweeps"]

RUN_BYTES = 60_000  # of a run: its row, its share of the table, what MLflow keeps (20 kB) and its config
ROOM_RUNS = 10_000
RAY_BYTES = 1 << 30  # its logs, and objects that do not fit into shared memory
SKEW_S = 60.0


def places(out: Path) -> Iterator[Finding]:
    """Disk: room, files, locks and clock of the folder of all results, and room for Ray's files."""
    from runners.preflight import check_writable

    try:
        check_writable(out)
    except SpecError as error:
        yield Finding("results", "problem", f"{out}: {error.problem}", error.fix)
        return
    folder = there(out)
    for what, place, need in (
        ("results", folder, ROOM_RUNS * RUN_BYTES),
        ("Ray's files", Path(tempfile.gettempdir()), RAY_BYTES),
    ):
        free, counts = shutil.disk_usage(place).free, os.statvfs(place)
        short = free < need or (counts.f_files and counts.f_favail < ROOM_RUNS)
        text = f"{gigabytes(free)} free in {place}"
        fix = "make room, or choose another disk " + ("by out=" if what == "results" else "by TMPDIR") if short else ""
        yield Finding(what, "problem" if free < need / 10 else "warning" if short else "ok", text, fix)
    yield from _disk(folder)


def sweeps(out: Path) -> Iterator[Finding]:
    """What lies in the folder of all results: whether it can be read, and who writes there now."""
    from analysis.stored import RUNS, TABLE, stored
    from runners.locks import lock
    from runners.preflight import LOCK

    for folder in sorted(path for path in out.glob("*/") if (path / RUNS).is_dir() or (path / TABLE).is_dir()):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                table = stored(folder, ("key", "status"))
            except SpecError as error:
                yield Finding(folder.name, "problem", error.problem, error.fix)
                continue
        text = f"{0 if table is None else table.num_rows} rows"
        if (folder / LOCK).is_file():
            if (held := lock(folder / LOCK, shared=True)) is None:
                text += f"; {(folder / LOCK).read_text().strip()} writes there now"
            else:
                held.close()
        broken = "; ".join(str(warning.message) for warning in heard)
        fix = "the same sweep runs them again; delete what is broken" if broken else ""
        yield Finding(folder.name, "warning" if broken else "ok", f"{text}; {broken}" if broken else text, fix)


def mlflow_store(uri: str) -> Iterator[Finding]:
    """MLflow's versions, and whether its store is whole or answers."""
    from runners.manifest import version_of
    from runners.mlflow_database import unfinished
    from runners.preflight import check_store
    from runners.settings import sqlite_file

    pair = {name: version_of(name) for name in ("mlflow", "mlflow-skinny")}
    same = len(set(pair.values())) == 1
    fix, half = "" if same else "install both in one version", ""
    yield Finding("mlflow", "ok" if same else "problem", ", ".join(f"{k} {v}" for k, v in pair.items()), fix)
    try:
        check_store(uri)
        database = sqlite_file(uri)
        if database is None:
            problem = _answers(uri)
        elif database.exists():
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as connection:
                problem = str(connection.execute("PRAGMA quick_check").fetchone()[0])
            half = unfinished(database)
        else:
            problem = "ok"
    except SpecError as error:
        problem, fix = error.problem, error.fix
    except (OSError, sqlite3.Error) as error:
        problem = str(error)
    if problem != "ok":
        fix = fix or "start the server, or move the file away: python -m runners.export FOLDER makes it anew"
        yield Finding("MLflow store", "problem", f"{shown(uri)}: {problem}", fix)
    elif half:
        yield Finding("MLflow store", "warning", f"{shown(uri)}: {half}", "the next sweep makes it anew")
    else:
        yield Finding("MLflow store", "ok", shown(uri))


def _disk(folder: Path) -> Iterator[Finding]:
    """Whether locks hold, and whether the disk has our clock."""
    import fcntl

    with tempfile.NamedTemporaryFile(dir=folder, prefix=".xsim-") as probe, Path(probe.name).open() as other:
        skew_s = abs(os.fstat(probe.fileno()).st_mtime - time.time())
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locks = False
        except BlockingIOError:
            locks = True
        except OSError:
            locks = False
    fix = "" if locks else "start one sweep at a time there"
    yield Finding("locks", "ok" if locks else "warning", "hold" if locks else "this disk has none", fix)
    if skew_s > SKEW_S:
        yield Finding(
            "clock", "warning", f"the disk's differs by {skew_s:.0f} s", "set the clocks; no result depends on it"
        )


def _answers(uri: str) -> str:
    """``ok``, or why nobody answers at ``uri``."""
    if uri.startswith(("http:", "https:")):
        from urllib.parse import urlparse

        place = urlparse(uri)
        with socket.create_connection(
            (place.hostname or "", place.port or (443 if place.scheme == "https" else 80)), 5
        ):
            return "ok"
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    engine = create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(text("select 1"))
    except SQLAlchemyError as error:
        return shown(str(error).splitlines()[0])
    finally:
        engine.dispose()
    return "ok"
