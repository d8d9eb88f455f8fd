"""The large tables of a sweep's runs, and a copy of its final table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import analysis
from runners import pool, run, sweep
from runners.options import TABLES
from runners.points import Point
from runners.pool import Finished, Limits
from tests.runners.in_process import in_process

GRID = ["network=analytic", "reshard=lcm,hetauto", "tracking=none"]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points each sweep ran; there is no Ray, and no figure."""
    counts: list[int] = []

    def counted(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        counts.append(len(points))
        return in_process(points, limits)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", counted)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures are tested elsewhere
    return counts


def test_tables_are_kept_and_referenced(ran: list[int], tmp_path: Path) -> None:
    """Those that were asked for, equal to those of a single run; a run that lacks them runs again, and no other."""
    out = tmp_path / "outputs" / "adhoc"
    assert sweep.main(GRID) == 0
    assert analysis.load(out)["tables"].to_pylist() == [None, None]
    assert not (out / "detail").exists()

    assert sweep.main([*GRID, "detail=[ranks,flows]"]) == 0

    table = analysis.load(out)
    for row in table.to_pylist():
        folder = out / row["tables"]
        assert sorted(path.name for path in folder.iterdir()) == ["flows.parquet", "ranks.parquet"]
        ranks = pq.read_table(folder / "ranks.parquet")
        assert ranks.schema.field("compute_ps").metadata[b"unit"] == b"ps"
        bubble_s = [picoseconds / 1e12 for picoseconds in ranks["bubble_ps"].to_pylist()]
        assert sum(bubble_s) / len(bubble_s) == pytest.approx(row["bubble_time_s"])
        assert sum(pq.read_table(folder / "flows.parquet")["flows"].to_pylist()) > 0

    assert sweep.main([*GRID, "detail=ranks"]) == 0
    assert sweep.main(["reshard=lcm", "seed=0,1", *GRID[::2], "detail=all"]) == 0
    assert ran == [2, 2, 2]

    assert run.main(["network=analytic", "reshard=lcm"]) == 0
    single = analysis.load(tmp_path / "outputs" / "run").to_pylist()[0]
    kept = out / single["tables"]
    assert {path.stem for path in kept.iterdir()} == {*TABLES, "trace"} - {"queues", "timeline"}
    for path in kept.iterdir():
        assert path.read_bytes() == (tmp_path / "outputs" / "run" / single["tables"] / path.name).read_bytes()
    assert json.loads((kept / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "detail=[ranks,flow]",
            "detail = 'flow': there is no such table; write detail=all, or some of them: detail=[r",
        ),
        ("detail=3", "detail = 3: there is no such table"),
        ("copy_to=results.parquet", "copy_to = 'results.parquet': "),
        ("copy_to=file:///tmp/results", "copy_to = 'file:///tmp/results': it names no Parquet file"),
        ("copy_to=file:///proc/nope/x.parquet", "copy_to = '/proc/nope': No such file or directory"),
        ("copy_to='nope://me:s3cret@x/y.parquet'", "copy_to = 'nope://me:***@x/y.parquet': "),
    ],
)
def test_what_cannot_be_kept_is_refused(
    word: str, message: str, ran: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.main([*GRID, word]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert ran == []


def test_the_final_table_is_copied(ran: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "elsewhere" / "all.parquet"

    assert sweep.main([*GRID, f"copy_to=file://{target}"]) == 0

    assert f"Copy:    file://{target} (2 rows: the points asked for)\n" in capsys.readouterr().out
    copied, kept = pq.read_table(target), analysis.load(tmp_path / "outputs" / "adhoc")
    assert sorted(copied["key"].to_pylist()) == sorted(kept["key"].to_pylist())
    assert copied.schema.field("training_time_s").metadata[b"unit"] == b"s"


def test_a_copy_that_fails_loses_nothing(
    ran: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("runners.copies.write_whole", full)

    assert sweep.main([*GRID, f"copy_to=file://{tmp_path}/a.parquet"]) == 1

    assert "error: the table is not copied to file:///" in capsys.readouterr().err
    assert len(analysis.load(tmp_path / "outputs" / "adhoc")) == 2
