"""Plays the schedules of all stages together: finds what is missing, and what can never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from xsim.errors import PlanError
from xsim.plan.route import by_direction, directions, routes
from xsim.plan.workload import Action

__all__ = ["Need", "played", "walk"]

Need = tuple[int, Action]


def walk(orders: Sequence[Sequence[Action]], micro_batches: int, chunks: int = 1) -> tuple[int, ...]:
    """Play the orders of a pipeline's stages, first to last, until all have ended.

    A forward needs the forward of the same micro-batch on the stage before; the first stage, that of the last stage
    one chunk lower. A backward needs its own forward and the backward on the stage after; the last stage, that of the
    first stage one chunk higher. Of a backward in halves the first (``I``) counts there; the second (``W``) needs the
    first. In a bidirectional schedule half of the micro-batches pass the mirrored chunks, from the last stage to the
    first (``xsim.plan.route``).

    Args:
        chunks: Of each stage, without mirrored ones.

    Returns:
        Per stage, the most forwards that wait for their backward, both halves of it, at once.

    Raises:
        PlanError: An action is missing, foreign or doubled, the stages wait for each other for ever, or there are two
            directions and an odd number of stages.
    """
    ways = _ways(orders, chunks)
    for stage, order in enumerate(orders):
        _check_complete(stage, order, micro_batches, chunks, ways)
    done = {(stage, action) for stage, action, _ in played(orders, chunks)}
    stuck = [(stage, action) for stage, order in enumerate(orders) for action in order if (stage, action) not in done]
    if stuck:
        first = dict(reversed(stuck))
        raise PlanError(f"deadlock: {'; '.join(_complaint(*at, orders, chunks, done) for at in sorted(first.items()))}")
    return tuple(_in_flight(order) for order in orders)


def played(orders: Sequence[Sequence[Action]], chunks: int = 1) -> Iterator[tuple[int, Action, tuple[Need, ...]]]:
    """(stage, action, what it needed) of all that can run, each after the stage's action before it and its needs."""
    needed = _Needed.of(orders, chunks)
    done: set[Need] = set()
    position = [0] * len(orders)
    before = -1
    while before < len(done):
        before = len(done)
        for stage, order in enumerate(orders):
            for at in range(position[stage], len(order)):
                action = order[at]
                needs = tuple(needed.by(stage, action))
                if not done.issuperset(needs):
                    break
                done.add((stage, action))
                position[stage] += 1
                yield stage, action, needs


def _in_flight(actions: Iterable[Action]) -> int:
    now = most = 0
    for action in actions:
        now += (action.kind == "F") - action.completes
        most = max(most, now)
    return most


def _ways(orders: Iterable[Iterable[Action]], chunks: int) -> int:
    return max(directions(order, chunks) for order in orders)


def _check_complete(stage: int, order: Sequence[Action], micro_batches: int, chunks: int, ways: int) -> None:
    """Each micro-batch and chunk of its direction has a forward, and a backward whole or in halves."""
    passing = by_direction(micro_batches, ways)
    halved = {(action.micro_batch, action.chunk) for action in order if action.kind in ("I", "W")}
    expected = [
        Action(kind, m, chunk)
        for kind in "FBIW"
        for chunk in range(chunks * ways)
        for m in passing[chunk // chunks]
        if kind == "F" or ((m, chunk) in halved) == (kind != "B")
    ]
    found = Counter(order)
    for action in expected:
        if found[action] != 1:
            raise PlanError(f"stage {stage}: {action} occurs {found[action]} times; each action occurs once")
    for action in sorted(found.keys() - set(expected)):
        if action.kind == "B" and (action.micro_batch, action.chunk) in halved:
            raise PlanError(f"stage {stage}: {action} occurs whole and in halves")
        both = ", half of them in each direction" if ways > 1 else ""
        shape = f"{micro_batches} micro-batches and {chunks * ways} chunks{both}"
        raise PlanError(f"stage {stage}: {action} is not one of {shape}")


@dataclass(frozen=True, slots=True)
class _Needed:
    """What must have ended before an action starts.

    Attributes:
        having: The actions of each stage.
        before, after: Of each (stage, chunk) the one that its micro-batches come from in a forward, and go to.
    """

    having: Sequence[Set[Action]]
    before: Mapping[tuple[int, int], tuple[int, int]]
    after: Mapping[tuple[int, int], tuple[int, int]]

    @classmethod
    def of(cls, orders: Sequence[Sequence[Action]], chunks: int) -> _Needed:
        ways = routes(len(orders), chunks, _ways(orders, chunks))
        hops = [hop for route in ways for hop in pairwise(route)]
        return cls([frozenset(order) for order in orders], {b: a for a, b in hops}, dict(hops))

    def by(self, stage: int, action: Action) -> Iterator[Need]:
        """(stage, action) that must end before ``action`` starts on ``stage``."""
        here, m = (stage, action.chunk), action.micro_batch
        if action.kind == "W":
            yield stage, replace(action, kind="I")
        elif action.kind == "F":
            if here in self.before:
                other, chunk = self.before[here]
                yield other, Action("F", m, chunk)
        else:
            yield stage, replace(action, kind="F")
            if here in self.after:
                other, chunk = self.after[here]
                half = Action("I", m, chunk)
                yield other, half if half in self.having[other] else Action("B", m, chunk)


def _complaint(stage: int, action: Action, orders: Sequence[Sequence[Action]], chunks: int, done: Set[Need]) -> str:
    needed = _Needed.of(orders, chunks)
    other, need = next(need for need in needed.by(stage, action) if need not in done)
    return f"stage {stage} waits at {action} for {need} of stage {other}"
