from __future__ import annotations

from pathlib import Path

import pytest

from runners import compare, pool, sweep
from tests.runners.in_process import in_process


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sweeps of three points each, of which they share two; B trains shorter sequences."""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures take longer than all else
    monkeypatch.setattr(pool, "finished", in_process)
    words = ["network=analytic", "tracking=none"]
    assert sweep.main([*words, "reshard=lcm,hetauto,star", "out=a"]) == 0
    assert sweep.main([*words, "reshard=lcm,hetauto,ntp", "model.seq_len=1024", "out=b"]) == 0
    return tmp_path


def test_two_sweeps_side_by_side(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert compare.main(["a/adhoc", "b/adhoc"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A: a/adhoc\nB: b/adhoc\n")
    assert "training_time_s of A and B, and B over A" in shown
    assert "| hetauto |" in shown
    assert "2 points in both, 0 of them equal in every figure" in shown
    assert "in every point: point nothing -> model.seq_len=1024" in shown
    assert "1 point only in A\n1 point only in B\n" in shown

    assert compare.main(["a/adhoc", "a/adhoc", "--metric", "energy_j"]) == 0
    shown = capsys.readouterr().out
    assert "3 points in both, 3 of them equal in every figure\nB over A: 1 to 1, 1 in the geometric mean\n" in shown
    assert "|" not in shown

    for words, message in [
        (["a/adhoc", "nowhere"], "folder = 'nowhere': there is no such folder"),
        (["a/adhoc", "b/adhoc", "--metric", "speed"], "--metric = 'speed': there is no such figure; choose one of"),
        (["out=a", "b/adhoc"], "write the folder alone: runners.compare FOLDER"),
        (["a/adhoc"], "the following arguments are required: B"),
    ]:
        assert compare.main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_rows_of_earlier_sweeps_are_counted(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["network=analytic", "tracking=none", "reshard=lcm,star"]
    assert sweep.main([*words, "out=a"]) == 0
    capsys.readouterr()

    assert compare.main(["a/adhoc", "b/adhoc"]) == 0

    assert "A: a/adhoc; 1 row of earlier sweeps not compared\nB: b/adhoc\n" in capsys.readouterr().out
