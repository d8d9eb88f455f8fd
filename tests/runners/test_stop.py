from __future__ import annotations

import os
import signal

import pytest

from analysis.command import Stopped, exits
from runners.stop import Stop, ours, stoppable


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


def test_handlers_outlast_what_replaces_them() -> None:
    with stoppable() as stop:
        with ours():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert stop.code == 143


def test_a_signal_that_another_program_turned_into_an_exit_is_noted() -> None:
    def leaves(_number: int, _frame: object) -> None:
        raise SystemExit(1)

    def starts() -> None:
        with ours():
            signal.signal(signal.SIGTERM, leaves)
            os.kill(os.getpid(), signal.SIGTERM)

    with stoppable() as stop:
        with pytest.raises(Stopped):
            starts()
        assert stop.code == 143  # whoever catches what was raised can still ask


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
