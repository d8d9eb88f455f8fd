from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from analysis.command import Stopped, exits
from runners.stop import Beside, Stop, stoppable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with stoppable() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)  # it does not disturb the ending

    assert stop == Stop(128 + number)
    assert signal.getsignal(number) is before


def test_an_interruption_that_another_program_renames_keeps_its_code() -> None:
    def renames() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    with pytest.raises(Stopped) as caught, stoppable():
        renames()
    assert caught.value.code == 143


def test_a_signal_during_work_beside_is_answered_when_the_work_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever handler the work may have put in place, in C as Ray's start does, or by its end; it is heard at once."""
    sigaction = ctypes.CDLL(None).signal
    done, said = list[str](), list[str]()

    def work() -> str:
        for name in ("first", "second"):
            said.append(capsys.readouterr().err)
            sigaction(signal.SIGTERM, 0)  # SIG_DFL: the next one would kill
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.3)
            done.append(name)
        return "unused"

    with stoppable() as stop, closing(Beside()) as beside:
        with pytest.raises(Stopped):
            beside(work, "a long start")
        assert beside(lambda: 7) == 7
        assert done == ["first", "second"]
        assert said == [
            "",
            "stopping: a long start cannot be broken off and takes some seconds; Ctrl-C again ends at once\n",
        ]
    assert stop == Stop(143)


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

    with closing(Beside()) as beside:
        assert beside(lambda: 7) == 7
        with pytest.raises(OSError, match="No space left"):
            beside(fails)
        assert beside(lambda: "again") == "again"


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
