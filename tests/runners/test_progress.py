from __future__ import annotations

import pytest

from runners.progress import Count, progress


def test_the_first_point_of_a_worker_says_little_about_the_rest() -> None:
    count = Count(total=12, workers=2)
    assert count.eta_s is None

    count.add("invalid", 0.0, worker=-1)
    assert count.eta_s is None

    count.add("ok", 20.0, worker=0)
    count.add("ok", 22.0, worker=1)
    assert count.eta_s == 21.0 * 9 / 2

    count.add("ok", 1.0, worker=0)
    assert count.eta_s == 1.0 * 8 / 2
    assert str(count) == "4/12 done (1 invalid, 3 ok), about 4 s left"


def test_nothing_is_expected_before_every_worker_has_ended_a_point() -> None:
    count = Count(total=100, workers=3)
    for _ in range(2):
        count.add("ok", 20.0, worker=0)
    count.add("ok", 2.0, worker=1)
    assert count.eta_s is None
    assert str(count) == "3/100 done (3 ok)"

    count.add("ok", 18.0, worker=2)
    assert count.eta_s == 20.0 * 96 / 3


def test_a_tenth_of_the_points_is_enough_to_expect_the_rest() -> None:
    count = Count(total=20, workers=8)
    count.add("ok", 20.0, worker=0)
    assert count.eta_s is None

    count.add("ok", 4.0, worker=0)
    assert count.eta_s == 4.0 * 18 / 8


def test_a_log_tells_at_once_that_workers_start(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Count(total=12, workers=2)):
        assert "starting 2 workers for 12 points" in capsys.readouterr().err
