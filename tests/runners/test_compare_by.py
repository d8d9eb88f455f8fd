"""Runs of a sweep are compared by any key that their points set."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.compare import main
from runners.store import Store, row_of
from tests.runners.test_store import outcome, point


def test_what_no_run_has_set_is_nothing_to_compare_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    for key, tp in (("aa1", 1), ("aa2", 2)):
        store.write(row_of(point(key), outcome(), worker=0, attempt=1) | {"point": f"planner.tp={tp}"})

    assert main([str(tmp_path), "--by", "planner.tp"]) == 0
    assert (tmp_path / "figures" / "by_planner.tp.png").is_file()
    assert main([str(tmp_path), "--by", "planner.pp"]) == 2
    said = capsys.readouterr().err
    assert "--by = 'planner.pp': the runs have no such choice; choose one of reshard, " in said
    assert "point, planner.tp; a key that a sweep varies, such as planner.tp, is one where it does\n" in said
