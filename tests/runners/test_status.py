"""A sweep is seen from another shell while it runs, when it has ended, and when it was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runners import pool, running, status, sweep
from runners.cli import read_command
from runners.points import Point, plan_sweep
from runners.pool import Finished, Limits
from runners.worker import Outcome, simulate
from tests.runners.in_process import in_process


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures take longer than all else
    return tmp_path


def test_a_sweep_that_runs_and_what_it_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[int, str]] = []

    def look() -> None:
        capsys.readouterr()
        shown.append((status.main(["adhoc"]), capsys.readouterr().out))

    def watched(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        look()
        first, second = points
        limits.begun(0, [first.title])
        yield None
        look()
        yield Finished(first, simulate(first.config), 0, 1)
        limits.begun(0, [])
        broken = Outcome(status="failed", reason="ValueError: odd", details="", metrics={}, wall_s=0.0)
        yield Finished(second, broken, 0, 1)

    monkeypatch.setattr(pool, "finished", watched)
    monkeypatch.setattr(running, "STATUS_EVERY_S", 0.0)

    assert sweep.main(["network=analytic", "reshard=lcm,hetauto", "tracking=none"]) == 1
    look()

    (starting, begun, ended) = shown
    assert starting == (
        0,
        "adhoc: running, 0 of 2 points done (none yet)\n0 a minute, no point tells yet how long the rest takes\n",
    )
    assert begun[0] == 0
    assert begun[1].startswith("adhoc: running, 0 of 2 points done")
    assert "| 0      | 0 s | fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/analytic/s0 |" in begun[1]
    assert ended[0] == 1
    assert ended[1].splitlines() == [
        "adhoc: finished, 2 of 2 points done (1 failed, 1 ok)",
        "failed: ValueError: odd (first: fig4/llama2_7b/fig4_7b/one_f_one_b/hetauto/analytic/s0)",
    ]


def note(name: str = "status.json", **changed: Any) -> None:
    known: dict[str, Any] = {"state": "running", "total": 4, "done": {"ok": 1}, "eta_s": 600.0, "pid": os.getpid()}
    known |= {"host": os.uname().nodename, "noted_unix_s": time.time(), "per_minute": 2.0, "running": []}
    Path("outputs/mine").mkdir(parents=True, exist_ok=True)
    Path("outputs/mine", name).write_text(json.dumps(known | changed))


def test_one_that_was_killed_and_one_that_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    note()
    assert status.main(["outputs/mine"]) == 0
    assert "mine: running, 1 of 4 points done (1 ok)\n2 a minute, about 10 min left\n" in capsys.readouterr().out

    note(pid=ended.pid)
    assert status.main(["outputs/mine"]) == 1
    assert (
        "died (its process is gone; the same command runs the rest), at least 1 of 4 points" in capsys.readouterr().out
    )

    note(host="elsewhere", noted_unix_s=time.time() - 100)
    assert status.main(["mine"]) == 0
    assert "mine: silent for 100 s on elsewhere, 1 of 4" in capsys.readouterr().out


def test_every_part_of_a_sweep_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    note("status-1-of-2.json", state="finished", done={"ok": 4})
    note("status-2-of-2.json", state="interrupted", done={"crashed": 1})

    assert status.main(["mine"]) == 1

    assert capsys.readouterr().out.splitlines() == [
        "mine, part 1-of-2: finished, 4 of 4 points done (4 ok)",
        "mine, part 2-of-2: interrupted, 1 of 4 points done (1 crashed)",
    ]


def test_only_what_was_asked_for_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    words = ["network=analytic", "reshard=lcm,hetauto", "tracking=none"]
    keys = [point.key for point in plan_sweep(read_command(words, "")).points]

    assert sweep.main([*words, f"only={keys[0]}", f"copy_to=file://{Path.cwd()}/all.parquet"]) == 0
    assert "all.parquet (1 row of 2: the points asked for)" in capsys.readouterr().out
    assert status.main(["adhoc"]) == 0
    assert capsys.readouterr().out == "adhoc: finished, 1 of 1 asked for done (1 ok)\n"

    assert sweep.main(words) == 0
    capsys.readouterr()
    assert sweep.main([*words, f"only={keys[1]}"]) == 0
    capsys.readouterr()
    assert status.main(["adhoc"]) == 0
    assert capsys.readouterr().out == "adhoc: finished, 1 of 1 asked for done (1 ok)\n"


def test_a_name_that_is_not_there_and_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    note()
    assert status.main(["mien"]) == 2
    assert capsys.readouterr().err == "error: sweep = 'mien': there is no such folder; there are: mine\n"
    assert status.main(["out=outputs"]) == 2
    assert "it is a setting, and no folder; write the folder alone: runners.status FOLDER" in capsys.readouterr().err


ODD = [
    '{"state":"finished","done":5}',
    '{"state":"finished","done":{"ok":"x"}}',
    '{"state":"running","noted_unix_s":"x"}',
    '{"state":"finished","failures":[1]}',
    '{"state":"running","running":[{}]}',
    '{"state":"running","eta_s":NaN}',
    '{"state":"running","pid":1e99}',
    '{"a":1}',
]


@pytest.mark.parametrize("text", [None, "", "[]", "{", *ODD])
def test_there_is_no_sweep(text: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        note()
        Path("outputs/mine/status.json").write_text(text)

    assert status.main(["mine"]) == 2

    error = capsys.readouterr().err
    assert error.startswith("error: sweep = 'mine': ")
    assert error.count("\n") == 1
