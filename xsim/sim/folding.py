"""Until when a device group is sure to have its links to itself.

A group's tensor-parallel collectives use the links of the group. While no other traffic can meet them there, they take
what they take alone, and the executor folds them into one timeout. Others that may use a link of the group:

- collectives of another group: nothing is folded;
- pipeline transfers: from their submission, at the end of an action of their source, plus what must reach the group
  before they use one of its links (alone on the wires: they are not faster in company), to their end;
- background traffic, at any time: nothing is folded;
- gradient syncs, and gathers and fetches of parameters: from the moment their first member has come to them, to
  their end; gathers ahead from the beginning of the iteration.

A source or member cannot be there before it has done what lies before that point in its program. What that takes at
least, under any contention, is the time of the computations and of those collectives whose own rows share no link. A
fetch of weights counts as no time: what it takes its last member depends on who came before. Nor can a source be there
during an action of the group if it first awaits what the group sends at the end of that action, or later. With
``rendezvous`` a transfer of the group itself is never there during its actions, and others come no earlier for that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapreplace
from itertools import accumulate

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.workload import UPDATE, Action, Body, Collect, Move, Program, Sync, Workload
from xsim.sim.course import Course

__all__ = ["Folding"]

_NEVER_PS = 1 << 62


class Folding:
    """Follows the programs and bounds when traffic can come up that meets a given group.

    All bounds are kept relative to an *origin* per program: the instant at which it would have started had it taken the
    least time, ever since, up to where it stands.

    Args:
        contends: Whether transfers that share a link slow each other.
        background: Transfers that may come up at any time.
    """

    def __init__(
        self,
        workload: Workload,
        courses: Mapping[Body, Course],
        fabric: Fabric,
        *,
        contends: bool,
        background: Iterable[TransferGraph] = (),
    ) -> None:
        self._before_ps = [_before_ps(program, courses) for program in workload.programs]
        self._origin_ps = [0] * len(workload.programs)
        self._number = [0] * len(workload.programs)
        self._syncs = workload.syncs
        self._ready_ps = [
            _ready_ps(program, courses, before, prefetch=workload.prefetch)
            for program, before in zip(workload.programs, self._before_ps, strict=True)
        ]
        for number, sync in enumerate(workload.syncs):
            for index in sync.programs if sync.does == "gather" else ():
                update = courses[workload.programs[index].body(UPDATE)]
                self._ready_ps[index][number] = self._before_ps[index][-1] + update.least_total_ps
            for index in sync.programs if sync.does == "ahead" else ():
                self._ready_ps[index][number] = -_NEVER_PS
        self._joined_ps: list[list[int | None]] = [[None] * len(sync.programs) for sync in workload.syncs]
        # Of each sync a heap of (earliest instant, when last asked, member): that only grows.
        self._comes_ps = [[(-_NEVER_PS, member) for member in range(len(sync.programs))] for sync in workload.syncs]
        self._open = [len(sync.programs) for sync in workload.syncs]
        self._coming: dict[Sync, deque[int]] = defaultdict(deque)
        for number, sync in enumerate(workload.syncs):
            self._coming[sync].append(number)
        meetings = _Meetings(workload, fabric, background, contends=contends)
        self._crowded = meetings.crowded
        self._rival_syncs = meetings.syncs
        self._next_end_ps = _next_ends_ps(workload, self._before_ps)
        self._met_by = meetings.met_by
        awaited = _Awaited(workload)
        self._rival_moves = {
            index: tuple(
                (move.source, self._next_end_ps[_emission(move)], awaited.before(move, index), lead_ps)
                for move, lead_ps in moves
                if move.source != index and not (workload.rendezvous and move.target == index)  # both sides stand still
            )
            for index, moves in meetings.moves.items()
        }
        self._touching_ps: list[dict[int, int]] = [{} for _ in workload.programs]

    def may_be_alone(self, program: int) -> bool:
        """Whether ``program`` ever has its links to itself."""
        return program not in self._crowded

    def quiet_until_ps(self, program: int, now_ps: int) -> int:
        """Before this instant, or the end of the action at which it stands if that comes first, nobody uses a link of
        ``program`` but itself; ``now_ps`` if that is not sure at all."""
        if program in self._crowded:
            return now_ps
        origin_ps, number = self._origin_ps, self._number
        quiet_ps = min(self._touching_ps[program].values(), default=_NEVER_PS)
        for source, next_end_ps, awaited, lead_ps in self._rival_moves.get(program, ()):
            if awaited[number[source]] >= number[program]:  # it waits for the end of this very action, or a later one
                continue
            comes_ps = origin_ps[source] + next_end_ps[number[source]] + lead_ps
            quiet_ps = min(quiet_ps, comes_ps)
        for sync in self._rival_syncs.get(program, ()):
            if coming := self._coming[sync]:  # nobody comes to the others before he has come to this one
                first = coming[0]
                if self._comes_ps[first][0][0] < quiet_ps:  # what was known holds: nobody ever comes earlier
                    quiet_ps = min(quiet_ps, self._earliest_ps(first))
        return max(quiet_ps, now_ps)

    def stands(self, program: int, number: int, least_ps: int, at_ps: int) -> None:
        """At ``at_ps`` action ``number`` of ``program`` has ``least_ps`` of its least time behind it."""
        self._number[program] = number
        self._origin_ps[program] = at_ps - self._before_ps[program][number] - least_ps

    def submitted(self, move: Move, handle: int, now_ps: int) -> None:
        """``move`` goes onto the wires."""
        for program, lead_ps in self._met_by[move]:
            self._touching_ps[program][handle] = now_ps + lead_ps

    def over(self, move: Move, handle: int) -> None:
        """All of ``move`` has arrived."""
        for program, _ in self._met_by[move]:
            del self._touching_ps[program][handle]

    def joined(self, sync: int, member: int, at_ps: int) -> None:
        """A member takes part in ``sync`` from ``at_ps`` on."""
        self._joined_ps[sync][member] = at_ps

    def left(self, sync: int) -> None:
        """A member has left ``sync``."""
        self._open[sync] -= 1
        coming = self._coming[self._syncs[sync]]
        while coming and not self._open[coming[0]]:
            coming.popleft()

    def _earliest_ps(self, sync: int) -> int:
        """Before this instant ``sync``, which is not over, moves no byte.

        Its members are looked at in the order in which they were to come, up to the first that still may.
        """
        heap, joined, programs = self._comes_ps[sync], self._joined_ps[sync], self._syncs[sync].programs
        while True:
            known_ps, member = heap[0]
            comes_ps = joined[member]
            if comes_ps is None:
                comes_ps = self._origin_ps[programs[member]] + self._ready_ps[programs[member]][sync]
            if comes_ps <= known_ps:
                return known_ps
            heapreplace(heap, (comes_ps, member))


class _Meetings:
    """Who can meet whom on a link.

    Attributes:
        crowded: Programs whose links another program's collectives use, or background traffic.
        met_by: Per move, the programs that it meets, and how long after its submission it does at the earliest.
        moves: The same per program.
        syncs: Per program, the syncs that use a link of its collectives.
    """

    def __init__(
        self, workload: Workload, fabric: Fabric, background: Iterable[TransferGraph], *, contends: bool
    ) -> None:
        users: dict[int, list[int]] = defaultdict(list)
        for index, program in enumerate(workload.programs if contends else ()):
            graphs = {s.graph: None for body in program.each_body() for s in body.steps if isinstance(s, Collect)}
            for link in sorted(frozenset[int]().union(*map(fabric.links_of, graphs))):
                users[link].append(index)
        others = frozenset[int]().union(*map(fabric.links_of, background)) if users else ()
        self.crowded = frozenset(
            index for link, found in users.items() if len(found) > 1 or link in others for index in found
        )
        self.met_by = {move: _leads_ps(move.graph, fabric, users) for move in workload.moves}
        self.moves: dict[int, list[tuple[Move, int]]] = defaultdict(list)
        for move, met in self.met_by.items():
            for index, lead_ps in met:
                self.moves[index].append((move, lead_ps))
        self.syncs: dict[int, list[Sync]] = defaultdict(list)
        for sync in dict.fromkeys(workload.syncs):
            for index in sorted({index for link in fabric.links_of(sync.graph) for index in users.get(link, ())}):
                self.syncs[index].append(sync)


def _leads_ps(graph: TransferGraph, fabric: Fabric, users: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """Each user of a link of ``graph``, and the earliest start of a row that uses one, from the release of all."""
    leads: dict[int, int] = {}
    ends: list[int] = []
    rows = zip(graph.src.tolist(), graph.dst.tolist(), (graph.stop - graph.start).tolist(), strict=True)
    for row, (src, dst, size) in enumerate(rows):
        start_ps = max((ends[before] for before in graph.predecessors(row).tolist()), default=0)
        ring = graph.cycle_len[row] > 0  # its other rounds carry other spans: taken as no time at all
        alone_ps = 0 if ring else int(size / (fabric.path_bandwidth_bytes_per_s(src, dst) * 1e-12))
        ends.append(start_ps + alone_ps)
        if size or ring:
            for link in fabric.route(src, dst):
                for index in users.get(link, ()):
                    leads[index] = min(leads.get(index, start_ps), start_ps)
    return sorted(leads.items())


def _emission(move: Move) -> tuple[int, str, int]:
    return move.source, move.kind, move.source_chunk


def _before_ps(program: Program, courses: Mapping[Body, Course]) -> tuple[int, ...]:
    """The least time before each action, and after the last."""
    bodies: Iterable[Body] = (program.body(action) for action in program.actions)
    return tuple(accumulate((courses[body].least_total_ps for body in bodies), initial=0))


def _next_ends_ps(workload: Workload, before_ps: Sequence[Sequence[int]]) -> dict[tuple[int, str, int], list[int]]:
    """Per (source, kind, chunk) and action number: the least time until the next to send it, from that one on, ends."""
    found: dict[tuple[int, str, int], list[int]] = {}
    for emission in dict.fromkeys(map(_emission, workload.moves)):
        source, kind, chunk = emission
        actions = workload.programs[source].actions
        ends = [_NEVER_PS] * (len(actions) + 1)
        for number in reversed(range(len(actions))):
            own = actions[number].chunk == chunk and actions[number].carries == kind
            ends[number] = before_ps[source][number + 1] if own else ends[number + 1]
        found[emission] = ends
    return found


class _Awaited:
    """What sources await of others before they send; worked out once for programs that share their actions."""

    def __init__(self, workload: Workload) -> None:
        self._programs = workload.programs
        self._between: dict[tuple[int, int], list[Move]] = defaultdict(list)
        for move in workload.moves:
            self._between[move.source, move.target].append(move)
        self._known: dict[tuple[object, ...], list[int]] = {}

    def before(self, move: Move, program: int) -> list[int]:
        """Per action number of the source of ``move``: the last action of ``program`` that it awaits until it has sent
        its next one, -1 if none."""
        source, target = self._programs[move.source].actions, self._programs[program].actions
        ways = tuple((x.kind, x.source_chunk, x.target_chunk) for x in self._between[program, move.source])
        key = (id(source), id(target), move.kind, move.source_chunk, ways)
        if key not in self._known:
            self._known[key] = _last_awaited(source, target, (move.kind, move.source_chunk), ways)
        return self._known[key]


def _last_awaited(
    source: Sequence[Action], target: Sequence[Action], sends: tuple[str, int], ways: Sequence[tuple[str, int, int]]
) -> list[int]:
    """See ``_Awaited``; ``ways`` are (kind, chunk of the program, chunk of the source) of what the source awaits."""
    position = {(action.carries, action.chunk, action.micro_batch): number for number, action in enumerate(target)}
    found = [-1] * (len(source) + 1)
    for number in reversed(range(len(source))):
        action = source[number]
        own = (action.carries, action.chunk)
        found[number] = max(
            -1 if own == sends else found[number + 1],
            *(position[kind, chunk, action.micro_batch] for kind, chunk, there in ways if own == (kind, there)),
            -1,
        )
    return found


def _ready_ps(
    program: Program, courses: Mapping[Body, Course], before_ps: Sequence[int], *, prefetch: bool
) -> dict[int, int]:
    """Per sync before the update, the least time of ``program`` from its start until it comes to it."""
    found: dict[int, int] = {}
    before_fetch_ps = _NEVER_PS  # when it comes to the fetch before, at the earliest
    turns = program.turns() if any(courses[body].fetches for body in program.bodies.values()) else ()
    for number, turn in enumerate(turns):
        course = courses[program.body(program.actions[number])]
        for stop, fetch in course.fetches:
            since_ps = course.starts_ps[stop] - course.resume_ps[stop]
            needed_ps = before_ps[number] + course.least_ps[stop] + since_ps
            found[fetch.sync + fetch.every * turn] = min(needed_ps, before_fetch_ps)
            before_fetch_ps = needed_ps if prefetch else _NEVER_PS
    for number, completion in program.completions().items():
        course = courses[program.body(program.actions[number])]
        for sync, collects, at_ps in course.completes(*completion):
            since_ps = at_ps - course.resume_ps[collects]
            found[sync] = before_ps[number] + course.least_ps[collects] + since_ps
    return found
