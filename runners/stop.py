"""Ctrl-C and SIGTERM end a sweep in order: what is finished is stored, and the same command goes on from there."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar, cast

from analysis.command import INTERRUPTED, Noticed, Stopped

__all__ = ["Beside", "BrokenOff", "Stop", "stoppable"]

T = TypeVar("T")
_Outcome = tuple[Any, BaseException | None]
Handler = Callable[[int, FrameType | None], object] | int | None

LOOK_EVERY_S = 0.02
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # from a terminal; docker, slurm or systemd; one that closes


class BrokenOff(Stopped):
    """A signal came while something starts that cannot be ended yet: it goes on beside, until the process ends."""


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
        if number == signal.SIGHUP:
            _silence()
        stop.code = 128 + number  # as a shell reports it
        if not stop.is_held:
            raise Stopped(stop.code)

    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # by nohup, for one
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        for number, old in before.items():
            if isinstance(old, Noticed) and old.came:  # and what was being imported took no notice
                handler(number, None)
        yield stop
    except KeyboardInterrupt as error:
        raise Stopped(stop.code) if stop.code else error from None
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class Beside:
    """A thread that works while the thread that made it keeps the handlers of signals in place.

    Ray puts others there when it starts and when it ends, some where Python does not see it: they end the process at
    once, or abort it. The thread lives on: what Ray has started ends with the thread that started it.

    Attributes:
        stop: Where signals are noted; what is imported meanwhile may take no notice of what is raised.
    """

    def __init__(self, stop: Stop) -> None:
        # no locks: a handler may raise while one is held
        self.stop = stop
        self._asked: list[tuple[Callable[[], object], list[_Outcome]]] = []
        self._closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """End the thread, and with it what was started there and still runs."""
        self._closed = True

    def starts(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises.

        Raises:
            BrokenOff: A signal came, now or before. ``work`` may go on.
        """
        outcome: list[_Outcome] = []
        try:
            with self._handlers_kept() as keep:
                self._asked.append((work, outcome))
                while not outcome and not self.stop.code:
                    keep()
        except KeyboardInterrupt as stopped:
            raise BrokenOff(stopped.code if isinstance(stopped, Stopped) else INTERRUPTED) from None
        if not outcome:
            raise BrokenOff(self.stop.code)
        return cast(T, _result(outcome))

    def ends(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, unless a signal came: then, when it is done, what its handler raises."""
        outcome: list[_Outcome] = []
        self._asked.append((work, outcome))
        stopped: KeyboardInterrupt | None = None
        with self._handlers_kept() as keep:
            while not outcome:
                try:
                    keep()
                except KeyboardInterrupt as error:
                    stopped = error
        if stopped is not None:
            raise stopped
        return cast(T, _result(outcome))

    @contextmanager
    def _handlers_kept(self) -> Iterator[Callable[[], None]]:
        """A function that waits for a moment, and puts the handlers of signals back."""
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def keep() -> None:
            _put_back(before)
            time.sleep(LOOK_EVERY_S)

        try:
            yield keep
        finally:
            _put_back(before)

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


def _silence() -> None:
    """What is written to a terminal that has gone is dropped, and no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(nowhere, number)
    os.close(nowhere)


def _result(outcome: list[_Outcome]) -> Any:
    ((result, failure),) = outcome
    if failure is not None:
        raise failure
    return result


def _put_back(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
