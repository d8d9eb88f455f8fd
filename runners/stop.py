"""Ctrl-C and SIGTERM end a sweep in order: what is finished is stored, and the same command goes on from there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar, cast

from analysis.command import Stopped, tell

__all__ = ["Beside", "Stop", "stoppable"]

T = TypeVar("T")
_Outcome = tuple[object, BaseException | None]
Handler = Callable[[int, FrameType | None], object] | int | None

LOOK_EVERY_S = 0.02
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # from a terminal; from docker, slurm or systemd


@dataclass(slots=True)
class Stop:
    """Whether a signal came: ``code`` is then the exit code, else 0."""

    code: int = 0
    is_held: bool = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, a signal sets ``code`` and raises nothing: who works here looks at it often."""
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False


@contextmanager
def stoppable() -> Iterator[Stop]:
    """The first signal raises ``Stopped``, or what Ray makes of it, unless it is held; after it Ctrl-C ends at once."""
    stop = Stop()

    def handler(number: int, _frame: object) -> None:
        if stop.code:
            if number == signal.SIGINT:
                os._exit(stop.code)
            return  # who sends SIGTERM again sends SIGKILL in the end
        stop.code = 128 + number  # as a shell reports it
        if not stop.is_held:
            raise Stopped(stop.code)

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield stop
    except KeyboardInterrupt as error:
        raise Stopped(stop.code) if stop.code else error from None
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class Beside:
    """A thread that works while the thread that made it keeps the handlers of signals in place.

    Ray puts others there when it starts and when it ends, some where Python does not see it: they end the process at
    once, or abort it. A signal that comes meanwhile is answered when the work is done, since half of a start could not
    be ended in order. The thread lives on: what Ray has started ends with the thread that started it.
    """

    def __init__(self) -> None:
        # no locks: a handler may raise while one is held
        self._asked: list[tuple[Callable[[], object], list[_Outcome]]] = []
        self._closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """End the thread, and with it what was started there and still runs."""
        self._closed = True

    def __call__(self, work: Callable[[], T], what: str = "work") -> T:
        """What ``work`` returns or raises, unless a signal came: then what its handler raises.

        Who sent that is told at once that it was heard, and that ``what`` has to end first.
        """
        outcome: list[_Outcome] = []
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def await_outcome() -> None:
            while not outcome:
                _put_back(before)
                time.sleep(LOOK_EVERY_S)
            _put_back(before)

        stopped: KeyboardInterrupt | None = None
        try:
            self._asked.append((work, outcome))
            await_outcome()
        except KeyboardInterrupt as error:
            if not any(other is outcome for _, other in self._asked):
                raise
            stopped = error
            tell(f"stopping: {what} cannot be broken off and takes some seconds; Ctrl-C again ends at once")
            await_outcome()
        if stopped is not None:
            raise stopped
        ((result, failure),) = outcome
        if failure is not None:
            raise failure
        return cast(T, result)

    def _serve(self) -> None:
        served = 0
        while not self._closed:
            for work, outcome in self._asked[served:]:
                served += 1
                try:
                    outcome.append((work(), None))
                except BaseException as error:
                    outcome.append((None, error))
            time.sleep(LOOK_EVERY_S)


def _put_back(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
