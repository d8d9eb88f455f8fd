"""Ctrl-C and SIGTERM end a sweep in order: what is finished is stored, and the same command goes on from there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from analysis.command import Stopped

__all__ = ["Stop", "ours", "stoppable"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)  # from a terminal; from docker, slurm or systemd


@dataclass(slots=True)
class Stop:
    """Whether a signal came: ``code`` is then the exit code, else 0."""

    code: int = 0


@contextmanager
def stoppable() -> Iterator[Stop]:
    """The first signal raises ``Stopped``, or what Ray makes of it; after it Ctrl-C ends the process at once."""
    stop = Stop()

    def handler(number: int, _frame: object) -> None:
        if stop.code:
            if number == signal.SIGINT:
                os._exit(stop.code)
            return  # who sends SIGTERM again sends SIGKILL in the end
        stop.code = 128 + number  # as a shell reports it
        raise Stopped(stop.code)

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield stop
    except KeyboardInterrupt as error:
        raise Stopped(stop.code) if stop.code else error from None
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def ours() -> Iterator[None]:
    """Keep the handlers through start and end of Ray, which puts exits without order in their place.

    A signal that came meanwhile, and became such an exit, comes again: the handler that it was meant for answers it.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    exiting = False
    try:
        yield
    except SystemExit:
        exiting = True
    finally:
        for number, old in before.items():
            signal.signal(number, old)
    if exiting:
        signal.raise_signal(signal.SIGTERM)
