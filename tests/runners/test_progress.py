from __future__ import annotations

import io
import re
import sys
from collections import Counter
from dataclasses import replace

import pytest
from rich.console import Console

from runners.progress import CAUSES, Count, _screen, progress


def test_the_first_point_of_a_worker_says_little_about_the_rest() -> None:
    count = Count(total=12, workers=2)
    assert count.eta_s is None

    count.add("invalid", 0.0, worker=-1)
    assert count.eta_s is None

    count.add("ok", 20.0, worker=0)
    count.add("ok", 22.0, worker=1)
    for wall_s in (1.0, 9.0):
        count.add("ok", wall_s, worker=0)
        assert count.eta_s is None, "one or two say as little"

    count.add("ok", 2.0, worker=1)
    assert count.eta_s == 2.0 * 6 / 2
    assert str(count) == "6/12 done (1 invalid, 5 ok), about 6 s left"


def test_nothing_is_expected_before_every_worker_has_ended_a_point() -> None:
    count = Count(total=100, workers=3)
    for _ in range(4):
        count.add("ok", 20.0, worker=0)
    count.add("ok", 2.0, worker=1)
    assert count.eta_s is None
    assert str(count) == "5/100 done (5 ok)"

    count.add("ok", 18.0, worker=2)
    assert count.eta_s == 20.0 * 94 / 3


def test_a_tenth_of_the_points_is_enough_to_expect_the_rest() -> None:
    count = Count(total=40, workers=8)
    for wall_s in (20.0, 4.0, 4.0):
        count.add("ok", wall_s, worker=0)
        assert count.eta_s is None

    count.add("ok", 4.0, worker=0)
    assert count.eta_s == 4.0 * 36 / 8


def test_the_rest_takes_no_less_than_one_point() -> None:
    count = Count(total=6, workers=4, known_s={"": 60.0})
    for _ in range(5):
        count.add("ok", 60.0, worker=0)

    assert count.eta_s == 60.0


def test_a_log_tells_at_once_that_workers_start(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Count(total=12, workers=2)):
        assert "starting 2 workers for 12 points" in capsys.readouterr().err


def mixed() -> Count:
    """Twelve points on two networks, of which three have ended."""
    count = Count(total=12, workers=2, kinds=Counter(flow=6, packet=5))
    count.add("invalid", 0.0, -1, "flow")
    count.add("ok", 5.0, 0, "flow")
    count.add("ok", 90.0, 1, "packet")
    return count


def test_each_network_takes_its_own_time() -> None:
    count = mixed()
    for _ in range(3):
        assert count.eta_s is None
        count.add("ok", 1.0, 0, "flow")
        count.add("ok", 80.0, 1, "packet")

    assert count.eta_s == max((2 * 1.0 + 1 * 80.0) / 2, 80.0)
    count.add("ok", 80.0, 1, "packet")
    assert count.eta_s == 2 * 1.0 / 2
    for _ in range(2):
        count.add("ok", 1.0, 0, "flow")
    assert count.eta_s == 0


def test_a_network_of_which_nothing_is_known_leaves_the_end_open() -> None:
    count = Count(total=5, workers=1, kinds=Counter(flow=3, packet=2))
    count.add("ok", 5.0, 0, "flow")
    assert count.eta_s is None

    known = Count(total=5, workers=1, kinds=Counter(flow=3, packet=2), known_s={"packet": 60.0, "flow": 1.0})
    assert known.eta_s == 3 * 1.0 + 2 * 60.0
    known.add("ok", 5.0, 0, "flow")
    assert known.eta_s == 2 * 1.0 + 2 * 60.0, "the first of a worker is slow"


def test_a_log_tells_of_each_cause_of_failure_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    count = Count(total=100, workers=2)
    with progress(count) as display:
        for seed in range(3):
            count.add("failed", 1.0, 0)
            count.fail("failed", f"fig4/s{seed}", "ValueError: odd")
            display.show(count)
        for number in range(20):
            count.fail("crashed", f"fig4/c{number}", f"signal {number}")
        display.show(count)

    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "failed: fig4/s0: ValueError: odd"
    assert lines[2] == "crashed: fig4/c0: signal 0"
    assert len(lines) == 1 + CAUSES


def test_a_log_has_a_line_for_every_tenth_point(capsys: pytest.CaptureFixture[str]) -> None:
    count = Count(total=50, workers=2)
    count.begin(0, ["fig4/s9"])
    with progress(count) as display:
        for _ in range(50):
            count.add("ok", 1.0, 0)
            display.show(count)

    _, first, *others = capsys.readouterr().err.splitlines()
    assert "5/50 done (5 ok), about " in first
    assert ", 1 running, " in first
    assert first.endswith(" a minute")
    assert len(others) == 9


def test_a_terminal_shows_what_each_worker_does() -> None:
    count = replace(mixed(), known_s={"flow": 5.0, "packet": 90.0})
    count.begin(0, ["fig4/lcm/flow/s1"])
    count.begin(1, ["fig4/lcm/packet/s1", "fig4/star/packet/s1"])
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None)

    console.print(_screen(count))
    count.begin(1, [])
    assert list(count.doing) == [0]

    shown = out.getvalue()
    assert "3/12 done (1 invalid, 2 ok), about 3 min left, 2 running" in shown
    assert re.search(r"worker 0 +0 s +fig4/lcm/flow/s1\b", shown)
    assert re.search(r"worker 1 +0 s +fig4/lcm/packet/s1 and 1 more", shown)


def test_a_screen_has_room_for_some_workers() -> None:
    count = Count(total=100, workers=40)
    for worker in range(40):
        count.begin(worker, [f"point {worker}"])
    out = io.StringIO()

    Console(file=out, width=100).print(_screen(count))

    assert "point 15" in out.getvalue()
    assert "point 16" not in out.getvalue()
    assert "and 24 workers more" in out.getvalue()


def test_nothing_to_run_takes_no_time() -> None:
    assert Count(total=0, workers=0).eta_s == 0


def test_on_a_terminal_failures_stand_above_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    count = Count(total=2, workers=1)

    with progress(count) as display:
        count.add("failed", 1.0, 0)
        count.fail("failed", "fig4/[s0]", "ValueError: odd")
        display.show(count)
        display.show(count)

    shown = capsys.readouterr().err
    assert shown.count("failed: fig4/[s0]: ValueError: odd\n") == 1
    assert "1/2 done (1 failed)" in shown.partition("odd\n")[2]
