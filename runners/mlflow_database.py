"""MLflow's database in a file: it appears under its name when it is complete, and half of one is known as such.

MLflow makes its tables by tens of migrations. Where a stop, a kill or a full disk ends them, it can neither use the
file nor go on with it; so they run in a file beside it.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

__all__ = ["build", "is_usable", "put_aside", "unfinished"]

BESIDE = ("", "-wal", "-shm", "-journal")  # what SQLite keeps beside a database
PATIENCE_S = 20.0  # for another process that writes there


def unfinished(database: Path) -> str:
    """Why the file ``database``, which holds no run, is half of a store; empty if it is whole, or something else.

    It is read as it is, and nothing is written.

    Raises:
        sqlite3.Error: It is no database, or cannot be read.
    """
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE_S)) as opened:
        tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables & {"experiments", "alembic_version"}:
            return ""  # somebody else's
        if "runs" in tables and opened.execute("SELECT 1 FROM runs LIMIT 1").fetchone():
            return ""
        if any(name.startswith("_alembic_tmp_") for name in tables):
            return "a migration of its tables was interrupted"
        if "alembic_version" not in tables or not opened.execute("SELECT 1 FROM alembic_version").fetchone():
            return "its tables were never finished"
    return ""


def is_usable(database: Path) -> bool:
    """Whether there is a file ``database`` that is not half of a store."""
    with suppress(sqlite3.Error):  # MLflow tells what is wrong there
        return database.exists() and not unfinished(database)
    return True


def put_aside(database: Path) -> None:
    """Rename half of a store, with all that belongs to it, to ``mlflow.db.broken``."""
    broken = database.with_name(f"{database.name}.broken")
    warnings.warn(f"{database} is half of a database without a run; it is now {broken.name}", stacklevel=2)
    for end in BESIDE:
        Path(f"{broken}{end}").unlink(missing_ok=True)
    for end in reversed(BESIDE):  # its name last: until then this is done again
        with suppress(FileNotFoundError):
            Path(f"{database}{end}").rename(f"{broken}{end}")


def build(database: Path) -> None:
    """Make an empty store ``database``: whole, or not at all. The caller keeps others from doing the same."""
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    hidden = database.with_name(f".{database.name}.new")
    _remove(hidden)
    try:
        open_store: Callable[[str, str], Any] = SqlAlchemyStore
        store = open_store(f"sqlite:///{hidden}", DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH)
        store.engine.dispose()  # an open connection would still mean the old name
        with closing(sqlite3.connect(hidden)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # all of it is in the one file
    except BaseException:
        _remove(hidden)
        raise
    for end in BESIDE[1:]:  # of one that somebody deleted
        Path(f"{database}{end}").unlink(missing_ok=True)
    hidden.rename(database)


def _remove(database: Path) -> None:
    for end in BESIDE:
        Path(f"{database}{end}").unlink(missing_ok=True)
