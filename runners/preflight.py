"""What must hold before the first simulation starts: results can be written, and nobody else writes there.

Nothing is left behind by a check that fails.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from analysis.secrets import shown_words
from analysis.stored import RUNS, TABLE
from runners.locks import lock
from runners.settings import sqlite_file
from runners.shards import Shard
from xsim.errors import SpecError

__all__ = ["answers", "check_place", "check_store", "check_writable", "claimed"]

PROBE_BYTES = 1 << 16
SERVER_S = 3.0
LOCK = ".lock"
GLANCES_S = (0.1, 0.2)  # others look for an instant whether somebody holds it


def check_place(key: str, path: Path) -> None:
    """Write a nameless file in ``path``, or in what there is of it.

    Raises:
        SpecError: That cannot be done; ``key`` is what named the place.
    """
    try:
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as error:
        raise SpecError(key, str(path), str(error.strerror), "name a place that can be written") from None


def check_writable(folder: Path) -> None:
    """Refuse a result folder in which files cannot be made.

    Raises:
        SpecError: A part of its path is no folder, may not be written, is read-only or full.
    """
    for path in (folder, folder / RUNS, folder / TABLE):
        check_place("out", path)


def check_store(uri: str, key: str = "tracking.uri") -> None:
    """Refuse an MLflow store that cannot be opened; whether a server answers shows only later.

    Args:
        uri: Of the store.
        key: What named it.

    Raises:
        SpecError: Its file cannot be written, or the driver of its database is not installed.
    """
    database = sqlite_file(uri)
    if database is not None:
        if database.is_dir():
            raise SpecError(key, uri, f"{database} is a folder", "name a file in it")
        check_place(key, database.parent)
    elif not uri.startswith(("http:", "https:")):
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import SQLAlchemyError

        try:
            make_url(uri).get_dialect().import_dbapi()
        except (ImportError, SQLAlchemyError) as error:
            fix = "install the driver, and name it as in mysql+pymysql://"
            raise SpecError(key, uri, str(error), fix) from None


def answers(uri: str) -> bool:
    """Whether the server of the store ``uri`` takes connections; true of what is no server."""
    place = urlsplit(uri)
    if place.scheme not in ("http", "https") or place.hostname is None:
        return True
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        socket.create_connection((place.hostname, port), timeout=SERVER_S).close()
    except (OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def claimed(folder: Path, argv: Sequence[str], shard: Shard | None = None) -> Iterator[None]:
    """Hold ``folder``, or ``shard`` of its points, alone: two sweeps would simulate every point twice.

    Raises:
        SpecError: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        if shard is not None:
            held.enter_context(_held(folder, LOCK, None))
        held.enter_context(_held(folder, LOCK if shard is None else f"{LOCK}-{shard.name}", argv))
        yield


def _held(folder: Path, name: str, argv: Sequence[str] | None) -> TextIO:
    """The lock ``name`` of ``folder``, with a line on who holds it; without ``argv`` others may hold it too."""
    shared, file = argv is None, None
    for pause_s in (0.0, *GLANCES_S):
        time.sleep(pause_s)
        file = lock(folder / name, shared=shared)
        if file is not None:
            break
    if file is None:
        holder = (folder / name).read_text().strip() or "a part of the points"
        fix = "wait until it ends, or choose another folder by out="
        raise SpecError("out", str(folder), f"another sweep writes there: {holder}", fix)
    file.truncate(0)
    if argv is not None:
        file.write(f"process {os.getpid()} on {socket.gethostname()}, {shlex.join(shown_words(argv))}\n")
        file.flush()
    return file
