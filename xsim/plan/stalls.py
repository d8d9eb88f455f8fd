"""What holds ranks up before an action: stalls of their own, and samples of the iteration that are not there yet.

Ranks stand still when garbage is collected, or a disk or a process of the host is slow. A stall falls into an action
and delays its beginning: the rank has not begun, and its group begins with its slowest, as it always does. It is work
of the rank's own, of the kind ``stall``: nobody else is waited for. So is the time in which its samples are loaded, of
the kind ``data_loading``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate

from xsim.plan.draw import Stall
from xsim.plan.workload import UPDATE, Action, Body, Collect, Compute, Program, Workload

__all__ = ["STANDING", "loading", "stalled"]

LOADING, STALL = "data_loading", "stall"
STANDING = frozenset(("launch", LOADING, STALL))  # in which a rank stands still


def stalled(workload: Workload, stalls: Callable[[int], Iterator[Stall]]) -> Workload:
    """``workload`` with the stalls of each rank in the actions into which they fall.

    Args:
        stalls: Of a rank, in order of their instants, which count the time that it computes itself. What comes after
            its last action does not happen.
    """
    programs = tuple(_stalled(program, stalls) for program in workload.programs)
    return replace(workload, programs=programs)


def loading(workload: Workload, for_ps: int) -> Workload:
    """``workload``, whose samples come so long after its beginning: who begins without waiting for others waits."""
    if not for_ps:
        return workload
    fed = {(move.target, move.kind, move.target_chunk) for move in workload.moves}
    programs = list(workload.programs)
    for index, program in enumerate(programs):
        first = program.actions[0]
        if (index, first.carries, first.chunk) not in fed:
            times_ps = (for_ps,) * len(program.devices.ranks)
            own = {**program.own, first: _delayed(program.body(first), LOADING, times_ps)}
            programs[index] = replace(program, own=own)
    return replace(workload, programs=tuple(programs))


def _stalled(program: Program, stalls: Callable[[int], Iterator[Stall]]) -> Program:
    ranks = program.devices.ranks
    actions = (*program.actions, UPDATE)
    found: dict[Action, list[int]] = {}
    for position, rank in enumerate(ranks):
        for action, for_ps in _hit(program, actions, position, stalls(rank)):
            found.setdefault(action, [0] * len(ranks))[position] += for_ps
    if not found:
        return program
    own = {action: _delayed(program.body(action), STALL, tuple(times)) for action, times in found.items()}
    return replace(program, own={**program.own, **own})


def _hit(
    program: Program, actions: tuple[Action, ...], position: int, stalls: Iterator[Stall]
) -> Iterator[tuple[Action, int]]:
    """Actions into which stalls of the rank at ``position`` fall, and how long these are."""
    stall = next(stalls, None)
    if stall is None:
        return
    computes_ps = {body: _computes_ps(body, position) for body in program.each_body()}
    ends_ps = accumulate(computes_ps[program.body(action)] for action in actions)
    for action, end_ps in zip(actions, ends_ps, strict=True):
        while stall is not None and stall.at_ps < end_ps:
            yield action, stall.for_ps
            stall = next(stalls, None)
        if stall is None:
            return


def _computes_ps(body: Body, position: int) -> int:
    """How long the rank at ``position`` computes in ``body``."""
    steps = (step.beside if isinstance(step, Collect) else step for step in body.steps)
    return sum(step.durations_ps[position] for step in steps if isinstance(step, Compute))


def _delayed(body: Body, kind: str, times_ps: tuple[int, ...]) -> Body:
    """``body`` after what holds up each of its ranks for so long."""
    return Body((Compute(kind, times_ps), *body.steps))
