"""Ctrl-C and SIGTERM end a sweep in order: what is finished is stored, and the same command goes on from there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from analysis.command import Stopped

__all__ = ["ours", "stoppable"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)  # from a terminal; from docker, slurm or systemd


@contextmanager
def stoppable() -> Iterator[None]:
    """The first signal raises ``Stopped``; after it Ctrl-C ends the process at once."""
    stopped: list[int] = []

    def handler(number: int, _frame: object) -> None:
        if stopped:
            if number == signal.SIGINT:
                os._exit(128 + number)
            return  # who sends SIGTERM again sends SIGKILL in the end
        stopped.append(number)
        raise Stopped(number)

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def ours() -> Iterator[None]:
    """Keep the handlers through the start of Ray, which puts an exit without order in the place of one."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    except SystemExit:
        raise Stopped(signal.SIGTERM) from None
    finally:
        for number, old in before.items():
            signal.signal(number, old)
