"""What ends a sweep early, what part of it runs, and what it tells the shell."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import analysis
from runners import pool, preflight, sweep
from runners.brake import Brake
from runners.locks import lock
from runners.points import Point
from runners.pool import Finished, Limits
from runners.shards import Shard
from runners.stop import Stop
from runners.worker import Outcome
from xsim.errors import SpecError

GRID = ["network=analytic", "reshard=lcm,hetauto", "model.seq_len=2048,4096", "tracking=none"]
FAILED = Outcome(status="failed", reason="KeyError: 'x'", details="its traceback", metrics={}, wall_s=1.0)


def failing(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
    """A pool whose simulations all fail, and that stops as the real one does."""
    for point in points:
        if limits.brake.cause:
            return
        yield Finished(point, FAILED, 0, 1)


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "finished", failing)
    return tmp_path / "outputs" / "adhoc"


def test_too_many_failures_end_the_sweep(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main([*GRID, "max_failures=2"]) == 1

    assert len(analysis.load(out)) == 2
    shown = capsys.readouterr()
    assert "max_failures=2 is reached: 2 of 4 are done; the same command runs the rest" in shown.err
    assert "2 x failed: KeyError: 'x'" in shown.out
    assert json.loads((out / "status.json").read_text())["state"] == "interrupted"
    assert sweep.main([*GRID]) == 1
    assert len(analysis.load(out)) == 4


def test_a_failure_is_named_as_the_dry_run_lists_it(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["network=analytic", "reshard=lcm,hetauto", "collective=tree", "batch=24", "seed=7", "tracking=none"]
    assert sweep.main([*words, "dry_run=true"]) == 0
    listed = capsys.readouterr().out.split()[0]

    assert sweep.main(words) == 1

    shown = capsys.readouterr()
    assert f"(first: {listed})" in shown.out
    assert f"failed: {listed}: KeyError" in shown.err


def test_a_budget_of_time_ends_the_sweep_in_order(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [time.monotonic()]
    monkeypatch.setattr("runners.brake.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def slow(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for done in failing(points, limits):
            now_s[0] += 25 * 60
            yield done

    monkeypatch.setattr(pool, "finished", slow)

    assert sweep.main([*GRID, "time_budget=1h"]) == 130

    assert len(analysis.load(out)) == 3
    assert "time_budget is used up: 3 of 4 are done; the same command runs the rest" in capsys.readouterr().err


def test_a_signal_is_held_while_a_row_is_written() -> None:
    brake = Brake(Stop())

    with brake.held():
        assert brake.stop.is_held
        brake.stop.code = 143
    assert brake.cause == "interrupted"
    assert not brake.stop.is_held


def test_the_parts_of_a_sweep_are_all_of_it(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def noted(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        seen.extend(point.key for point in points)
        yield from failing(points, limits)

    monkeypatch.setattr(pool, "finished", noted)
    for number in (1, 2, 3):
        assert sweep.main([*GRID, f"shard={number}/3"]) in (0, 1)
        assert "the same command without shard= compares them" in capsys.readouterr().err
        assert json.loads((out / f"status-{number}-of-3.json").read_text())["state"] == "finished"
        assert not (out / "table").exists()
        assert len(json.loads((out / "sweep.json").read_text())["points"]) == 4

    assert len(seen) == len(set(seen)) == len(analysis.load(out)) == 4
    seen.clear()
    assert sweep.main(GRID) == 1
    assert seen == []
    assert (out / "table").exists()


def test_parts_run_beside_each_other_but_not_beside_the_whole(tmp_path: Path) -> None:
    with preflight.claimed(tmp_path, ["first"], Shard(1, 2)):
        with preflight.claimed(tmp_path, ["second"], Shard(2, 2)):
            assert lock(tmp_path / ".lock") is None
        with (
            pytest.raises(SpecError, match=r"another sweep writes there: process \d+ on .*, first"),
            preflight.claimed(tmp_path, ["again"], Shard(1, 2)),
        ):
            pass
        with (
            pytest.raises(SpecError, match="another sweep writes there: a part of the points"),
            preflight.claimed(tmp_path, ["whole"]),
        ):
            pass
    with (
        preflight.claimed(tmp_path, ["whole"]),
        pytest.raises(SpecError, match="another sweep writes there"),
        preflight.claimed(tmp_path, ["part"], Shard(1, 2)),
    ):
        pass


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", 1, "-1/2"])
def test_a_part_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(SpecError, match="shard = "):
        Shard.from_text(text)


def test_the_shell_is_told_how_it_ended(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = 'echo "$XSIM_EXIT_CODE|$XSIM_SUMMARY|$XSIM_SWEEP" >> told; exit 3'
    word = 'on_done="' + command.replace('"', '\\"') + '"'

    def interrupted(points: Sequence[Point], limits: Limits) -> Generator[Finished | None]:
        yield None
        raise KeyboardInterrupt

    def broken(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        yield None
        raise OSError(28, "No space left on device")

    assert sweep.main([*GRID, word]) == 1
    monkeypatch.setattr(pool, "finished", interrupted)
    assert sweep.main([*GRID, "seed=1", word]) == 130
    monkeypatch.setattr(pool, "finished", broken)
    assert sweep.main([*GRID, "seed=1", word]) == 1

    assert Path("told").read_text().splitlines() == [
        f"1|adhoc: 4 of 4 done (4 failed)|{out}",
        f"130|adhoc: 0 of 4 done|{out}",
        f"1|it ended by an error|{out}",
    ]


def test_a_config_cannot_name_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "conf" / "experiment" / "mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("# @package _global_\non_done: touch pwned\n")

    assert sweep.main(["--config-dir", str(tmp_path / "conf"), "+experiment=mine", *GRID]) == 2

    assert "on_done = 'touch pwned': a config cannot name a command to run" in capsys.readouterr().err
    assert not Path("pwned").exists()
    assert not Path("outputs").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("max_failures=0", "max_failures = 0: nothing would run"),
        ("time_budget=8", "time_budget = 8: it is no time with its unit; write 8h"),
        ("time_budget=0s", "time_budget = 0s: it is no time with its unit"),
        ("shard=5/4", "shard = '5/4': there is no such part; the parts are 1/4 to 4/4"),
        ("reserve.packet.memory=8", "reserve.packet.memory = 8: a quantity needs its unit"),
        ("reserve.packet.cpus=0", "reserve.packet.cpus = 0: it is no number of CPUs"),
        (
            "reserve.packets.memory=12GB",
            "reserve.packets.memory = 12GB: there is no such key as reserve.packets; did you mean packet? "
            "it has analytic, flow, packet\n",
        ),
        ("+reserve.pakcet={cpus: 1}", "there is no such network; did you mean packet?"),
        ("+reserve.packet.gpus=1", "reserve.packet.gpus = 1: there is no such key"),
        ("on_done=3", "on_done = 3: its type is int; write a text"),
    ],
)
def test_malformed_limits_are_one_line(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main([*GRID, word]) == 2

    assert message in capsys.readouterr().err
    assert not Path("outputs").exists()


def test_what_is_reserved_reaches_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Limits] = []

    def noted(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        found.append(limits)
        yield from failing(points, limits)

    monkeypatch.setattr(pool, "finished", noted)
    assert sweep.main([*GRID, "reserve.analytic.memory=3 GB", "reserve.packet.cpus=2", "max_failures=7"]) == 1

    (limits,) = found
    assert limits.reserve["analytic"].memory_bytes == 3 * 10**9
    assert limits.reserve["packet"].cpus == 2
    assert limits.reserve["flow"].memory_bytes is None
    assert limits.brake.max_failures == 7
