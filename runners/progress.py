"""What a sweep shows while it runs: a table on a terminal, a line now and then in a log."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from analysis.command import tell
from analysis.screen import counted

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Count", "Doing", "Progress", "progress", "shown_s"]

LINE_EVERY_S = 10.0
LINE_EVERY_SHARE = 0.1
KNOWN_SHARE = 0.1  # of the points: enough to expect how long the rest takes
BASIS = 3  # points of a network beside the first of each worker, which compile: of three one odd time is not the median
CAUSES = 10  # of failures that are told while the sweep runs; its end groups them all
WORKERS = 16  # that a screen shows


@dataclass(frozen=True, slots=True)
class Doing:
    """What a worker does, since when by the monotonic clock."""

    title: str
    since_s: float


@dataclass(slots=True)
class Count:
    """How far a sweep is.

    Attributes:
        total: Points to run now.
        workers: How many run side by side, at most.
        kinds: How many points to simulate each network has; without it all are alike.
        known_s: Means of earlier rows like the points, by network.
        doing: By the number of the worker.
        failures: The first failure of each cause, in order.
    """

    total: int
    workers: int
    kinds: Counter[str] = field(default_factory=Counter)
    known_s: Mapping[str, float] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    doing: dict[int, Doing] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    started_s: float = field(default_factory=time.monotonic)
    _begun: set[int] = field(default_factory=set)
    _later_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _ended: Counter[str] = field(default_factory=Counter)

    def add(self, status: str, wall_s: float, worker: int, kind: str = "") -> None:
        """One more point ended; the number of its worker is negative if it did not have to be simulated."""
        self.done[status] += 1
        if worker < 0:
            return
        self._ended[kind] += 1
        if worker in self._begun:
            self._later_s[kind].append(wall_s)
        else:
            self._begun.add(worker)

    def begin(self, worker: int, titles: Sequence[str]) -> None:
        """``worker`` starts on points with these titles; without any it has nothing to do."""
        if titles:
            more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
            self.doing[worker] = Doing(f"{titles[0]}{more}", time.monotonic())
        else:
            self.doing.pop(worker, None)

    def fail(self, status: str, title: str, reason: str) -> None:
        """Note that a point failed, if it is the first with this cause."""
        self.failures.setdefault((status, reason), title)

    @property
    def left(self) -> int:
        """Points that have not ended."""
        return self.total - self.done.total()

    @property
    def per_minute(self) -> float:
        """Points that ended, over the time since the start."""
        return 60 * self.done.total() / max(1e-9, time.monotonic() - self.started_s)

    @property
    def eta_s(self) -> float | None:
        """Expected seconds to the end: the median of each network's points, without the first, slow one of each worker.

        Until ``BASIS`` of a network have ended, that of earlier rows. Absent without either, or until every worker has
        ended a point, or a tenth of all has, if earlier rows do not know every network: a few points say little about
        the rest.
        """
        kinds = self.kinds or Counter({"": self.left + self._ended[""]})
        left = {kind: count - self._ended[kind] for kind, count in kinds.items() if count > self._ended[kind]}
        early = len(self._begun) < self.workers and self.done.total() < KNOWN_SHARE * self.total
        if early and not all(kind in self.known_s for kind in left):
            return None
        expected = {kind: self._typical_s(kind) for kind in left}
        known = {kind: typical_s for kind, typical_s in expected.items() if typical_s is not None}
        if len(known) < len(left):
            return None
        total_s = sum(typical_s * left[kind] for kind, typical_s in known.items())
        return max(total_s / max(1, self.workers), *known.values(), 0.0)

    def _typical_s(self, kind: str) -> float | None:
        later = self._later_s.get(kind, [])
        return statistics.median(later) if len(later) >= BASIS else self.known_s.get(kind)

    def __str__(self) -> str:
        states = ", ".join(f"{count} {status}" for status, count in sorted(self.done.items())) or "none yet"
        eta = "" if self.eta_s is None or not self.left else f", about {shown_s(self.eta_s)} left"
        return f"{self.done.total()}/{self.total} done ({states}){eta}"

    @property
    def line(self) -> str:
        """All that a line of a log tells."""
        running = f", {len(self.doing)} running" if self.doing else ""
        return f"{self}{running}, {self.per_minute:.3g} a minute"

    @property
    def noted(self) -> dict[str, object]:
        """What ``status.json`` tells beside numbers of points."""
        now_s = time.monotonic()
        running = [
            {"worker": number, "point": doing.title, "for_s": round(now_s - doing.since_s, 1)}
            for number, doing in sorted(self.doing.items())
        ]
        failures = [
            {"status": status, "reason": reason, "first": title} for (status, reason), title in self.failures.items()
        ]
        return {"per_minute": round(self.per_minute, 3), "running": running, "failures": failures[:CAUSES]}


class Progress(Protocol):
    """Shows a count."""

    def show(self, count: Count) -> None:
        """``count`` may have changed."""


@dataclass(slots=True)
class _Lines:
    last_s: float = field(default_factory=time.monotonic)
    last_done: int = 0
    told: int = 0

    def show(self, count: Count) -> None:
        for line in _new_failures(count, self.told):
            self.told += 1
            tell(line)
        now_s, ended = time.monotonic(), count.done.total()
        far = ended - self.last_done >= LINE_EVERY_SHARE * count.total
        far = far or not count.left
        if ended > self.last_done and (far or now_s - self.last_s > LINE_EVERY_S):
            self.last_s, self.last_done = now_s, ended
            tell(f"[{now_s - count.started_s:6.1f} s] {count.line}")


@contextmanager
def progress(count: Count) -> Iterator[Progress]:
    """The display that suits stderr."""
    if not sys.stderr.isatty():
        work = f"{counted(count.workers, 'worker')} for {counted(count.total, 'point')}"
        tell(f"starting {work}; the first of each loads the simulator, and compiles it once per machine")
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=2, get_renderable=lambda: _screen(count)) as live:

        class _Shown:
            told = 0

            def show(self, count: Count) -> None:
                for line in _new_failures(count, self.told):
                    self.told += 1
                    live.console.print(line, highlight=False, markup=False)

        yield _Shown()


def shown_s(seconds: float) -> str:
    """A duration for people.

    >>> shown_s(4.2), shown_s(600.0), shown_s(9000.0)
    ('4 s', '10 min', '2 h 30 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _new_failures(count: Count, told: int) -> list[str]:
    """A line for each cause of failures that is not among the first ``told``."""
    found = [f"{status}: {title}: {reason}" for (status, reason), title in count.failures.items()]
    if told >= CAUSES:
        return []
    return found[told:CAUSES]


def _screen(count: Count) -> Group:
    """A bar, how far the sweep is, and a row per worker."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    now_s = time.monotonic()
    bar = ProgressBar(total=max(1, count.total), completed=count.done.total(), width=40)
    state = count.line if count.done or count.doing else f"starting {counted(count.workers, 'worker')}"
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for number, doing in sorted(count.doing.items())[:WORKERS]:
        title = Text(doing.title, no_wrap=True, overflow="ellipsis")
        table.add_row(Text(f"worker {number}"), Text(shown_s(now_s - doing.since_s), justify="right"), title)
    hidden = len(count.doing) - WORKERS
    more = [Text(f"and {counted(hidden, 'worker')} more")] if hidden > 0 else []
    return Group(bar, Text(f"[{shown_s(now_s - count.started_s)}] {state}"), table, *more)
