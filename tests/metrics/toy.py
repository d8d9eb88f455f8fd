"""A toy executor: plays a workload with given durations, so that accounts can be tested without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from xsim.fabric.transfers import TransferGraph, concatenate
from xsim.plan.draw import Stall
from xsim.plan.stalls import stalled
from xsim.plan.workload import Action, Body, Collect, Compute, Fetch, Move, Program, Ready, Step, Sync, Workload
from xsim.sim.timeline import Timeline
from xsim.spec.deployment import DeviceGroup


def graph(*parties: Iterable[int]) -> TransferGraph:
    """A graph without rows: the toy never looks inside."""
    return concatenate([], [tuple(party) for party in parties])


def actions(text: str) -> tuple[Action, ...]:
    """``F0 F1 B0 B1`` as actions."""
    return tuple(Action(word[0], int(word[1:])) for word in text.split())


def program(
    replica: int,
    stage: int,
    ranks: tuple[int, ...],
    order: str,
    forward: tuple[Step, ...],
    backward: tuple[Step, ...],
    update: tuple[Step, ...] = (),
) -> Program:
    bodies = {("F", 0): Body(forward), ("B", 0): Body(backward), ("U", 0): Body(update)}
    return Program(replica, stage, 0, DeviceGroup(ranks=ranks, samples=1), actions(order), bodies)


def pipeline(programs: Iterable[Program]) -> tuple[Move, ...]:
    """Activations up and gradients down between neighbouring stages of each replica."""
    where = {(p.replica, p.stage): index for index, p in enumerate(programs)}
    moves: list[Move] = []
    for (replica, stage), index in where.items():
        following = where.get((replica, stage + 1))
        if following is not None:
            moves.append(Move(index, following, "F", 0, 0, graph()))
            moves.append(Move(following, index, "B", 0, 0, graph()))
    return tuple(moves)


def sync(*members: int, does: Literal["sum", "scatter", "gather"] = "sum") -> Sync:
    return Sync(members, "dense", range(1, 2), 8, graph(*((member,) for member in members)), does=does)


@dataclass(frozen=True, slots=True)
class Pace:
    """What the network of the toy takes.

    Attributes:
        collect_ps: A collective that is folded, by its graph's identity; ``default_ps`` if it is not there.
        walked: (program, row number in the program) -> durations of that action's collectives, walked.
        sync_ps: Per sync, what each member takes after the last release.
    """

    default_ps: int = 0
    collect_ps: Mapping[int, int] = field(default_factory=dict)
    walked: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    move_ps: int = 0
    sync_ps: tuple[tuple[int, ...], ...] = ()


class Toy:
    """One execution; ``play`` gives its timeline."""

    def __init__(self, workload: Workload, pace: Pace) -> None:
        self.workload, self.pace = workload, pace
        self.rows: list[tuple[int, Action, int, int, int]] = []
        self.collects: list[list[tuple[int, int]]] = []
        self.folded: dict[Body, tuple[int, ...]] = {}
        self.released: dict[tuple[int, int], int] = {}
        self.ended: dict[tuple[int, Action], int] = {}
        self.synced: list[tuple[list[int], list[int], list[int]]] = []  # of each: came, took part, done
        self.free: dict[int, int] = {}  # of each program, the end of its last sync
        self.awaited: dict[tuple[int, int], int] = {}  # per program and row, the move that came last

    def play(self) -> Timeline:
        programs = self.workload.programs
        clock, position = [0] * len(programs), [0] * len(programs)
        moved = True
        while moved:
            moved = False
            for index, each in enumerate(programs):
                while position[index] < len(each.actions):
                    start = self._may_start(index, position[index], each.actions[position[index]], clock[index])
                    if start is None:
                        break
                    clock[index] = self._act(index, position[index], each.actions[position[index]], start)
                    position[index] += 1
                    moved = True
        return self._finish(clock)

    def _may_start(self, index: int, place: int, action: Action, now: int) -> int | None:
        for number, move in enumerate(self.workload.moves):
            if (move.target, move.kind) == (index, action.kind):
                sent = self.ended.get((move.source, action))
                if sent is None:
                    return None
                if sent + self.pace.move_ps > now:
                    now = sent + self.pace.move_ps
                    self.awaited[index, place] = number
        return now

    def _act(self, index: int, number: int, action: Action, start: int) -> int:
        body = self.workload.programs[index].body(action)
        graphs = [step.graph for step in body.steps if isinstance(step, Collect)]
        walked = self.pace.walked.get((index, number))
        alone = tuple(self.pace.collect_ps.get(id(each), self.pace.default_ps) for each in graphs)
        durations = iter(alone if walked is None else walked)
        last = max(a.micro_batch for a in self.workload.programs[index].actions)
        at, spans = start, list[tuple[int, int]]()
        for step in body.steps:
            if isinstance(step, Ready):
                if action.micro_batch == last:
                    self.released[step.sync, index] = at
                continue
            before = at
            assert not isinstance(step, Fetch), "toy programs fetch nothing"
            if isinstance(step, Collect):
                spans.append((before, before + next(durations)))
                at = max(spans[-1][1], before + step.beside_ps)
            else:
                at += max(step.durations_ps)
        if walked is None:
            self.folded[body] = alone
        else:
            self.collects.append(spans)
        self.rows.append((index, action, start, at, -1 if walked is None else len(self.collects) - 1))
        self.ended[index, action] = at
        return at

    def _sync(self, number: int, came: list[int]) -> dict[int, int]:
        """Members come to sync ``number``; when each has the result."""
        each = self.workload.syncs[number]
        turns = [self.free.get(p, 0) if self.workload.serial_sync else 0 for p in each.programs]
        joined = [max(pair) for pair in zip(came, turns, strict=True)]
        done = [max(joined) + extra for extra in self.pace.sync_ps[number]]
        self.synced.append((came, joined, done))
        ends = dict(zip(each.programs, done, strict=True))
        self.free |= ends
        return ends

    def _finish(self, reached: list[int]) -> Timeline:
        syncs = self.workload.syncs  # the gathers come last
        synced = list(reached)
        for number, each in enumerate(syncs):
            if each.does != "gather":
                for index, time in self._sync(number, [self.released[number, p] for p in each.programs]).items():
                    synced[index] = max(synced[index], time)
        updated = [
            self._act(index, len(self.workload.programs[index].actions), Action("U", 0), start)
            for index, start in enumerate(synced)
        ]
        ended = list(updated)
        for number, each in enumerate(syncs):
            if each.does == "gather":
                for index, time in self._sync(number, [updated[p] for p in each.programs]).items():
                    ended[index] = max(ended[index], time)
        rows = sorted(self.rows, key=lambda row: row[0])  # stable: in the order in which a program acted
        places = [(index, n) for index, each in enumerate(self.workload.programs) for n in range(len(each.actions) + 1)]
        released, joined, done = zip(*self.synced, strict=True) if self.synced else ((), (), ())
        return Timeline(
            program=np.array([row[0] for row in rows], dtype=np.int64),
            kind=np.array([row[1].kind for row in rows], dtype=np.str_),
            micro_batch=np.array([row[1].micro_batch for row in rows], dtype=np.int64),
            chunk=np.array([row[1].chunk for row in rows], dtype=np.int64),
            start_ps=np.array([row[2] for row in rows], dtype=np.int64),
            end_ps=np.array([row[3] for row in rows], dtype=np.int64),
            awaited=np.array([self.awaited.get(place, -1) for place in places], dtype=np.int64),
            walk=np.array([row[4] for row in rows], dtype=np.int64),
            collects=tuple(np.array(spans, dtype=np.int64).reshape(-1, 2) for spans in self.collects),
            folded=self.folded,
            reached_ps=np.array(reached, dtype=np.int64),
            synced_ps=np.array(synced, dtype=np.int64),
            released_ps=tuple(np.array(times, dtype=np.int64) for times in released),
            needed_ps=tuple(np.full(len(each.programs), -1, dtype=np.int64) for each in self.workload.syncs),
            joined_ps=tuple(np.array(times, dtype=np.int64) for times in joined),
            done_ps=tuple(np.array(times, dtype=np.int64) for times in done),
            ended_ps=np.array(ended, dtype=np.int64),
            makespan_ps=max(ended),
        )


def play(workload: Workload, pace: Pace | None = None) -> Timeline:
    """The timeline of ``workload``; without ``pace`` the network takes no time."""
    free = Pace(sync_ps=tuple((0,) * len(each.programs) for each in workload.syncs))
    return Toy(workload, pace or free).play()


# ---- random cases ----

DURATIONS = st.integers(0, 9)


@st.composite
def _steps(draw: st.DrawFn, ranks: tuple[int, ...], kinds: tuple[str, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        steps.append(Compute(kind, tuple(draw(DURATIONS) for _ in ranks)))
        if len(ranks) > 1 and draw(st.booleans()):
            beside = Compute(kind, tuple(draw(DURATIONS) for _ in ranks)) if draw(st.booleans()) else None
            steps.append(Collect(kind, graph(ranks), beside))
    return tuple(steps)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Workload, Timeline]:
    """A small workload of unlike replicas, and a legal timeline of it, partly folded, partly walked."""
    programs: list[Program] = []
    free = 0
    for replica in range(draw(st.integers(1, 3))):
        stages, micro_batches = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        one_f_one_b = draw(st.booleans())
        for stage in range(stages):
            ranks = tuple(range(free, free := free + draw(st.integers(1, 3))))
            order = _one_f_one_b(stages - stage, micro_batches) if one_f_one_b else _gpipe(micro_batches)
            parts = [draw(_steps(ranks, kinds)) for kinds in (("mlp", "head"), ("mlp", "other"), ("optimizer",))]
            programs.append(program(replica, stage, ranks, order, *parts))
    members = st.lists(st.sampled_from(range(len(programs))), min_size=1, unique=True).map(sorted)
    syncs = tuple(sync(*chosen) for chosen in draw(st.lists(members, max_size=3)))
    syncs += tuple(sync(*chosen, does="gather") for chosen in draw(st.lists(members, max_size=2)))
    for number, each in enumerate(syncs):
        for member in each.programs if each.does == "sum" else ():
            programs[member] = _announcing(programs[member], number, draw(st.integers(0, 3)))
    workload = Workload(tuple(programs), pipeline(programs), syncs, serial_sync=draw(st.booleans()))
    if draw(st.sampled_from((False, False, True))):
        times = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=2).map(sorted)
        stalls = [[Stall(*stall) for stall in draw(times)] for _ in range(free)]
        workload = stalled(workload, lambda rank: iter(stalls[rank]))
    return workload, Toy(workload, draw(_paces(workload))).play()


@st.composite
def _paces(draw: st.DrawFn, workload: Workload) -> Pace:
    walked: dict[tuple[int, int], tuple[int, ...]] = {}
    for index, each in enumerate(workload.programs):
        for number, action in enumerate((*each.actions, Action("U", 0))):
            if draw(st.booleans()):
                steps = each.body(action).steps
                walked[index, number] = tuple(draw(DURATIONS) for step in steps if isinstance(step, Collect))
    sync_ps = tuple(tuple(draw(st.integers(0, 30)) for _ in each.programs) for each in workload.syncs)
    return Pace(default_ps=draw(DURATIONS), walked=walked, move_ps=draw(DURATIONS), sync_ps=sync_ps)


def _announcing(each: Program, number: int, place: int) -> Program:
    steps = each.bodies["B", 0].steps
    announced = Body((*steps[:place], Ready(number), *steps[place:]))
    return replace(each, bodies={**each.bodies, ("B", 0): announced})


def _gpipe(micro_batches: int) -> str:
    return " ".join(f"{kind}{m}" for kind in "FB" for m in range(micro_batches))


def _one_f_one_b(remaining: int, micro_batches: int) -> str:
    warm = min(remaining, micro_batches)
    words = [f"F{m}" for m in range(warm)]
    for m in range(micro_batches):
        words.append(f"B{m}")
        if warm + m < micro_batches:
            words.append(f"F{warm + m}")
    return " ".join(words)
