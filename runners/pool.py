"""Many simulations side by side: long-lived Ray actors and a loop over them.

A dead actor loses nothing: its point is started again, and after the last retry becomes a row. Ray's own retries stay
off, so that an attempt is counted once; its ``cancel`` cannot stop a busy actor, so a point past its deadline is
ended together with its process.
"""

from __future__ import annotations

import collections
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.inputs import code_hash
from runners.points import Point
from runners.ray_session import PoolError, first_line, ray_session, resource
from runners.worker import Outcome, Worker

__all__ = ["Finished", "Limits", "finished"]

TICK_S = 1.0
SLOW_START_S = 30.0
STARTS = 3  # that may fail in a row before the sweep gives up


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may run.

    Attributes:
        workers: Actors; absent: one per CPU.
        timeout_s: Of one attempt; absent: none.
        retries: Further attempts after the process of a simulation died.
        address: ``local`` for a Ray of one's own, else a cluster's.
    """

    workers: int | None
    timeout_s: float | None
    retries: int
    address: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A point that is done, whatever became of it."""

    point: Point
    outcome: Outcome
    worker: int
    attempt: int


@dataclass(slots=True)
class _Slot:
    """An actor and what it is doing: starting (no point), simulating, or idle (nothing pending)."""

    number: int
    actor: Any
    pending: Any
    point: Point | None = None
    attempt: int = 0
    started_s: float = field(default_factory=time.monotonic)


def finished(points: Sequence[Point], limits: Limits, worker: type[Worker] = Worker) -> Iterator[Finished | None]:
    """Run ``points``; yields each as it ends, and ``None`` about once a second in between.

    Closing the iterator ends every process it started.

    Raises:
        PoolError: Workers do not start.
    """
    with ray_session(limits.address, limits.workers) as (count, memory_bytes):
        pool = _Pool(limits, worker, memory_bytes, collections.deque((point, 1) for point in points))
        pool.slots = [pool.started(number) for number in range(min(count, len(points)))]
        left = len(points)
        while left:
            for done in pool.step():
                left -= 1
                yield done
            yield None


@dataclass(slots=True)
class _Pool:
    limits: Limits
    worker: type[Worker]
    memory_bytes: int | None
    queue: collections.deque[tuple[Point, int]]
    slots: list[_Slot] = field(default_factory=list)
    failed_starts: int = 0
    warned: bool = False

    def started(self, number: int) -> _Slot:
        """A fresh actor in slot ``number``; its first answer tells which simulator it runs."""
        import ray

        actor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(self.worker).remote(self.memory_bytes)
        return _Slot(number, actor, actor.code.remote())

    def step(self) -> Iterator[Finished]:
        """Feed idle actors, then wait for at most ``TICK_S``."""
        import ray

        for slot in self.slots:
            if slot.pending is None and self.queue:
                slot.point, slot.attempt = self.queue.popleft()
                slot.started_s = time.monotonic()
                slot.pending = slot.actor.simulate.remote(slot.point.config)
        busy = {slot.pending: slot for slot in self.slots if slot.pending is not None}
        ready, _ = ray.wait(list(busy), num_returns=1, timeout=TICK_S)
        for reference in ready:
            yield from self._collected(busy[reference])
        for slot in self.slots:
            yield from self._stopped_if_late(slot)

    def _collected(self, slot: _Slot) -> Iterator[Finished]:
        import ray
        from ray.exceptions import OutOfMemoryError, RayError

        try:
            answer = ray.get(slot.pending)
        except OutOfMemoryError:
            yield from self._died(slot, "out_of_memory", "the machine ran out of memory; try fewer num_workers")
            return
        except RayError as error:
            yield from self._died(slot, "crashed", first_line(error))
            return
        slot.pending = None
        if slot.point is None:
            if answer != code_hash():
                raise PoolError(f"worker {slot.number} runs another version of xsim ({answer}, here {code_hash()})")
            self.failed_starts = 0
        else:
            yield Finished(slot.point, answer, slot.number, slot.attempt)

    def _died(self, slot: _Slot, status: str, reason: str) -> Iterator[Finished]:
        """Replace the actor; its point starts again or ends with ``status``."""
        if slot.point is None:
            self.failed_starts += 1
            if self.failed_starts == STARTS:
                raise PoolError(f"workers do not start: {reason}")
        elif slot.attempt <= self.limits.retries:
            self.queue.appendleft((slot.point, slot.attempt + 1))
        else:
            yield Finished(slot.point, _without_result(status, reason, slot), slot.number, slot.attempt)
        self.slots[slot.number] = self.started(slot.number)

    def _stopped_if_late(self, slot: _Slot) -> Iterator[Finished]:
        import ray

        lasted_s = time.monotonic() - slot.started_s
        if slot.pending is None:
            return
        if slot.point is None:
            if lasted_s > SLOW_START_S and not self.warned:
                self.warned = True
                free, cpus = resource(ray.available_resources, "CPU"), resource(ray.cluster_resources, "CPU")
                shown = f"{free:g} of {cpus:g} CPUs are free"
                warnings.warn(f"a worker has been starting for {lasted_s:.0f} s: {shown}", stacklevel=2)
        elif self.limits.timeout_s is not None and lasted_s > self.limits.timeout_s:
            ray.kill(slot.actor)
            reason = f"it took longer than timeout_s={self.limits.timeout_s:g}"
            yield Finished(slot.point, _without_result("timeout", reason, slot), slot.number, slot.attempt)
            self.slots[slot.number] = self.started(slot.number)


def _without_result(status: str, reason: str, slot: _Slot) -> Outcome:
    lasted_s = time.monotonic() - slot.started_s
    return Outcome(status=status, reason=reason, details="", metrics={}, wall_s=lasted_s)
