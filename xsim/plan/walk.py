"""Plays the schedules of all stages together: finds what is missing, and what can never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from xsim.errors import PlanError
from xsim.plan.workload import Action

__all__ = ["Need", "played", "walk"]

Need = tuple[int, Action]


def walk(orders: Sequence[Sequence[Action]], micro_batches: int, chunks: int = 1) -> tuple[int, ...]:
    """Play the orders of a pipeline's stages, first to last, until all have ended.

    A forward needs the forward of the same micro-batch on the stage before; the first stage, that of the last stage
    one chunk lower. A backward needs its own forward and the backward on the stage after; the last stage, that of the
    first stage one chunk higher. Of a backward in halves the first (``I``) counts there; the second (``W``) needs the
    first.

    Returns:
        Per stage, the most forwards that wait for their backward, both halves of it, at once.

    Raises:
        PlanError: An action is missing, foreign or doubled, or the stages wait for each other for ever.
    """
    for stage, order in enumerate(orders):
        _check_complete(stage, order, micro_batches, chunks)
    done = {(stage, action) for stage, action, _ in played(orders, chunks)}
    stuck = [(stage, action) for stage, order in enumerate(orders) for action in order if (stage, action) not in done]
    if stuck:
        first = dict(reversed(stuck))
        raise PlanError(f"deadlock: {'; '.join(_complaint(*at, orders, chunks, done) for at in sorted(first.items()))}")
    return tuple(_in_flight(order) for order in orders)


def played(orders: Sequence[Sequence[Action]], chunks: int = 1) -> Iterator[tuple[int, Action, tuple[Need, ...]]]:
    """(stage, action, what it needed) of all that can run, each after the stage's action before it and its needs."""
    having = [frozenset(order) for order in orders]
    done: set[Need] = set()
    position = [0] * len(orders)
    before = -1
    while before < len(done):
        before = len(done)
        for stage, order in enumerate(orders):
            for action in order[position[stage] :]:
                needs = tuple(_needs(stage, action, having, chunks))
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


def _check_complete(stage: int, order: Sequence[Action], micro_batches: int, chunks: int) -> None:
    """Each micro-batch and chunk has a forward, and a backward whole or in halves."""
    halved = {(action.micro_batch, action.chunk) for action in order if action.kind in ("I", "W")}
    expected = [
        Action(kind, m, chunk)
        for kind in "FBIW"
        for chunk in range(chunks)
        for m in range(micro_batches)
        if kind == "F" or ((m, chunk) in halved) == (kind != "B")
    ]
    found = Counter(order)
    for action in expected:
        if found[action] != 1:
            raise PlanError(f"stage {stage}: {action} occurs {found[action]} times; each action occurs once")
    for action in sorted(found.keys() - set(expected)):
        if action.kind == "B" and (action.micro_batch, action.chunk) in halved:
            raise PlanError(f"stage {stage}: {action} occurs whole and in halves")
        raise PlanError(f"stage {stage}: {action} is not one of {micro_batches} micro-batches and {chunks} chunks")


def _needs(stage: int, action: Action, having: Sequence[Set[Action]], chunks: int) -> Iterator[Need]:
    """(stage, action) that must end before ``action`` starts on ``stage``; ``having`` are the actions of each stage."""
    last, m, chunk = len(having) - 1, action.micro_batch, action.chunk
    if action.kind == "W":
        yield stage, replace(action, kind="I")
    elif action.kind == "F":
        if stage > 0:
            yield stage - 1, action
        elif chunk > 0:
            yield last, Action("F", m, chunk - 1)
    else:
        yield stage, replace(action, kind="F")
        if stage < last or chunk < chunks - 1:
            other, above = (stage + 1, chunk) if stage < last else (0, chunk + 1)
            half = Action("I", m, above)
            yield other, half if half in having[other] else Action("B", m, above)


def _complaint(stage: int, action: Action, orders: Sequence[Sequence[Action]], chunks: int, done: Set[Need]) -> str:
    having = [frozenset(order) for order in orders]
    other, need = next(need for need in _needs(stage, action, having, chunks) if need not in done)
    return f"stage {stage} waits at {action} for {need} of stage {other}"
