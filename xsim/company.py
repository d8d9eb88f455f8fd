"""What computing loses to the syncs that it runs beside.

A sync of gradients or weights occupies processors of its ranks from when they have come to it, waiting for the others
included: its kernels spin there. Who computes beside it has the other processors, as beside a collective of the group's
own (``xsim.plan.beside``). When that is, only an iteration shows: one is simulated without, and again with the
computations slowed that ran beside a sync then. A sync begins that much later as what lies before it is slowed, and
lasts as long as it did.
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
    """Stretches of time in order, without overlaps, in which a program takes part in syncs.

    Attributes:
        lost_ps: What its computations have lost in each so far: so much later they come to what is left of it.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    lost_ps: list[float]

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
        return cls(starts, ends, [0.0] * len(starts))

    def meet(self, start: int, end: int) -> bool:
        """Whether any of them has begun before ``end`` and is not over at ``start``."""
        return bisect_right(self.ends, start) < bisect_left(self.starts, end)

    def lasting_ps(self, start: int, works_ps: Sequence[int], share: float) -> tuple[int, ...]:
        """What works take that began at ``start`` side by side, at a rate of 1 - ``share`` beside syncs.

        Of one after the other, in order of their starts; who begins next waits for the longest.

        >>> spans = _Spans.of([(20, 50)])
        >>> spans.lasting_ps(0, [10, 40], 0.5), spans.lasting_ps(40, [10], 0.5)
        ((10, 55), (10,))
        """
        first, after = bisect_right(self.ends, start), bisect_left(self.starts, start + max(works_ps))
        lost = [[self._losing_ps(number, start, own, share) for number in range(first, after)] for own in works_ps]
        for number, losses in enumerate(zip(*lost, strict=True), start=first):
            self.lost_ps[number] += max(losses)
        return tuple(own + round(sum(losses)) for own, losses in zip(works_ps, lost, strict=True))

    def _losing_ps(self, number: int, start: int, own_ps: int, share: float) -> float:
        """What work of ``own_ps`` loses in a stretch."""
        begin, end = self.starts[number], self.ends[number]
        there = max(begin, start)
        beside_ps = max(0, min(end, start + own_ps) - there)
        left_ps = max(0.0, end - there - self.lost_ps[number])
        return min(beside_ps * share / (1 - share), left_ps * share)


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
        found = replace(work, durations_ps=spans.lasting_ps(start_ps, work.durations_ps, share))
        yield found if isinstance(step, Compute) else replace(step, beside=found)
