"""What a sweep shows while it runs: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from analysis.command import tell
from analysis.screen import counted

__all__ = ["Count", "Progress", "progress"]

LINE_EVERY_S = 10.0
LINE_EVERY_SHARE = 0.1
KNOWN_SHARE = 0.1  # of the points: enough to expect how long the rest takes


@dataclass(slots=True)
class Count:
    """How far a sweep is.

    Attributes:
        total: Points to run now.
        workers: How many run side by side, at most.
    """

    total: int
    workers: int
    done: Counter[str] = field(default_factory=Counter)
    started_s: float = field(default_factory=time.monotonic)
    _first_s: dict[int, float] = field(default_factory=dict)
    _later_s: list[float] = field(default_factory=list)

    def add(self, status: str, wall_s: float, worker: int) -> None:
        """One more point ended; the number of its worker is negative if it did not have to be simulated."""
        self.done[status] += 1
        if worker < 0:
            return
        if worker in self._first_s:
            self._later_s.append(wall_s)
        else:
            self._first_s[worker] = wall_s

    @property
    def left(self) -> int:
        """Points that have not ended."""
        return self.total - self.done.total()

    @property
    def eta_s(self) -> float | None:
        """Expected seconds to the end: the mean of the points so far, without the first, slow one of each worker.

        Absent until every worker has ended a point, or a tenth of all has: a few points say little about the rest.
        """
        known = self._later_s or list(self._first_s.values())
        early = len(self._first_s) < self.workers and self.done.total() < KNOWN_SHARE * self.total
        return None if early or not known else statistics.fmean(known) * self.left / self.workers

    def __str__(self) -> str:
        states = ", ".join(f"{count} {status}" for status, count in sorted(self.done.items())) or "none yet"
        eta = "" if self.eta_s is None or not self.left else f", about {self.eta_s:.0f} s left"
        return f"{self.done.total()}/{self.total} done ({states}){eta}"


class Progress(Protocol):
    """Shows a count."""

    def show(self, count: Count) -> None:
        """``count`` may have changed."""


@dataclass(slots=True)
class _Lines:
    last_s: float = field(default_factory=time.monotonic)
    last_done: int = 0

    def show(self, count: Count) -> None:
        now_s, ended = time.monotonic(), count.done.total()
        far = ended - self.last_done >= LINE_EVERY_SHARE * count.total
        if ended > self.last_done and (far or now_s - self.last_s > LINE_EVERY_S):
            self.last_s, self.last_done = now_s, ended
            tell(f"[{now_s - count.started_s:6.1f} s] {count}")


@contextmanager
def progress(count: Count) -> Iterator[Progress]:
    """The display that suits stderr."""
    if not sys.stderr.isatty():
        work = f"{counted(count.workers, 'worker')} for {counted(count.total, 'point')}"
        tell(f"starting {work}; the first of each compiles the simulator")
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    with Bar(BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(f"starting {counted(count.workers, 'worker')}", total=count.total)

        class _Shown:
            def show(self, count: Count) -> None:
                bar.update(task, completed=count.done.total(), description=str(count))

        yield _Shown()
