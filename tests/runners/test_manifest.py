"""A manifest says enough to ask again, and nothing that is secret."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from analysis.stored import read_json
from runners import pool, sweep
from runners.manifest import git_state
from runners.points import Point
from runners.pool import Finished, Limits
from runners.settings import tracking_uri
from runners.worker import Outcome
from tests.runners.mlflow_stores import WriterThread
from xsim.errors import SpecError

SECRET = "s3cr3t"


def quick(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
    for point in points:
        yield Finished(point, Outcome(status="invalid", reason="", details="", metrics={}, wall_s=0.1), 0, 1)


def test_what_a_paper_must_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", quick)
    words = ["network=analytic", "seed=3,1", "reshard=lcm,hetauto", "tracking=none"]

    assert sweep.main(words) == 0

    folder = tmp_path / "outputs" / "adhoc"
    found = read_json(folder / "sweep.json")
    assert found["command"][-4:] == words
    assert found["seeds"] == [1, 3]
    assert len(found["points"]) == 4
    assert found["versions"]["ray"] == "2.60.0"
    assert set(found) >= {"code", "git", "machine", "python", "settings", "started", "schema_version"}
    assert read_json(folder / "sweeps" / f"{found['sweep']}.json") == found

    assert sweep.main(["network=analytic", "seed=3", "reshard=lcm,hetauto", "tracking=none"]) == 0
    assert len(list((folder / "sweeps").iterdir())) == 2, "an earlier sweep stays known"


def test_a_secret_reaches_no_file_and_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whatever way it comes, and though MLflow fails."""

    def refuses(uri: str) -> None:
        assert SECRET in uri
        raise ConnectionError(f"no answer from {uri}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", quick)
    monkeypatch.setattr("runners.track.writer", WriterThread)
    monkeypatch.setattr("runners.mlflow_writer.open_client", refuses)
    monkeypatch.setattr("runners.preflight.check_store", lambda _uri: None)
    address = f"postgresql://me:{SECRET}@db/runs?sslpassword={SECRET}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    common = ["network=analytic", "seed=0,1"]

    assert sweep.main([*common, f"tracking.uri='{address}'"]) == 0
    assert sweep.main([*common, "tracking=server", "out=second"]) == 0
    assert sweep.main([*common, "tracking=none", "out=third", f"on_done='true {SECRET}'"]) == 0
    assert sweep.main([*common, f"tracking.uri='ftp://me:{SECRET}@db/runs'"]) == 2
    assert sweep.main([*common, f"out=outputs/{'x' * 300}", f"tracking.uri='{address}'"]) == 2

    shown = capsys.readouterr()
    assert "postgresql://me:***@db/runs?sslpassword=***" in shown.out + shown.err
    for text in (shown.out, shown.err, *(path.read_bytes().decode("latin1") for path in tmp_path.rglob("*.*"))):
        assert SECRET not in text
    for lock in tmp_path.rglob(".lock"):
        assert SECRET not in lock.read_text()
    assert "on_done=***" in (tmp_path / "third" / "adhoc" / ".lock").read_text()


def test_a_server_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5001")
    assert tracking_uri("environment", tmp_path) == "http://127.0.0.1:5001"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no address")
    with pytest.raises(SpecError, match="it names no store that MLflow can keep"):
        tracking_uri("environment", tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(SpecError, match="the variable MLFLOW_TRACKING_URI is not set"):
        tracking_uri("environment", tmp_path)
    with pytest.raises(SpecError, match="it names no store"):
        tracking_uri("postgresql://me:two words@db/x", tmp_path)


def test_the_state_of_the_source(tmp_path: Path) -> None:
    """Its commit and what differs; nothing outside of a repository, or where the folder is not part of it."""
    source = tmp_path / "repository" / "package"
    source.mkdir(parents=True)
    (source / "__init__.py").touch()
    assert git_state(source) is None

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "..")
    assert git_state(source) is None
    git("add", ".")
    git("commit", "--quiet", "--message", "one")

    assert git_state(source) == {"commit": git("rev-parse", "HEAD"), "changed": []}
    (source / "new.py").touch()
    state = git_state(source)
    assert state is not None
    assert state["changed"] == ["package/new.py"]


def test_a_clock_that_jumps_ends_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back by decades while it runs: rows, states and the manifest are those of any sweep."""

    def jumping(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for done in quick(points, limits):
            monkeypatch.setattr(time, "time", lambda: 1e9)
            yield done

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", jumping)

    assert sweep.main(["network=analytic", "seed=0,1,2", "tracking=none"]) == 0

    folder = tmp_path / "outputs" / "adhoc"
    status = read_json(folder / "status.json")
    assert (status["state"], status["done"]) == ("finished", {"invalid": 3})
