"""Many simulations side by side: long-lived Ray actors and a loop over them.

A dead actor loses nothing: its point is started again, and after the last retry becomes a row. Ray's own retries stay
off, so that an attempt is counted once; its ``cancel`` cannot stop a busy actor, so a point past its deadline is
ended together with its process. What an actor answers after that goes nowhere: only the slot's present call is asked.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.command import Stopped, tell
from runners.brake import Brake
from runners.durations import Durations
from runners.needs import Need
from runners.points import Point
from runners.ray_session import PoolError, Session, StartError, first_line, ray_session, resource
from runners.waiting import Task, Waiting
from runners.worker import Greeting, Outcome, Worker, versions

__all__ = ["Finished", "Limits", "finished"]

TICK_S = 0.5
DRAIN_S = 1.0  # for what is about to end when the sweep is stopped
SLOW_START_S = 30.0
STARTS = 3  # that may fail in a row before the sweep gives up
LOSSES = 10  # of the machine under a point, before it is blamed for them
NODE_LOST = ("node has died", "owner has died", "node was terminated")  # how Ray says that it was not the process


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may run.

    Attributes:
        workers: Actors; absent: one per CPU.
        timeout_s: Of one attempt; absent: none.
        retries: Further attempts after the process of a simulation died.
        address: ``local`` for a Ray of one's own, else a cluster's.
        ship: Whether a cluster's workers get the simulator of this process.
        reserve: Per network what one simulation takes of its host.
        durations: What simulations took before.
        brake: What ends it early.
        begun: Is told the number of a worker and the titles of the points that it starts on; none when it has ended.
    """

    workers: int | None
    timeout_s: float | None
    retries: int
    address: str
    ship: bool = False
    reserve: Mapping[str, Need] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)
    brake: Brake = field(default_factory=Brake)
    begun: Callable[[int, Sequence[str]], None] = lambda _worker, _titles: None


@dataclass(frozen=True, slots=True)
class Finished:
    """A point that is done, whatever became of it."""

    point: Point
    outcome: Outcome
    worker: int
    attempt: int


@dataclass(slots=True)
class _Slot:
    """An actor and what it is doing: starting (no node yet), simulating, or idle (nothing pending).

    Attributes:
        node: Ray's name of its host.
        memory: All bytes that simulations may use on that host, and the share of one of its CPUs.
        need: What the simulations that are pending take.
    """

    number: int
    actor: Any
    pending: Any
    node: str = ""
    memory: tuple[int, int] = (0, 0)
    tasks: list[Task] = field(default_factory=list)
    need: Need = field(default_factory=Need)
    started_s: float = field(default_factory=time.monotonic)

    @property
    def lasted_s(self) -> float:
        """Since the call that is pending began."""
        return time.monotonic() - self.started_s

    @property
    def memory_bytes(self) -> int:
        """That what is pending may use."""
        total, share = self.memory
        return total if self.need.whole else min(total, self.need.memory_bytes or share)


def finished(points: Sequence[Point], limits: Limits, worker: type[Worker] = Worker) -> Iterator[Finished | None]:
    """Run ``points``; yields each as it ends, and ``None`` a few times a second in between.

    Closing the iterator ends every process it started. When the brake is pulled, what is about to end is still
    yielded, the rest of the points is not.

    Raises:
        PoolError: Workers do not start.
        Stopped: A signal came.
    """
    waiting = Waiting(limits.reserve, limits.durations)
    waiting.fill(points)
    left, in_vain = len(points), 0
    while left and not limits.brake.cause:
        in_vain += 1
        started = ray_session(limits.address, limits.workers, limits.brake.stop, ship=limits.ship)
        try:
            with started as session, limits.brake.held():
                pool = _Pool(limits, worker, session, waiting, min(session.workers, left))
                for done in pool.run(left):
                    if done is not None:
                        left, in_vain = left - 1, 0
                    yield done
        except StartError as error:
            if in_vain == STARTS:
                raise
            tell(f"{error}; it is started again")
        if in_vain == STARTS:
            raise PoolError(f"Ray ended {STARTS} times before a simulation did; its servers are killed by somebody")
    if limits.brake.stop.code:
        raise Stopped(limits.brake.stop.code)


class _Pool:
    """The slots of one Ray session."""

    def __init__(self, limits: Limits, worker: type[Worker], session: Session, waiting: Waiting, count: int) -> None:
        self.limits, self.worker, self.session, self.waiting = limits, worker, session, waiting
        self.failed_starts = 0
        self.warned = False
        self.slots = [self._started(number) for number in range(count)]

    def run(self, left: int) -> Iterator[Finished | None]:
        """Until ``left`` points have ended, the session is lost or the brake pulled."""
        while left and not self.limits.brake.cause:
            self._feed()
            for done in self._collected(TICK_S):
                left -= 1
                yield done
            if self.session.lost:
                break
            yield None
        ends_s = time.monotonic() + DRAIN_S
        while self.limits.brake.cause and any(slot.tasks for slot in self.slots) and time.monotonic() < ends_s:
            yield from self._collected(TICK_S)
        self.waiting.again([self._lost(task) for slot in self.slots for task in slot.tasks])

    def _started(self, number: int) -> _Slot:
        """A fresh actor in slot ``number``; its first answer tells which simulator it runs."""
        import ray

        self.limits.begun(number, [])
        actor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(self.worker).remote()
        return _Slot(number, actor, actor.hello.remote())

    def _feed(self) -> None:
        """Give idle actors what their hosts have room for."""
        for slot in self.slots:
            if slot.pending is not None:
                continue
            taken = self.waiting.take(functools.partial(self._fits, slot), len(self.slots))
            if taken is None:
                continue
            slot.need, slot.tasks = taken
            for task in slot.tasks:
                task.attempt += 1
            slot.started_s = time.monotonic()
            self.limits.begun(slot.number, [task.point.title for task in slot.tasks])
            memory_bytes = None if slot.need.whole else slot.memory_bytes
            slot.pending = slot.actor.simulate_all.remote([task.point.config for task in slot.tasks], memory_bytes)

    def _fits(self, slot: _Slot, need: Need) -> bool:
        """Whether the host of ``slot`` has room for ``need`` beside what it does; always if it does nothing."""
        there = [other for other in self.slots if other.node == slot.node]
        busy = [other for other in there if other.tasks]
        if not busy:
            return True
        if need.whole or any(other.need.whole for other in busy):
            return False
        total, share = slot.memory
        memory_bytes = sum(other.memory_bytes for other in busy) + (need.memory_bytes or share)
        return memory_bytes <= total and sum(other.need.cpus for other in busy) + need.cpus <= len(there)

    def _collected(self, patience_s: float) -> Iterator[Finished]:
        """What ends within ``patience_s``, and what has lasted too long."""
        import ray

        busy = {slot.pending: slot for slot in self.slots if slot.pending is not None}
        ready, _ = ray.wait(list(busy), num_returns=1, timeout=patience_s)
        for reference in ready:
            yield from self._answered(busy[reference])
        for slot in self.slots:
            yield from self._stopped_if_late(slot)

    def _answered(self, slot: _Slot) -> Iterator[Finished]:
        import ray
        from ray.exceptions import OutOfMemoryError, RayError

        try:
            answer = ray.get(slot.pending)
        except OutOfMemoryError:
            yield from self._died(slot, "out_of_memory", "the machine ran out of memory")
            return
        except RayError as error:
            yield from self._died(slot, "crashed", first_line(error))
            return
        slot.pending = None
        self.limits.begun(slot.number, [])
        if not slot.node:
            self._check(answer)
            memory = self.session.memory_bytes(answer["node"])
            if memory is None:  # its host has been lost since
                slot.pending = slot.actor.hello.remote()
            else:
                slot.node, slot.memory, self.failed_starts = answer["node"], memory, 0
            return
        tasks, slot.tasks = slot.tasks, []
        for task, outcome in zip(tasks, answer, strict=True):
            shared = not (slot.need.whole or slot.need.memory_bytes) and slot.memory_bytes < slot.memory[0]
            if outcome["status"] == "out_of_memory" and shared:
                task.whole = task.single = True
                self.waiting.again([task])
                continue
            if outcome["status"] == "ok":  # what goes wrong at once tells nothing of the others
                self.limits.durations.add(task.point.labels, outcome["wall_s"])
            yield Finished(task.point, outcome, slot.number, task.attempt)

    def _check(self, greeting: Greeting) -> None:
        """Refuse a worker whose figures would be another simulator's."""
        there, here = greeting["versions"], versions()
        for name in here:
            if there.get(name) != here[name]:
                found = f"{name} is {there.get(name)} there, {here[name]} here"
                raise PoolError(
                    f"host {greeting['host']} runs another version: {found}; install the same on every host"
                )

    def _died(self, slot: _Slot, status: str, reason: str) -> Iterator[Finished]:
        """Replace the actor; what it did starts again or ends with ``status``."""
        if not slot.node:
            self.failed_starts += 1
            if self.failed_starts == STARTS:
                raise PoolError(f"workers do not start: {reason}")
        for task in reversed(slot.tasks):
            if status == "out_of_memory" and not task.whole:  # perhaps another one's doing
                task.whole = task.single = True
            elif any(sign in reason for sign in NODE_LOST) and task.losses < LOSSES:
                self._lost(task)
            elif len(slot.tasks) > 1:  # any of them may be the culprit
                task.single = True
            elif status == "crashed" and task.deaths < self.limits.retries:
                task.deaths += 1
            else:
                yield Finished(task.point, _without_result(status, reason, slot), slot.number, task.attempt)
                continue
            self.waiting.again([task])
        self.slots[slot.number] = self._started(slot.number)

    def _lost(self, task: Task) -> Task:
        task.losses += 1
        task.single = True
        return task

    def _stopped_if_late(self, slot: _Slot) -> Iterator[Finished]:
        import ray

        timeout_s = self.limits.timeout_s
        if slot.pending is None:
            return
        if not slot.node:
            if slot.lasted_s > SLOW_START_S and not self.warned:
                self.warned = True
                free, cpus = resource(ray.available_resources, "CPU"), resource(ray.cluster_resources, "CPU")
                shown = f"{free:g} of {cpus:g} CPUs are free"
                warnings.warn(f"a worker has been starting for {slot.lasted_s:.0f} s: {shown}", stacklevel=2)
        elif timeout_s is not None and slot.lasted_s > timeout_s:
            ray.kill(slot.actor)
            if len(slot.tasks) > 1:
                for task in slot.tasks:
                    task.single = True
                self.waiting.again(slot.tasks)
            else:
                reason = f"it took longer than timeout_s={timeout_s:g}"
                (task,), slot.tasks = slot.tasks, []
                yield Finished(task.point, _without_result("timeout", reason, slot), slot.number, task.attempt)
            self.slots[slot.number] = self._started(slot.number)


def _without_result(status: str, reason: str, slot: _Slot) -> Outcome:
    return Outcome(status=status, reason=reason, details="", metrics={}, wall_s=slot.lasted_s)
