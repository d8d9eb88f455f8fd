"""What cannot end well does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import pool, run, sweep
from runners.preflight import check_store, claimed
from xsim.errors import SpecError

WORDS = ["network=analytic", "reshard=lcm,hetauto", "tracking=none"]


@pytest.fixture(autouse=True)
def nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "a/adhoc", "b/adhoc/runs", "c/run"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    monkeypatch.setattr(pool, "finished", None)


@pytest.mark.parametrize("out", ["file", "a", "b", "/proc/nope", "x" * 300, '"\0"'])
def test_a_place_that_cannot_be_written(out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.rglob("*"))

    assert sweep.main([*WORDS, f"out={out}"]) == 2

    error = capsys.readouterr().err
    assert error.startswith("error: out = ")
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_single_run_is_not_simulated_in_vain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["network=analytic", "out=c"]) == 2
    assert "Not a directory; name a place that can be written" in capsys.readouterr().err


def test_two_sweeps_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with claimed(tmp_path / "outputs" / "adhoc", ["seed=1,2"]):
        assert sweep.main(WORDS) == 2

    assert "adhoc': another sweep writes there: process " in capsys.readouterr().err
    with claimed(tmp_path / "outputs" / "adhoc", []):
        pass


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("sqlite:////proc/nope/mlflow.db", "No such file or directory"),
        ("sqlite:///{}/a", "a is a folder"),
        ("postgresql+nope://x", "Can't load plugin"),
        ("mssql+pyodbc://x", "No module named 'pyodbc'"),
    ],
)
def test_a_store_that_cannot_be_opened(uri: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=problem):
        check_store(uri.format(tmp_path))


def test_a_store_that_can(tmp_path: Path) -> None:
    check_store("http://127.0.0.1:1")
    check_store(f"sqlite:///{tmp_path}/new/mlflow.db")

    assert not (tmp_path / "new").exists()
