"""Each thing that would spoil a night is named, with what to do; where nothing would, the exit code is 0."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from runners import doctor, result_checks
from runners.inputs import SCHEMA_VERSION
from runners.preflight import claimed
from runners.store import Store
from tests.runners.test_store import begin, write


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of one sweep, and a machine without faults of its own."""
    for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI", "RAY_ADDRESS", "RAY_AUTH_MODE", "NUMBA_DISABLE_JIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = Store(tmp_path / "outputs" / "mine")
    begin(store)
    write(store, "aa1")
    return tmp_path / "outputs"


def examined(out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, list[str]]]:
    """Exit code, and the lines of the table by their first cell."""
    code = doctor.main([str(out), "--quick", *words])
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    return code, {line[0]: line[1:] for line in lines if len(line) == 4 and line[0]}


def test_a_machine_without_faults(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(out.rglob("*"))

    code, found = examined(out, capsys)

    assert code == 0
    assert {"python", "packages", "memory", "results", "locks", "mlflow", "MLflow store", "mine"} <= set(found)
    assert found["mine"][:2] == ["ok", "1 rows"]
    assert [name for name, cells in found.items() if cells[0] == "problem"] == []
    assert sorted(out.rglob("*")) == before


def test_faults_are_named_with_what_to_do(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.manifest.version_of", lambda name: "1.0" if name == "ray" else "2.0")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr("analysis.stored.SCHEMA_VERSION", SCHEMA_VERSION - 1)
    (out / "mlflow.db").write_bytes(b"not a database" * 1000)
    token = Path(os.environ["HOME"], ".ray", "auth_token")
    token.parent.mkdir()
    token.touch(mode=0o644)
    monkeypatch.setattr(result_checks, "ROOM_RUNS", 10**12)

    code, found = examined(out, capsys)

    assert code == 1
    states = {name: cells[0] for name, cells in found.items()}
    for name in ("packages", "NUMBA_DISABLE_JIT", "mine", "MLflow store", "results"):
        assert states[name] == "problem", name
    for name in ("Ray's ports", "Ray's token"):
        assert states[name] == "warning", name
    assert "a newer Xsim wrote there" in found["mine"][1]
    assert found["Ray's token"][2].startswith("chmod 600")


@pytest.mark.filterwarnings("ignore:.*left out")
def test_broken_files_and_who_writes(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "mine" / "runs" / "aa" / "aa2.arrow").write_bytes(b"half")
    with claimed(out / "mine", ["+grid=mine"]):
        code, found = examined(out, capsys)

    assert code == 0
    assert found["mine"][0] == "warning"


def test_a_place_that_cannot_be_written_and_a_server_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, found = examined(tmp_path / "file", capsys, "--uri", "http://127.0.0.1:1", "--port", port)

    assert code == 1
    assert found["results"][0] == "problem"
    assert found["MLflow store"][0] == "problem"
    assert found["port of the UI"] == ["warning", f"{port} is in use", f"runners.ui --port {int(port) + 1}"]


def test_ray_that_does_not_start_is_a_problem(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_asked: object) -> None:
        raise RuntimeError("no ray today")

    monkeypatch.setattr("runners.ray_session.ray_session", refuses)

    assert doctor.main([str(out)]) == 1
    assert "RuntimeError: no ray today" in capsys.readouterr().out


def test_a_setting_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["out=outputs", "--quick"]) == 2
    assert "write the folder alone: runners.doctor FOLDER" in capsys.readouterr().err
