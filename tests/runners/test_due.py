"""Which points run, and why: what a dry run tells is what a sweep does."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import analysis
from runners import pool, sweep
from runners.cli import read_command
from runners.due import History, _digest, chosen, why
from runners.durations import Durations
from runners.points import Plan, Point, plan_sweep
from runners.pool import Finished, Limits
from runners.worker import Outcome, simulate
from xsim.errors import SpecError

GRID = ["network=analytic", "reshard=lcm,hetauto", "tracking=none"]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of what is simulated, in order; a folder of its own."""
    keys: list[str] = []

    def in_process(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for attempt, point in enumerate(points, 1):
            keys.append(point.key)
            yield Finished(point, simulate(point.config), 0, attempt)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures take longer than all else
    monkeypatch.setattr(pool, "finished", in_process)
    return keys


def plan(*words: str) -> Plan:
    return plan_sweep(read_command(words, ""))


def test_a_forced_sweep_runs_everything_and_its_rows_replace_those_there(ran: list[str]) -> None:
    lcm, hetauto = (point.key for point in plan(*GRID).points)
    sweep.main(GRID)
    before = analysis.load("outputs/adhoc")
    sweep.main(GRID)
    assert ran == [lcm, hetauto]

    assert sweep.main([*GRID, "force=true"]) == 0

    after = analysis.load("outputs/adhoc")
    assert ran == [lcm, hetauto] * 2
    assert sorted(after["key"].to_pylist()) == sorted((lcm, hetauto))
    assert after["wall_s"].to_pylist() != before["wall_s"].to_pylist()


def test_only_the_points_whose_keys_begin_so_are_run(ran: list[str]) -> None:
    lcm, hetauto = (point.key for point in plan(*GRID).points)

    assert sweep.main([*GRID, f"only={hetauto[:9]}"]) == 0
    assert ran == [hetauto]

    assert sweep.main([*GRID, f"only={hetauto[:9]},{lcm}", "force=true"]) == 0
    assert ran == [hetauto, lcm, hetauto]


def test_the_end_of_a_sweep_tells_what_was_asked_for(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed among the other points is neither counted nor answered for."""
    lcm, hetauto = plan(*GRID).points
    done = 'on_done="echo \\"$XSIM_EXIT_CODE $XSIM_SUMMARY\\" >> told"'

    def fails(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        outcome = Outcome(status="failed", reason="x", details="", metrics={}, wall_s=1.0)
        yield from (Finished(point, outcome, 0, 1) for point in points)

    with monkeypatch.context() as patch:
        patch.setattr(pool, "finished", fails)
        assert sweep.main([*GRID, done, f"only={lcm.key}"]) == 1
    assert sweep.main([*GRID, done, f"only={hetauto.key}"]) == 0

    assert Path("told").read_text().splitlines() == [
        "1 adhoc: 1 of 1 asked for done (1 failed)",
        "0 adhoc: 1 of 1 asked for done (1 ok)",
    ]
    assert capsys.readouterr().err.count("adhoc: 2 points, 1 asked for, 0 already there\n") == 2
    assert sweep.main(GRID) == 1


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("only=xyz", "only = 'xyz': it is no beginning of a key; write some of its hexadecimal digits"),
        ("only=", "only = '': it is no beginning of a key"),
        ("only=0123456789", "only = '0123456789': no point of this sweep has such a key; dry_run=true lists"),
        ("force=yes", "force = 'yes': its type is str; write true or false"),
    ],
)
def test_a_choice_of_points_that_cannot_be_made(
    word: str, message: str, ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.main([*GRID, word]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not ran


def test_a_forced_sweep_that_is_stopped_does_not_count_the_rows_of_earlier(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        yield Finished(points[0], simulate(points[0].config), 0, 1)
        raise KeyboardInterrupt

    sweep.main(GRID)
    capsys.readouterr()
    monkeypatch.setattr(pool, "finished", stopped)

    assert sweep.main([*GRID, "force=true"]) == 130

    shown = capsys.readouterr()
    assert "adhoc: 2 points, 0 already there, 2 to run again\n" in shown.err
    assert shown.err.endswith("interrupted: 1 of 2 are done; the same command runs the rest\n")


def test_how_what_failed_runs_again_is_told(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_experiment: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr("runners.worker.run", fails)
        assert sweep.main([*GRID, "force=true"]) == 1
    (again,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Again:")]
    assert again.endswith("   (what failed, 2 points)")
    words = shlex.split(again.partition("   (")[0])
    assert words[-len(GRID) - 1 :] == [*GRID, "retry=failed"]

    assert sweep.main(words[-len(GRID) - 1 :]) == 0
    assert "Again:" not in capsys.readouterr().out


def test_rows_that_somebody_removed_meanwhile_are_no_success(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def removed(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for point in points:
            yield Finished(point, simulate(point.config), 0, 1)
            shutil.rmtree(Path("outputs", "adhoc", "runs"))

    monkeypatch.setattr(pool, "finished", removed)

    assert sweep.main(GRID) == 1

    said = capsys.readouterr().err
    assert "error: 2 rows of 2 are gone: files in " in said
    assert said.endswith(" were removed while it ran; the same command runs these points again\n")


def test_digits_of_a_key_are_no_number() -> None:
    assert plan(*GRID, "only=0012").settings.only == ("0012",)
    assert plan(*GRID, "only=[12e4, 7]").settings.only == ("12e4", "7")


def test_a_dry_run_tells_why_each_point_would_run_and_for_how_long(
    ran: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["network=analytic,flow", "reshard=lcm", "tracking=none"]
    assert sweep.main([*words, "dry_run=true"]) == 0
    shown = capsys.readouterr()
    assert [line.partition("]  ")[2] for line in shown.out.splitlines()] == ["missing", "missing"]
    assert shown.err == "2 points: 0 there, 2 missing; of those no earlier run tells how long they take\n"
    assert not list(Path().iterdir())

    sweep.main([*words, f"only={plan(*words).points[0].key}"])
    capsys.readouterr()
    sweep.main(["network=analytic,flow", "reshard=lcm", "batch=24,48", "dry_run=true"])
    there, invalid, flow, _ = capsys.readouterr().out.splitlines()
    assert there.endswith("]  there: ok")
    assert "/analytic/b48/s0  invalid: batch = 48: the deployment trains 24 samples" in invalid
    assert flow.endswith("]  missing")
    sweep.main([*words, "seed=1", "dry_run=true"])
    assert re.search(r"\]  missing, about \d+(\.\d+)? m?s$", capsys.readouterr().out.splitlines()[0])

    monkeypatch.setattr("runners.resolve.code_hash", lambda: "another")
    sweep.main([*words, "dry_run=true"])
    first, second = capsys.readouterr().out.splitlines()
    assert "]  changed code, about 0." in first
    assert second.endswith("]  missing")


def test_failures_run_again_when_asked() -> None:
    asked = plan(*GRID)
    (point, other) = asked.points
    history = History(known={point.key: "crashed", other.key: "ok"})

    def reasons(**changed: Any) -> list[str]:
        return [why(each, history, replace(asked.settings, **changed)) for each in asked.points]

    assert reasons() == ["", ""]
    assert reasons(retry_failed=True) == ["failed before: crashed", ""]
    assert reasons(force=True) == ["forced, it was crashed", "forced, it was ok"]


def test_a_dry_run_tells_how_failures_run_again(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_experiment: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("runners.worker.run", fails)
    assert sweep.main(GRID) == 1
    capsys.readouterr()

    assert sweep.main([*GRID, "dry_run=true"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("]  there: failed\n") == 2
    assert shown.err == "2 points: 2 there; retry=failed runs 2 points again\n"

    assert sweep.main([*GRID, "retry=failed", "dry_run=true"]) == 0
    assert capsys.readouterr().out.count("]  failed before: failed\n") == 2


def test_the_same_experiment_tells_most_about_how_long_a_point_takes() -> None:
    (point, other) = plan("network=flow", "reshard=lcm,hetauto").points
    named = {"network": "flow", "cluster": "fig4", "model": "llama2_7b"}
    durations = Durations.of([named | {"wall_s": seconds} for seconds in (1.0, 5.0, 2.0)])
    assert History().expected_s(point) is None
    assert History(durations=durations).expected_s(other) == 2.0

    def took(each: Point, seconds: float) -> dict[bytes, float]:
        return {_digest(each.config_json): seconds}

    assert History(durations=durations, took_s=took(other, 9.0)).expected_s(other) == 9.0
    assert History(durations=durations, took_s=took(other, 9.0)).expected_s(point) == 2.0


def test_no_key_is_named_twice() -> None:
    points = plan(*GRID).points

    assert chosen(points, [points[0].key[:6], points[0].key[:8]]) == [points[0]]
    assert chosen(points, []) == list(points)
    with pytest.raises(SpecError, match="only = 'zz'"):
        chosen(points, ["zz"])
