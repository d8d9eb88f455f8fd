from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from analysis.command import Stopped, exits
from runners.stop import Beside, BrokenOff, Stop, stoppable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_work_once(number: signal.Signals) -> None:
    handler = signal.default_int_handler
    before = signal.signal(number, handler)  # who has started the tests may ignore it
    try:
        with stoppable() as stop:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGTERM)  # it does not disturb the ending

        assert stop == Stop(128 + number)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_who_ignores_hangups_goes_on() -> None:
    """As after ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop == Stop(0)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interruption_that_another_program_renames_keeps_its_code() -> None:
    def renames() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    with pytest.raises(Stopped) as caught, stoppable():
        renames()
    assert caught.value.code == 143


def disturbed(done: list[str]) -> None:
    """Twice a signal, each after its handler was replaced in C, as Ray's start does."""
    sigaction = ctypes.CDLL(None).signal
    for name in ("first", "second"):
        sigaction(signal.SIGTERM, 0)  # SIG_DFL: the next one would kill
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)
        done.append(name)


def test_a_signal_during_an_end_is_answered_when_that_is_done() -> None:
    done = list[str]()
    with stoppable() as stop, closing(Beside(stop)) as beside:
        with pytest.raises(Stopped) as caught:
            beside.ends(lambda: disturbed(done))
        assert not isinstance(caught.value, BrokenOff)
        assert done == ["first", "second"]
    assert stop == Stop(143)


def test_a_signal_during_a_start_is_answered_at_once() -> None:
    done = list[str]()
    with stoppable() as stop, closing(Beside(stop)) as beside:
        with pytest.raises(BrokenOff) as caught:
            beside.starts(lambda: disturbed(done))
        assert (caught.value.code, done) == (143, [])
        beside.ends(lambda: done.append("end"))
        assert done == ["first", "second", "end"]


def test_a_signal_that_was_swallowed_ends_a_start() -> None:
    """Some libraries catch all while they are imported."""
    with stoppable() as stop, closing(Beside(stop)) as beside:
        with contextlib.suppress(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(BrokenOff):
            beside.starts(lambda: time.sleep(1))


def test_a_signal_that_was_swallowed_before_is_answered_in_the_end() -> None:
    script = (
        "import os, signal\nfrom analysis.command import exits\nfrom runners.stop import stoppable\n"
        "@exits\ndef main(argv):\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n        print('swallowed')\n"
        "    with stoppable():\n        print('still there')\n"
        "raise SystemExit(main())\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "swallowed\n", "")


def test_a_signal_that_is_held_only_shows() -> None:
    with stoppable() as stop:
        with stop.held():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.code == 143
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop == Stop(143)


def test_a_second_interruption_ends_at_once() -> None:
    script = (
        "import os, signal\nfrom runners.stop import stoppable\n"
        "with stoppable() as stop, stop.held():\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('still there', flush=True)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "still there\n", "")


def test_work_beside_returns_or_raises_as_it_would_here() -> None:
    def fails() -> None:
        raise OSError(28, "No space left on device")

    with closing(Beside(Stop())) as beside:
        for run in (beside.starts, beside.ends):
            assert run(lambda: 7) == 7
            with pytest.raises(OSError, match="No space left"):
                run(fails)
            assert run(lambda: "again") == "again"


def test_the_exit_code_is_the_signal_s() -> None:
    def main(_argv: object) -> int:
        with stoppable():
            os.kill(os.getpid(), signal.SIGTERM)
        return 0

    assert exits(main)([]) == 143


def test_what_the_system_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main(_argv: object) -> int:
        raise OSError(28, "No space left on device", "runs/aa")

    assert exits(main)([]) == 1
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device: 'runs/aa'\n"
