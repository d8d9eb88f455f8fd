"""Plays the schedules of all stages together: finds what is missing, and what can never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from xsim.errors import PlanError
from xsim.plan.workload import Action

__all__ = ["walk"]


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
    done: set[tuple[int, Action]] = set()
    position = [0] * len(orders)
    before = -1
    while before < len(done):
        before = len(done)
        for stage, order in enumerate(orders):
            for action in order[position[stage] :]:
                if any(need not in done for need in _needs(stage, action, len(orders), chunks)):
                    break
                done.add((stage, _as_needed(action)))
                position[stage] += 1
    stuck = [(stage, order[position[stage]]) for stage, order in enumerate(orders) if position[stage] < len(order)]
    if stuck:
        raise PlanError(f"deadlock: {'; '.join(_complaint(*at, orders, chunks, done) for at in stuck)}")
    return tuple(_in_flight(order) for order in orders)


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


def _as_needed(action: Action) -> Action:
    """What others know it by: the gradients of the input are what they need of a backward."""
    return replace(action, kind="B") if action.kind == "I" else action


def _needs(stage: int, action: Action, stages: int, chunks: int) -> Iterator[tuple[int, Action]]:
    """(stage, action) that must end before ``action`` starts on ``stage``."""
    if action.kind == "W":
        yield stage, replace(action, kind="B")
    elif action.kind == "F":
        if stage > 0:
            yield stage - 1, action
        elif action.chunk > 0:
            yield stages - 1, replace(action, chunk=action.chunk - 1)
    else:
        backward = _as_needed(action)
        yield stage, replace(action, kind="F")
        if stage < stages - 1:
            yield stage + 1, backward
        elif action.chunk < chunks - 1:
            yield 0, replace(backward, chunk=action.chunk + 1)


def _complaint(
    stage: int, action: Action, orders: Sequence[Sequence[Action]], chunks: int, done: set[tuple[int, Action]]
) -> str:
    other, need = next(need for need in _needs(stage, action, len(orders), chunks) if need not in done)
    missing = next(each for each in orders[other] if _as_needed(each) == need)
    return f"stage {stage} waits at {action} for {missing} of stage {other}"
