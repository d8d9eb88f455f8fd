"""The critical path of an iteration: what follows on what, without a gap, from its start to its end.

It is found backwards. The last program to end did so when the last of its steps was over; that step began when the one
before had ended, and the first of an action when what the action waited for had come: activations or gradients of
another stage, whose sender's action is the next to look at. A sync ends for a member after the last of its members has
come to it, and goes back to what that one did then. At each instant exactly one thing is on the path: its pieces sum to
the iteration. If something on it were shorter, and nothing else changed, so would be the iteration, until another path
is as long.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from xsim.account import SYNCS
from xsim.fabric.transfers import TransferGraph
from xsim.plan.workload import Action, Collect, Compute, Fetch, Workload
from xsim.sim.timeline import Timeline
from xsim.waits import Ints

__all__ = ["Piece", "critical_path"]

Kind = Literal["compute", "collective", "hand_over", "sync"]

_CARRIES = {"F": "F", "B": "B", "I": "B"}


@dataclass(frozen=True, slots=True)
class Piece:
    """What determined when the iteration ended, from ``start_ps`` to ``end_ps``.

    Attributes:
        kind: ``compute`` on a device; ``collective`` of a device group; ``hand_over`` between stages; ``sync`` of
            gradients or parameters.
        operator: As in ``xsim.account.OPERATORS``: ``mlp``, ``mlp_comm``, ``reshard_comm``, ``grad_sync`` and so on.
        program: Whose action it is in; of a hand-over who sends, of a sync who came last.
        action: Which action that is.
        ranks: The slowest of the group, all in a collective, those of the sender and of the receiver, all members.
        graphs: What is transferred: it may have taken longer than alone on its links. Several that were sent together,
            where a program waits until all that it sends has arrived.
    """

    kind: Kind
    operator: str
    program: int
    action: Action
    ranks: tuple[int, ...]
    start_ps: int
    end_ps: int
    graphs: tuple[TransferGraph, ...] = ()

    @property
    def duration_ps(self) -> int:
        """How long."""
        return self.end_ps - self.start_ps


def critical_path(workload: Workload, timeline: Timeline) -> tuple[Piece, ...]:
    """The pieces in order of time; none is empty, each begins when the one before ends, and all of them sum to the
    makespan.

    Of several things that ended at one instant, the program's own action, else the first, is taken.
    """
    found = list(_Backwards(workload, timeline).pieces())
    found.reverse()
    return tuple(found)


class _Inside(NamedTuple):
    """A program in one of its actions, the steps up to ``at_ps`` still to be looked at."""

    row: int
    at_ps: int


class _Synced(NamedTuple):
    """A program that has just got the result of a sync."""

    sync: int
    program: int


_Place = _Inside | _Synced | None
_Pieces = Generator[Piece, None, _Place]


class _Step(NamedTuple):
    """A step of an action; a fetch has no operator."""

    step: Compute | Collect | None
    fetch: int
    start_ps: int
    talked_ps: int
    end_ps: int


class _Backwards:
    """One walk from the end to the start."""

    def __init__(self, workload: Workload, timeline: Timeline) -> None:
        self.workload, self.timeline = workload, timeline
        programs = np.arange(len(workload.programs))
        self.first: list[int] = np.searchsorted(timeline.program, programs).tolist()
        self.last: list[int] = (np.searchsorted(timeline.program, programs, side="right") - 1).tolist()
        self.turns: list[tuple[int, ...]] = [program.turns() for program in workload.programs]
        self.rows: dict[tuple[int, str, int, int], int] = {}
        columns = (timeline.program, timeline.kind, timeline.chunk, timeline.micro_batch)
        for row, (program, kind, *what) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if kind in _CARRIES:
                self.rows[program, _CARRIES[kind], what[0], what[1]] = row

        self.over: dict[tuple[int, int], list[int]] = {}  # exchanges, by a program that took part and their end
        for number, each in enumerate(timeline.exchanges):
            move = workload.moves[each.move]
            for index in (move.source, move.target):
                self.over.setdefault((index, each.end_ps), []).append(number)

    def pieces(self) -> Iterator[Piece]:
        """The last first."""
        place: _Place = self._ended(int(np.argmax(self.timeline.ended_ps)))
        while place is not None:
            steps = self._sync(*place) if isinstance(place, _Synced) else self._action(*place)
            place = yield from steps

    def _ended(self, program: int) -> _Place:
        """What ended last in ``program``: its update, or a gather of parameters after it."""
        row = self.last[program]
        end_ps = int(self.timeline.end_ps[row])
        ended_ps = int(self.timeline.ended_ps[program])
        return _Inside(row, end_ps) if ended_ps == end_ps else self._got(program, ended_ps, ("gather",))

    def _got(self, program: int, at_ps: int, does: tuple[str, ...], before: int | None = None) -> _Synced:
        """The sync whose result ``program`` got at ``at_ps``."""
        for number, sync in enumerate(self.workload.syncs[:before]):
            if sync.does not in does or program not in sync.programs:
                continue
            if int(self.timeline.done_ps[number][sync.programs.index(program)]) == at_ps:
                return _Synced(number, program)
        raise AssertionError(f"no sync of program {program} ends at {at_ps} ps")

    def _at(self, program: int, at_ps: int) -> _Inside:
        """The action in which ``program`` was at ``at_ps``, or which it began then."""
        first, last = self.first[program], self.last[program]
        starts: Ints = self.timeline.start_ps[first : last + 1]
        row = first + int(np.searchsorted(starts, at_ps)) - 1
        return _Inside(row if row >= first and int(self.timeline.end_ps[row]) >= at_ps else row + 1, at_ps)

    def _sync(self, number: int, program: int) -> _Pieces:
        """From its last member's coming to its result; then what that member did before it came."""
        sync, joined = self.workload.syncs[number], self.timeline.joined_ps[number]
        done_ps = int(self.timeline.done_ps[number][sync.programs.index(program)])
        member = max(range(len(joined)), key=lambda each: (joined[each] <= done_ps, joined[each], -each))
        start_ps, came = int(joined[member]), sync.programs[member]
        released_ps = int(self.timeline.released_ps[number][member])
        before = self._at(came, released_ps)
        if done_ps > start_ps:
            ranks = tuple(rank for each in sync.programs for rank in self.workload.programs[each].devices.ranks)
            action, span = self.timeline.action(before.row), (start_ps, done_ps)
            yield Piece("sync", SYNCS[sync.does], came, action, tuple(sorted(ranks)), *span, (sync.graph,))
        if released_ps == start_ps:
            return None if sync.does == "ahead" else before
        return self._got(came, start_ps, ("sum", "scatter", "gather", "ahead"), before=number)

    def _action(self, row: int, at_ps: int) -> _Pieces:
        """The steps of an action before ``at_ps``; then what it waited for."""
        index = int(self.timeline.program[row])
        ranks, action = self.workload.programs[index].devices.ranks, self.timeline.action(row)
        for step, fetch, start_ps, talked_ps, end_ps in reversed(list(self._steps(row))):
            if start_ps >= min(end_ps, at_ps):
                continue
            if step is None:
                return _Synced(fetch, index)
            work = step.beside if isinstance(step, Collect) and talked_ps < end_ps else step
            span = start_ps, min(end_ps, at_ps)
            if isinstance(work, Collect):
                yield Piece("collective", f"{work.kind}_comm", index, action, ranks, *span, (work.graph,))
            elif work is not None:
                slowest = ranks[max(range(len(ranks)), key=work.durations_ps.__getitem__)]
                yield Piece("compute", work.kind, index, action, (slowest,), *span)
        return (yield from self._start(row))

    def _start(self, row: int) -> _Pieces:
        """What an action waited for before its start, and who let it."""
        timeline = self.timeline
        at_ps, index = int(timeline.start_ps[row]), int(timeline.program[row])
        if at_ps == 0:
            return None
        if timeline.kind[row] == "U" and int(timeline.reached_ps[index]) < at_ps:
            return self._got(index, at_ps, ("sum", "scatter"))
        if timeline.exchanges:
            return (yield from self._met(index, at_ps, row - 1))
        before = row - 1
        awaited = int(timeline.awaited[row])
        if awaited >= 0:
            move = self.workload.moves[awaited]
            sent = self.rows[move.source, move.kind, move.source_chunk, int(timeline.micro_batch[row])]
            yield from self._handed_over(sent, (awaited,), at_ps)
            return _Inside(sent, int(timeline.end_ps[sent]))
        if int(timeline.end_ps[before]) < at_ps:  # it may go on when what it has sent has arrived
            action = self.timeline.action(before)
            own = (index, action.carries, action.chunk)
            moves = enumerate(self.workload.moves)
            sends = tuple(n for n, each in moves if (each.source, each.kind, each.source_chunk) == own)
            yield from self._handed_over(before, sends, at_ps)
        return _Inside(before, int(timeline.end_ps[before]))

    def _met(self, program: int, at_ps: int, row: int) -> _Pieces:
        """The exchanges, one after the other, for which ``program`` went on only at ``at_ps``; then what the last of
        all to come did before. ``row``: the last action that it has behind it."""
        later = len(self.timeline.exchanges)
        while ended := [number for number in self.over.get((program, at_ps), ()) if number < later]:
            later = ended[-1]
            move, micro_batch, last, start_ps, end_ps = self.timeline.exchanges[later]
            one = self.workload.moves[move]
            sent = self.rows[one.source, one.kind, one.source_chunk, micro_batch]
            if end_ps > start_ps:
                yield self._hand_over(sent, (move,), start_ps, end_ps)
            program, at_ps = last, start_ps
            row = self.first[program] + int(np.searchsorted(self._ends(program), at_ps, side="right")) - 1
        return _Inside(row, int(self.timeline.end_ps[row])) if row >= self.first[program] else None

    def _ends(self, program: int) -> Ints:
        return self.timeline.end_ps[self.first[program] : self.last[program] + 1]

    def _handed_over(self, row: int, numbers: tuple[int, ...], at_ps: int) -> Iterator[Piece]:
        """What action ``row`` sent at its end, until ``at_ps``."""
        start_ps = int(self.timeline.end_ps[row])
        if start_ps < at_ps:
            yield self._hand_over(row, numbers, start_ps, at_ps)

    def _hand_over(self, row: int, numbers: tuple[int, ...], start_ps: int, end_ps: int) -> Piece:
        moves = [self.workload.moves[number] for number in numbers]
        ends = dict.fromkeys(index for move in moves for index in (move.source, move.target))
        ranks = tuple(rank for index in ends for rank in self.workload.programs[index].devices.ranks)
        index = int(self.timeline.program[row])
        graphs = tuple(move.graph for move in moves)
        return Piece("hand_over", "reshard_comm", index, self.timeline.action(row), ranks, start_ps, end_ps, graphs)

    def _steps(self, row: int) -> Iterator[_Step]:
        """What an action did, in order, without gaps."""
        timeline = self.timeline
        index, walk = int(timeline.program[row]), int(timeline.walk[row])
        body = self.workload.programs[index].body(timeline.action(row))
        at_ps = int(timeline.start_ps[row])
        stops = iter(timeline.folded.get(body, ()) if walk < 0 else np.diff(timeline.collects[walk])[:, 0].tolist())
        for step in body.steps:
            if isinstance(step, Compute):
                end_ps = at_ps + max(step.durations_ps)
                yield _Step(step, -1, at_ps, at_ps, end_ps)
            elif isinstance(step, Collect):
                talked_ps = at_ps + next(stops)
                end_ps = max(talked_ps, at_ps + step.beside_ps)
                yield _Step(step, -1, at_ps, talked_ps, end_ps)
            elif isinstance(step, Fetch):
                turn = self.turns[index][row - self.first[index]]
                end_ps = at_ps + next(stops)
                yield _Step(None, step.sync + step.every * turn, at_ps, end_ps, end_ps)
            else:
                continue
            at_ps = end_ps
