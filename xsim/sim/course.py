"""A body as it runs when nobody disturbs it, and what goes with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.workload import Action, Body, Collect, Compute, Fetch, Move, Ready, Workload

__all__ = ["Course", "Part", "Parts", "course_of", "least_alone_ps", "parts_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Instants are counted from the start of the body; it has n stops: collectives, and fetches of weights.

    What a fetch takes depends on other programs: here it is nothing.

    Attributes:
        stops: The transfers of each collective, and the fetches, n.
        starts_ps, ends_ps: When each begins and ends, alone on its links, n.
        spans_ps: The same as rows (begin, end), n x 2.
        beside_ps: What is done beside each takes, n.
        resume_ps: Where it stands after the first k stops and what is done beside them, from 0; n + 1.
        least_ps: What lies before that point takes at least this long, whatever else is on the wires, n + 1.
        ready: (announcement, stops before it, instant) of each gradient that the body completes.
        recurring: Those of them that count in every micro-batch.
        fetches: (number among the stops, fetch).
        duration_ps: Of the whole.
        least_total_ps: The least that the whole takes.
    """

    stops: tuple[TransferGraph | Fetch, ...]
    starts_ps: tuple[int, ...]
    ends_ps: tuple[int, ...]
    spans_ps: NDArray[np.int64]
    beside_ps: tuple[int, ...]
    resume_ps: tuple[int, ...]
    least_ps: tuple[int, ...]
    ready: tuple[tuple[Ready, int, int], ...]
    recurring: tuple[tuple[Ready, int, int], ...]
    fetches: tuple[tuple[int, Fetch], ...]
    duration_ps: int
    least_total_ps: int

    @property
    def collects_ps(self) -> tuple[int, ...]:
        """What each stop takes."""
        return tuple(end - start for start, end in zip(self.starts_ps, self.ends_ps, strict=True))

    def completes(self, turn: int, last: bool) -> list[tuple[int, int, int]]:
        """(sync, stops before it, instant) of each gradient that is complete with this micro-batch.

        Args:
            turn: How many have completed these layers before.
            last: It is the last one that does.
        """
        counting = self.ready if last else self.recurring
        return [(step.sync + step.every * turn, stops, at_ps) for step, stops, at_ps in counting]

    def graphs(self, start: int, stop: int) -> list[TransferGraph]:
        """Of the collectives among stops ``start`` to ``stop``."""
        return [found for found in self.stops[start:stop] if isinstance(found, TransferGraph)]

    def fetch_from(self, stop: int) -> int:
        """The first fetch at ``stop`` or later, n if there is none."""
        if not self.fetches:
            return len(self.stops)
        return next((number for number, _ in self.fetches if number >= stop), len(self.stops))


def course_of(body: Body, solo_ps: Callable[[TransferGraph], int], least_ps: Callable[[TransferGraph], int]) -> Course:
    """The course of ``body``.

    Args:
        body: What is done.
        solo_ps: What a collective takes alone on its links.
        least_ps: What it takes at least, in any company.
    """
    stops, starts, ends, beside = list[TransferGraph | Fetch](), list[int](), list[int](), list[int]()
    resume, least = [0], [0]
    ready: list[tuple[Ready, int, int]] = []
    now_ps = sure_ps = 0
    for step in body.steps:
        if isinstance(step, Compute):
            slowest = max(step.durations_ps)
            now_ps += slowest
            sure_ps += slowest
        elif isinstance(step, Ready):
            ready.append((step, len(stops), now_ps))
        elif isinstance(step, Collect):
            stops.append(step.graph)
            starts.append(now_ps)
            beside.append(step.beside_ps)
            ends.append(now_ps + solo_ps(step.graph))
            now_ps = max(ends[-1], now_ps + step.beside_ps)
            sure_ps += max(least_ps(step.graph), step.beside_ps)
            resume.append(now_ps)
            least.append(sure_ps)
        else:
            stops.append(step)
            starts.append(now_ps)
            beside.append(0)
            ends.append(now_ps)
            resume.append(now_ps)
            least.append(sure_ps)
    return Course(
        stops=tuple(stops),
        starts_ps=tuple(starts),
        ends_ps=tuple(ends),
        spans_ps=np.array([starts, ends], dtype=np.int64).T,
        beside_ps=tuple(beside),
        resume_ps=tuple(resume),
        least_ps=tuple(least),
        ready=tuple(ready),
        recurring=tuple(found for found in ready if found[0].every),
        fetches=tuple((number, stop) for number, stop in enumerate(stops) if isinstance(stop, Fetch)),
        duration_ps=now_ps,
        least_total_ps=sure_ps,
    )


def least_alone_ps(solo_ps: Callable[[TransferGraph], int], fabric: Fabric, graph: TransferGraph) -> int:
    """What ``graph`` takes at least, whatever else is on the wires.

    If no two of its rows have a link in common, company can only delay each of them (a picosecond of rounding a round
    apart), and with it all. Else company may happen to reorder rows that delay each other: then nothing is sure.
    """
    links = [link for pair in zip(graph.src.tolist(), graph.dst.tolist(), strict=True) for link in fabric.route(*pair)]
    exclusive = len(set(links)) == len(links)
    return max(0, solo_ps(graph) - int(graph.rounds.sum())) if exclusive else 0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What actions of one kind and chunk of a program have in common.

    Attributes:
        incoming, outgoing: The moves that each waits for, and that its end sends.
    """

    body: Body
    course: Course
    incoming: tuple[Move, ...]
    outgoing: tuple[Move, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Those of one program: by kind and chunk, and of actions that have bodies of their own."""

    common: Mapping[tuple[str, int], Part]
    own: Mapping[Action, Part]

    def of(self, action: Action) -> Part:
        """The part of an action."""
        own = self.own.get(action) if self.own else None
        return own or self.common[action.kind, action.chunk]


def parts_of(workload: Workload, courses: Mapping[Body, Course]) -> list[Parts]:
    """Of each program."""
    outgoing: dict[tuple[int, str, int], list[Move]] = defaultdict(list)
    incoming: dict[tuple[int, str, int], list[Move]] = defaultdict(list)
    for move in workload.moves:
        outgoing[move.source, move.kind, move.source_chunk].append(move)
        incoming[move.target, move.kind, move.target_chunk].append(move)
    parts: list[Parts] = []
    for index, program in enumerate(workload.programs):
        common: dict[tuple[str, int], Part] = {}
        for (kind, chunk), body in program.bodies.items():
            carried = (index, Action(kind, 0, chunk).carries, chunk)
            moves = (tuple(found.get(carried, ())) for found in (incoming, outgoing))
            common[kind, chunk] = Part(body, courses[body], *moves)
        own = {
            action: replace(common[action.kind, action.chunk], body=body, course=courses[body])
            for action, body in program.own.items()
        }
        parts.append(Parts(common, own))
    return parts
