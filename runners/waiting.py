"""Points that wait for a worker: the longest first, short ones several at a time, each with what it takes of a host."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runners.durations import Durations
from runners.needs import Need
from runners.points import Point

__all__ = ["Task", "Waiting"]

SHORT_S = 0.05  # shorter points are handed over together
TOGETHER_S = 0.5
MOST = 64


@dataclass(slots=True)
class Task:
    """A point that is not done.

    Attributes:
        attempt: How often it was started.
        deaths: Of them, how often its process died while it simulated nothing else.
        losses: How often the machine under it was lost.
        single: Shares its call with no other, as something happened when it did.
        whole: Needs a host for itself, as memory did not suffice beside others.
    """

    point: Point
    attempt: int = 0
    deaths: int = 0
    losses: int = 0
    single: bool = False
    whole: bool = False


@dataclass(slots=True)
class Waiting:
    """Tasks by what they need.

    Attributes:
        reserve: Per network what one simulation takes.
        durations: Grows while the sweep runs.
    """

    reserve: Mapping[str, Need]
    durations: Durations
    _lanes: dict[Need, deque[Task]] = field(default_factory=lambda: defaultdict(deque))

    def fill(self, points: Sequence[Point]) -> None:
        """Add ``points``, longest first; equally long ones stay in their order."""
        for point in sorted(points, key=self.durations.expected_s, reverse=True):
            task = Task(point)
            self._lanes[self.need(task)].append(task)

    def need(self, task: Task) -> Need:
        """What ``task`` takes."""
        return Need(whole=True) if task.whole else self.reserve.get(str(task.point.labels["network"]), Need())

    def again(self, tasks: Sequence[Task]) -> None:
        """Put ``tasks`` back; they are the next."""
        for task in reversed(tasks):
            self._lanes[self.need(task)].appendleft(task)

    def take(self, fits: Callable[[Need], bool], workers: int) -> tuple[Need, list[Task]] | None:
        """What a worker with room for what ``fits`` does next, of ``workers`` that share what is left.

        The longest task that fits; if it is short, more of its kind, up to ``TOGETHER_S`` of work.
        """
        heads = [(self.durations.expected_s(lane[0].point), need) for need, lane in self._lanes.items() if lane]
        for _, need in sorted(heads, key=lambda head: -head[0]):
            if fits(need):
                return need, self._some(self._lanes[need], workers)
        return None

    def _some(self, lane: deque[Task], workers: int) -> list[Task]:
        """The first task of ``lane``, and those after it that are as short; half of a worker's part at most."""
        most = min(MOST, math.ceil(len(lane) / (2 * workers)))
        taken: list[Task] = []
        left_s = TOGETHER_S
        while lane and len(taken) < most:
            lasts_s = self.durations.measured_s(lane[0].point.labels)
            short = not lane[0].single and lasts_s is not None and lasts_s < SHORT_S and lasts_s <= left_s
            if taken and not short:
                break
            taken.append(lane.popleft())
            if lasts_s is None or not short:
                break
            left_s -= lasts_s
        return taken
