"""What computing loses to the syncs that it runs beside.

A sync of gradients or weights occupies processors of its ranks from when they have come to it, waiting for the others
included: its kernels spin there. Who computes beside it has the other processors, as beside a collective of the group's
own (``xsim.plan.beside``). When that is, only an iteration shows: one is simulated without, and again with the
computations slowed that ran beside a sync then. Being slower they may meet a little more or less of it, by the second
order of the share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.plan.stalls import STANDING
from xsim.plan.workload import Action, Body, Collect, Compute, Program, Step, Workload
from xsim.sim.timeline import Timeline
from xsim.waits import action_steps

__all__ = ["beside_syncs"]


def beside_syncs(workload: Workload, timeline: Timeline, share: float) -> Workload:
    """``workload`` with computations slowed that ran beside syncs of their program.

    Args:
        timeline: Of ``workload``.
        share: Part of a device's processors that a sync has, from 0 to below 1.
    """
    spans = _spans(workload, timeline)
    known: dict[tuple[Body, tuple[Step, ...]], Body] = {}
    slower: list[dict[Action, Body]] = [{} for _ in workload.programs]
    rows = zip(timeline.program.tolist(), timeline.start_ps.tolist(), timeline.end_ps.tolist(), strict=True)
    for row, (index, start_ps, end_ps) in enumerate(rows):
        if not spans[index].meet(start_ps, end_ps):
            continue
        action = timeline.action(row)
        body = workload.programs[index].body(action)
        steps = tuple(_slower(body, action_steps(workload, timeline, row), spans[index], share))
        if steps != body.steps:
            slower[index][action] = known.setdefault((body, steps), Body(steps))
    programs = [_with(program, own) for program, own in zip(workload.programs, slower, strict=True)]
    return replace(workload, programs=tuple(programs))


def _with(program: Program, own: dict[Action, Body]) -> Program:
    return replace(program, own={**program.own, **own}) if own else program


@dataclass(frozen=True, slots=True)
class _Spans:
    """Stretches of time in order, without overlaps."""

    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, found: Iterable[tuple[int, int]]) -> _Spans:
        """The union of ``found``."""
        starts, ends = list[int](), list[int]()
        for start, end in sorted(found):
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return cls(starts, ends)

    def meet(self, start: int, end: int) -> bool:
        """Whether any of them has begun before ``end`` and is not over at ``start``."""
        return bisect_right(self.ends, start) < bisect_left(self.starts, end)

    def lasting_ps(self, start: int, own_ps: int, share: float) -> int:
        """What work of ``own_ps`` takes that begins at ``start`` and goes on at a rate of 1 - ``share`` within them.

        >>> _Spans([20, 50], [30, 90]).lasting_ps(0, 40, 0.5)
        45
        >>> _Spans([20, 50], [30, 90]).lasting_ps(0, 50, 0.5)
        60
        """
        at, left = start, float(own_ps)
        for number in range(bisect_right(self.ends, start), len(self.ends)):
            begin, end = max(self.starts[number], at), self.ends[number]
            if left <= begin - at:
                break
            left -= begin - at
            at = begin
            done = min(left, (end - begin) * (1 - share))
            left -= done
            at = end if left else begin + round(done / (1 - share))
        return at - start + round(left)


def _spans(workload: Workload, timeline: Timeline) -> list[_Spans]:
    """When each program takes part in syncs."""
    found: list[list[tuple[int, int]]] = [[] for _ in workload.programs]
    for sync, joined, done in zip(workload.syncs, timeline.joined_ps, timeline.done_ps, strict=True):
        for program, start, end in zip(sync.programs, joined.tolist(), done.tolist(), strict=True):
            found[program].append((start, end))
    return list(map(_Spans.of, found))


def _slower(
    body: Body, ran: Iterator[tuple[Compute | Collect, int, int, int]], spans: _Spans, share: float
) -> Iterator[Step]:
    """The steps of ``body``, which ``ran`` at these times."""
    for step in body.steps:
        if not isinstance(step, Compute | Collect):
            yield step
            continue
        _, start_ps, _, _ = next(ran)
        work = step if isinstance(step, Compute) else step.beside
        if work is None or work.kind in STANDING:
            yield step
            continue
        lasting = (spans.lasting_ps(start_ps, own_ps, share) for own_ps in work.durations_ps)
        found = replace(work, durations_ps=tuple(lasting))
        yield found if isinstance(step, Compute) else replace(step, beside=found)
