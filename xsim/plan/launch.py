"""Who sends each unit task, and in which order they are launched, so that ports are idle as little as can be.

A task starts when the port of its sender and those of all its receivers are free, and keeps them for as long as its
size. Two searches of arXiv 2211.05322 (section 4; Alpa's ``loadbalance_order``): greedy rounds of tasks that can run at
the same time, the best of random trials; then depth first with pruning. Both end by counts, not by a clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import pvariance

__all__ = ["Choice", "Job", "Port", "finish", "greedy", "improved"]

Port = tuple[str, int]
Choice = tuple[int, int]  # (number of the job, rank that sends)


@dataclass(frozen=True, slots=True)
class Job:
    """A unit task as far as its place in the order depends on it.

    Attributes:
        size: How long it takes, in any one unit.
        ports: By sending rank, its port, then the ports of all receivers.
    """

    size: int
    ports: Mapping[int, tuple[Port, ...]]


def finish(jobs: Sequence[Job], order: Sequence[Choice]) -> int:
    """When the last of ``order`` ends, each started as soon as its ports are free of those before it."""
    free: dict[Port, int] = {}
    for number, sender in order:
        _occupy(free, jobs[number], sender)
    return max(free.values(), default=0)


def greedy(jobs: Sequence[Job], trials: int, seed: int) -> tuple[Choice, ...]:
    """Round after round the most jobs that share no port, of as many random ``trials``.

    A sender is drawn the likelier the less it has sent; of equal trials the one counts that spreads the sending most
    evenly.
    """
    rng = random.Random(seed)
    waiting = list(range(len(jobs)))
    sent = {ports[0]: 0 for job in jobs for ports in job.ports.values()}
    order: list[Choice] = []
    while waiting:
        rounds = [_round(jobs, waiting, sent, rng) for _ in range(trials)]
        chosen = min(rounds, key=lambda choices: (-len(choices), pvariance(_after(jobs, choices, sent).values())))
        sent = _after(jobs, chosen, sent)
        order += chosen
        taken = {number for number, _ in chosen}
        waiting = [number for number in waiting if number not in taken]
    return tuple(order)


def _round(
    jobs: Sequence[Job], waiting: Sequence[int], sent: Mapping[Port, int], rng: random.Random
) -> tuple[Choice, ...]:
    busy: set[Port] = set()
    most = max(sent.values())
    chosen = []
    for number in rng.sample(waiting, len(waiting)):
        able = [rank for rank, ports in jobs[number].ports.items() if busy.isdisjoint(ports)]
        if able:
            weights = [most - sent[jobs[number].ports[rank][0]] + 1 for rank in able]
            (sender,) = rng.choices(able, weights)
            busy.update(jobs[number].ports[sender])
            chosen.append((number, sender))
    return tuple(chosen)


def _after(jobs: Sequence[Job], choices: Sequence[Choice], sent: Mapping[Port, int]) -> dict[Port, int]:
    loads = dict(sent)
    for number, sender in choices:
        loads[jobs[number].ports[sender][0]] += jobs[number].size
    return loads


def improved(jobs: Sequence[Job], order: Sequence[Choice], evaluations: int) -> tuple[Choice, ...]:
    """The best order that depth-first search meets in so many ``evaluations``, ``order`` included.

    An evaluation is a step: it places a job, or turns back. What cannot end before the best so far is not followed;
    nothing is, once an order takes no longer than any can.
    """
    best, best_end = tuple(order), finish(jobs, order)
    least = _least(jobs, {}, range(len(jobs)))
    stack = [_Node((), {}, tuple(range(len(jobs)))).branches(jobs)]
    for _ in range(evaluations):
        if best_end == least or not stack:
            break
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif not node.waiting:
            end = max(node.free.values())
            if end < best_end:
                best, best_end = node.order, end
        elif _least(jobs, node.free, node.waiting) < best_end:
            stack.append(node.branches(jobs))
    return best


@dataclass(frozen=True, slots=True)
class _Node:
    """Some jobs placed; when the ports are free of them; those that wait."""

    order: tuple[Choice, ...]
    free: dict[Port, int]
    waiting: tuple[int, ...]

    def branches(self, jobs: Sequence[Job]) -> Iterator[_Node]:
        """Every job that waits, by every sender, as the next; the earliest first, of equals the largest."""
        choices = [(number, rank) for number in self.waiting for rank in jobs[number].ports]
        choices.sort(key=lambda choice: (_start(self.free, jobs[choice[0]], choice[1]), -jobs[choice[0]].size))
        for number, sender in choices:
            free = dict(self.free)
            _occupy(free, jobs[number], sender)
            yield _Node((*self.order, (number, sender)), free, tuple(x for x in self.waiting if x != number))


def _start(free: Mapping[Port, int], job: Job, sender: int) -> int:
    return max(free.get(port, 0) for port in job.ports[sender])


def _occupy(free: dict[Port, int], job: Job, sender: int) -> None:
    free.update(dict.fromkeys(job.ports[sender], _start(free, job, sender) + job.size))


def _least(jobs: Sequence[Job], free: Mapping[Port, int], waiting: Sequence[int]) -> int:
    """No order of ``waiting`` ends earlier: a port that a job needs, whoever sends, has all such jobs to serve."""
    ends = dict(free)
    senders = {ports[0] for number in waiting for ports in jobs[number].ports.values()}
    for number in waiting:
        every = [set(ports) for ports in jobs[number].ports.values()]
        for port in set.intersection(*every):
            ends[port] = ends.get(port, 0) + jobs[number].size
    work = sum(jobs[number].size for number in waiting) + sum(free.get(port, 0) for port in senders)
    return max(*ends.values(), -(-work // len(senders)), 0) if waiting else max(free.values(), default=0)
