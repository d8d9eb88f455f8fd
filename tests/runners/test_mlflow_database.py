"""A store that was never finished is made anew, and none is left unfinished."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from runners import mlflow_database, result_checks
from runners.mlflow_database import is_usable, unfinished
from runners.mlflow_runs import experiment_of, open_client
from runners.mlflow_writer import tracked
from runners.whole_files import write_whole

TABLE = "CREATE TABLE runs (run_uuid TEXT)"
EXPERIMENTS = "CREATE TABLE experiments (experiment_id INTEGER)"
VERSION = "CREATE TABLE alembic_version (version_num TEXT)"
HALVES = [
    [],
    [EXPERIMENTS, TABLE],
    [TABLE, VERSION],
    [TABLE, VERSION, "INSERT INTO alembic_version VALUES ('451aebb31d03')", "CREATE TABLE _alembic_tmp_runs (x TEXT)"],
]


def half(path: Path, steps: list[str]) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for step in steps:
            connection.execute(step)
        connection.commit()
    path.touch()
    return path


@pytest.mark.parametrize("steps", HALVES)
def test_half_of_a_store_is_known_and_one_with_runs_is_left_alone(tmp_path: Path, steps: list[str]) -> None:
    database = half(tmp_path / "mlflow.db", steps)
    before = database.read_bytes()

    assert unfinished(database)
    assert not is_usable(database)
    found = {finding.what: finding for finding in result_checks.mlflow_store(f"sqlite:///{database}")}
    assert (found["MLflow store"].state, found["MLflow store"].fix) == ("warning", "the next sweep makes it anew")
    assert database.read_bytes() == before

    if steps:
        half(database, ["INSERT INTO runs VALUES ('r1')"])
        assert is_usable(database)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    assert is_usable(half(tmp_path / "mine.db", ["CREATE TABLE songs (title TEXT)"]))


def test_a_store_that_was_never_finished_is_made_anew(tmp_path: Path) -> None:
    """And what a journal says of it counts no more."""
    database = half(tmp_path / "mlflow.db", HALVES[-1])
    uri = f"sqlite:///{database}"
    (tmp_path / ".mlflow.db.new").write_bytes(b"half of another")
    write_whole(tmp_path / "tracked.json", b'{"uri": "%s", "working": false, "keys": ["k1"]}' % uri.encode())
    assert tracked(tmp_path, uri) == set()

    with pytest.warns(UserWarning, match=r"is half of a database without a run; it is now mlflow.db.broken"):
        client = open_client(uri)

    assert experiment_of(client, "mine", uri, tmp_path)
    assert is_usable(database)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert unfinished(tmp_path / "mlflow.db.broken")
    assert not list(tmp_path.glob(".mlflow.db.new*"))


def test_what_ends_the_making_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "mlflow.db"

    def full(uri: str, _artifacts: str) -> None:
        half(Path(uri.removeprefix("sqlite:///")), HALVES[-1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlflow.store.tracking.sqlalchemy_store.SqlAlchemyStore", full)
    with pytest.raises(OSError, match="No space left"):
        mlflow_database.build(database)

    assert not list(tmp_path.iterdir())
