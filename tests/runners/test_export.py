"""MLflow from the tables alone: as often as one likes, and equal to them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runners import export
from runners.mlflow_runs import open_client, origin
from runners.preflight import claimed
from runners.store import Store
from tests.runners.mlflow_stores import GRID, copied, log, logged, target
from tests.runners.test_store import write


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sweeps: k1 and k2, of which the second asked for again beside k3, which failed; and k0 of an earlier code."""
    store = Store(tmp_path / "outputs" / GRID)
    write(store, "k0", code="c0")
    for start, keys in (("2026-01-01", ("k1", "k2")), ("2026-01-02", ("k2", "k3"))):
        points = [{"key": key} for key in keys]
        store.begin({"sweep": f"s{start[-1]}", "started": start, "code": "c1", "points": points})
    for key, status in (("k1", "ok"), ("k2", "does_not_fit"), ("k3", "timeout")):
        write(store, key, status)
    store.compact()
    return store


def test_every_run_under_its_sweep_and_again_nothing(
    store: Store, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = copied(template, store.folder.parent)

    assert export.main([str(store.folder)]) == 0

    assert f"{uri} has 4 runs of {GRID}: 4 written" in capsys.readouterr().err
    parents, runs = logged(uri)
    ends = {run.data.tags["xsim.sweep"]: run.info.status for run in parents}
    assert ends == {"s1": "FINISHED", "s2": "FAILED", "earlier": "FINISHED"}
    sweeps = {run.info.run_id: run.data.tags["xsim.sweep"] for run in parents}
    under = {key: sweeps[run.data.tags["mlflow.parentRunId"]] for key, run in runs.items()}
    assert under == {"k0": "earlier", "k1": "s1", "k2": "s1", "k3": "s2"}
    for row in store.everything().to_pylist():
        run = runs[row["key"]]
        assert run.data.tags["xsim.status"] == row["status"]
        finite = {name: value for name, value in row.items() if name in run.data.metrics}
        assert run.data.metrics == {name: float(value) for name, value in finite.items()}
        assert all(math.isfinite(value) for value in run.data.metrics.values())
        assert bool(finite) == (row["status"] == "ok")

    before = {key: run.info.run_id for key, run in runs.items()}
    assert export.main([str(store.folder)]) == 0
    assert "4 runs of some_grid: 0 written\n" in capsys.readouterr().err
    assert {key: run.info.run_id for key, run in logged(uri)[1].items()} == before
    assert len(logged(uri)[0]) == len(parents)


def test_what_is_wrong_is_put_right(store: Store, template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is missing, half or doubled, one of no table, a journal that lies; what others wrote stays."""
    uri = copied(template, store.folder.parent)
    rows = {row["key"]: row for row in store.everything().to_pylist()}
    log(target(uri, store), [rows["k1"], rows["k2"], rows["k3"] | {"key": "stranger"}])
    client = open_client(uri)
    runs = logged(uri)[1]
    experiment = runs["k1"].info.experiment_id
    client.update_run(runs["k1"].info.run_id, status="RUNNING")
    double = {"xsim.key": "k2", "xsim.folder": origin(store.folder)}
    client.create_run(experiment, tags=double)
    theirs = client.create_run(experiment, tags={"mlflow.runName": "theirs"})
    journal = store.folder / "tracked.json"
    journal.write_text(journal.read_text().replace('"k1"', '"k1", "k3"'))

    assert export.main([str(store.folder)]) == 0

    assert f"4 runs of {GRID}: 3 written, 1 removed that no table holds" in capsys.readouterr().err
    again = logged(uri)[1]
    assert set(again) == {"k0", "k1", "k2", "k3"}
    assert again["k2"].info.run_id == runs["k2"].info.run_id
    assert again["k1"].info.run_id != runs["k1"].info.run_id
    assert client.get_run(theirs.info.run_id).info.lifecycle_stage == "active"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nowhere"], "folder = "),
        (["{folder}", "--uri", "none"], "--uri = 'none': it names no store"),
        (["{folder}", "--uri", "postgresql+nope://me:s3cret@db/x"], "--uri = 'postgresql+nope://me:***@db/x': "),
        (["{folder}", "--uri", "environment"], "the variable MLFLOW_TRACKING_URI is not set"),
    ],
)
def test_export_refuses(
    words: list[str],
    problem: str,
    store: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    assert export.main([word.format(folder=store.folder) for word in words]) == 2

    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_a_sweep_that_writes_is_not_disturbed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with claimed(store.folder, ["+grid=x"]):
        assert export.main([str(store.folder)]) == 2

    assert "another sweep writes there: process " in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not the store, which nobody chose."""

    def refuses(dir: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("runners.preflight.tempfile.TemporaryFile", refuses)

    assert export.main([str(store.folder)]) == 2

    expected = f"error: folder = '{store.folder}': Read-only file system; name a place that can be written\n"
    assert capsys.readouterr().err == expected
