"""The points of a sweep that are to run: stored, shown and counted as they end."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from analysis.stored import DETAIL
from runners import pool
from runners.brake import FAILURES, Brake
from runners.detail import write_large
from runners.durations import Durations
from runners.points import Plan, Point
from runners.pool import Finished, Limits
from runners.progress import Count, progress
from runners.store import Store, row_of
from runners.track import Tracker
from runners.worker import Outcome

__all__ = ["Ended", "Running"]

STATUS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went.

    Attributes:
        cause: What stopped it early; empty if nothing did.
        states: Of the points that were asked for, how many have ended, now or before, with which status. A row of an
            earlier time whose point was to run again is none of them.
    """

    cause: str
    states: Counter[str]


@dataclass(frozen=True, slots=True)
class Running:
    """What a sweep knows while its points run.

    Attributes:
        asked: How many points were asked for: those of the plan, or the ones that ``only`` names.
        before: Of these, those that had ended before: how many with which status.
        tracker: Where rows are logged besides, if anywhere.
        brake: What ends it early.
    """

    plan: Plan
    store: Store
    asked: int
    before: Counter[str]
    durations: Durations
    tracker: Tracker | None
    brake: Brake

    def run(self, missing: Sequence[Point]) -> Ended:
        """Run and store ``missing``."""
        settings = self.plan.settings
        workers = settings.num_workers or len(os.sched_getaffinity(0))
        by_network: dict[str, list[Point]] = {}
        for point in (each for each in missing if not each.contradiction):
            by_network.setdefault(str(point.labels["network"]), []).append(point)
        kinds = Counter({kind: len(own) for kind, own in by_network.items()})
        known_s = {kind: self.durations.alike_s(own) for kind, own in by_network.items()}
        measured_s = {kind: each for kind, each in known_s.items() if each is not None}
        count = Count(len(missing), min(workers, len(missing)), kinds, measured_s)
        state, cause = "stopped", ""
        try:
            if missing:
                self._note("running", count)  # not what an earlier sweep left, while Ray starts
                self._follow(missing, count)
            cause = self.brake.cause if count.left else ""
            state = "interrupted" if cause else "finished"
        except KeyboardInterrupt:
            state = cause = "interrupted"
        finally:
            self._note(state, count, cause)
            if settings.shard is None:
                self.store.compact()
        return Ended(cause, self.before + count.done)

    def _note(self, state: str, count: Count, cause: str = "") -> None:
        shard, more = self.plan.settings.shard, {"only": bool(self.plan.settings.only), "cause": cause}
        name = "status.json" if shard is None else f"status-{shard.name}.json"
        self.store.note(state, self.asked, self.before + count.done, count.eta_s, count.noted | more, name)

    def _follow(self, missing: Sequence[Point], count: Count) -> None:
        """Store and show each outcome as it comes."""
        noted_s = 0.0
        with progress(count) as display, closing(self._outcomes(missing, count)) as outcomes:
            for done in outcomes:
                if done is not None:
                    self._keep(done, count)
                display.show(count)
                if time.monotonic() - noted_s > STATUS_EVERY_S:
                    noted_s = time.monotonic()
                    self._note("running", count)

    def _keep(self, done: Finished, count: Count) -> None:
        point, outcome = done.point, done.outcome
        row = row_of(point, outcome, worker=done.worker, attempt=done.attempt)
        if large := outcome.get("tables"):
            write_large(self.store.folder / DETAIL / point.key, large)
        self.store.write(row)
        if self.tracker is not None:
            self.tracker.add(row)
        status = outcome["status"]
        count.add(status, outcome["wall_s"], done.worker, str(point.labels["network"]))
        self.brake.count(status)
        if status in FAILURES:
            count.fail(status, point.title, outcome["reason"])

    def _outcomes(self, missing: Sequence[Point], count: Count) -> Generator[Finished | None]:
        """Contradictions are answered here, the rest by workers."""
        for point in missing:
            if point.contradiction:
                reason = str(point.contradiction)
                outcome = Outcome(status="invalid", reason=reason, details="", metrics={}, wall_s=0.0)
                yield Finished(point, outcome, -1, 0)
        sound = [point for point in missing if not point.contradiction]
        settings = self.plan.settings
        limits = Limits(
            workers=settings.num_workers,
            timeout_s=settings.timeout_s,
            retries=settings.retries,
            address=settings.ray_address,
            ship=settings.ray_ship,
            reserve=settings.reserve,
            durations=self.durations,
            brake=self.brake,
            begun=count.begin,
        )
        if sound:
            _compile(sound)
            yield from pool.finished(sound, limits)


def _compile(points: Sequence[Point]) -> None:
    """What packets need, before several workers do it at once."""
    if any(point.labels["network"] == "packet" for point in points):
        from runners.warm import warm
        from xsim.families import build

        warm(build("network", {"name": "packet"}))
