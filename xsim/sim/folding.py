"""Which actions may run as one timeout: those whose collectives no other traffic can meet on a link.

An action's tensor-parallel collectives use the links of its group only. If no other group's collectives and no
pipeline transfer ever use one of these links, only gradient syncs can disturb it, and those only near the end: a sync
moves nothing before its first member has come to it, and a member needs at least the compute time (collectives not
counted, so that the bound holds under contention) of the actions that it still has before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.workload import Body, Collect, Compute, Program, Ready, Workload
from xsim.sim.contracts import Network

__all__ = ["Folding"]


class Folding:
    """Tells the executor whether an action may be folded, and what a folded action takes."""

    def __init__(self, workload: Workload, network: Network, fabric: Fabric) -> None:
        self._network = network
        self._collects: dict[Body, tuple[int, ...]] = {}
        self._duration: dict[Body, int] = {}
        programs = workload.programs
        compute_ps = cache(_compute_ps)
        self._before_ps = [tuple(accumulate(map(compute_ps, _bodies(p)), initial=0)) for p in programs]
        self._origin_ps = [0] * len(programs)
        self._members = [sync.programs for sync in workload.syncs]
        ready_ps = [_ready_ps(p, before) for p, before in zip(programs, self._before_ps, strict=True)]
        self._bound_ps = [[ready_ps[p][number] for p in s.programs] for number, s in enumerate(workload.syncs)]
        self._released_ps: list[list[int | None]] = [[None] * len(members) for members in self._members]
        self._open = [len(members) for members in self._members]
        self._disturbed, self._rivals = _conflicts(workload, fabric) if network.contends else (set(), {})

    def may_fold(self, program: int, number: int, body: Body, now_ps: int) -> bool:
        """Whether action ``number`` of ``program``, starting now, meets nobody until its isolated end."""
        self._origin_ps[program] = now_ps - self._before_ps[program][number]
        if not any(isinstance(step, Collect) for step in body.steps):
            return True
        if program in self._disturbed:
            return False
        end_ps = now_ps + self.duration_ps(body)
        return all(self._earliest_ps(sync, now_ps) >= end_ps for sync in self._rivals.get(program, ()))

    def ended(self, program: int, number: int, now_ps: int) -> None:
        """Action ``number`` of ``program`` has ended."""
        self._origin_ps[program] = now_ps - self._before_ps[program][number + 1]

    def released(self, sync: int, member: int, at_ps: int) -> None:
        """A member comes to ``sync`` at ``at_ps``."""
        self._released_ps[sync][member] = at_ps

    def left(self, sync: int) -> None:
        """A member has left ``sync``."""
        self._open[sync] -= 1

    def duration_ps(self, body: Body) -> int:
        """What ``body`` takes alone on its links."""
        if body not in self._duration:
            self._duration[body] = _compute_ps(body) + sum(self.collects_ps(body))
        return self._duration[body]

    def collects_ps(self, body: Body) -> tuple[int, ...]:
        """What each collective of ``body`` takes alone on its links, in order."""
        if body not in self._collects:
            graphs = (step.graph for step in body.steps if isinstance(step, Collect))
            self._collects[body] = tuple(self._network.solo(graph) for graph in graphs)
        return self._collects[body]

    def ready_offsets(self, body: Body) -> tuple[tuple[int, int], ...]:
        """(sync, picoseconds from the start of ``body``) of its gradients, when it is folded."""
        found, at_ps, collects = [], 0, iter(self.collects_ps(body))
        for step in body.steps:
            if isinstance(step, Ready):
                found.append((step.sync, at_ps))
            else:
                at_ps += max(step.durations_ps) if isinstance(step, Compute) else next(collects)
        return tuple(found)

    def _earliest_ps(self, sync: int, now_ps: int) -> int:
        """Before this instant ``sync`` moves no byte; far ahead if it is over."""
        if not self._open[sync]:
            return _NEVER_PS
        return min(
            released if released is not None else max(self._origin_ps[program] + bound, now_ps)
            for program, bound, released in zip(
                self._members[sync], self._bound_ps[sync], self._released_ps[sync], strict=True
            )
        )


_NEVER_PS = 1 << 62


def _conflicts(workload: Workload, fabric: Fabric) -> tuple[set[int], dict[int, tuple[int, ...]]]:
    """Programs that other groups or pipeline transfers can disturb, and the syncs that each program can meet."""
    links_of = {id(graph): fabric.links_of(graph) for graph in _graphs(workload)}
    own = [frozenset[int]().union(*(links_of[id(g)] for g in _collect_graphs(p))) for p in workload.programs]
    users: dict[int, list[int]] = defaultdict(list)
    for index, links in enumerate(own):
        for link in links:
            users[link].append(index)
    disturbed = {index for found in users.values() if len(found) > 1 for index in found}
    rivals: dict[int, list[int]] = defaultdict(list)
    for graph in {id(move.graph): move.graph for move in workload.moves}.values():
        disturbed.update(index for link in links_of[id(graph)] for index in users.get(link, ()))
    for number, sync in enumerate(workload.syncs):
        met = {index for link in links_of[id(sync.graph)] for index in users.get(link, ())}
        for index in sorted(met):
            rivals[index].append(number)
    return disturbed, {index: tuple(found) for index, found in rivals.items()}


def _graphs(workload: Workload) -> Iterable[TransferGraph]:
    yield from (move.graph for move in workload.moves)
    yield from (sync.graph for sync in workload.syncs)
    for program in workload.programs:
        yield from _collect_graphs(program)


def _collect_graphs(program: Program) -> Iterable[TransferGraph]:
    found = {id(s.graph): s.graph for body in program.bodies.values() for s in body.steps if isinstance(s, Collect)}
    return found.values()


def _bodies(program: Program) -> Iterable[Body]:
    yield from (program.bodies[action.kind, action.chunk] for action in program.actions)
    yield program.bodies["U", 0]


def _compute_ps(body: Body) -> int:
    return sum(max(step.durations_ps) for step in body.steps if isinstance(step, Compute))


def _ready_ps(program: Program, before_ps: Sequence[int]) -> dict[int, int]:
    """Per sync, compute time of ``program`` from its start until its gradients are complete: a lower bound.

    Args:
        program: One device group.
        before_ps: Compute time before each of its actions.
    """
    last = {action.chunk: number for number, action in enumerate(program.actions) if action.kind == "B"}
    found: dict[int, int] = {}
    for chunk, number in last.items():
        at_ps = before_ps[number]
        for step in program.bodies["B", chunk].steps:
            if isinstance(step, Ready):
                found[step.sync] = at_ps
            elif isinstance(step, Compute):
                at_ps += max(step.durations_ps)
    return found
