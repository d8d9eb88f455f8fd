"""The best plan of a tiny cluster, by trying them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import Seat, Tables
from xsim.plan.search.price import pass_ps, price

__all__ = ["best_plan", "every_pipeline"]


@dataclass(frozen=True)
class Tried:
    """A pipeline, whatever it works through."""

    stages: tuple[SketchStage, ...]
    micro_batch: int
    fill_ps: int
    straggler_ps: int
    devices: Mapping[str, int]

    def turns(self, deadline_ps: int) -> int:
        return 0 if deadline_ps < self.fill_ps else 1 + (deadline_ps - self.fill_ps) // self.straggler_ps


def best_plan(tables: Tables, *, stages: int, width: int, micro_batch: int) -> tuple[int | None, int]:
    """(the shortest iteration of all plans, how many sets of pipelines there are)."""
    each = list(every_pipeline(tables, stages=stages, width=width, micro_batch=micro_batch))
    best: int | None = None
    count = 0
    for chosen in _sets(each, {kind.name: kind.count for kind in tables.kinds}, 0):
        count += 1
        dealt = _soonest(chosen, tables.batch, best)
        if dealt is not None:
            pipelines = tuple(Pipeline(own.stages, own.micro_batch, n) for own, n in zip(chosen, dealt, strict=True))
            found = price(Sketch(pipelines), tables).iteration_ps
            best = found if best is None else min(best, found)
    return best, count


def every_pipeline(tables: Tables, *, stages: int, width: int, micro_batch: int) -> Iterator[Tried]:
    """Every order of stages, each of one kind and degree, with every cut of the layers, that fits."""
    columns = Columns(tables)
    for samples in range(1, tables.batch + 1):
        if tables.batch % samples:
            continue
        for seats in _orders(tables, samples, stages, width, micro_batch):
            sends = tables.hand_overs_ps([(seat,) for seat in seats])
            for cut in combinations(range(1, tables.layers), len(seats) - 1):
                edges = (0, *cut, tables.layers)
                tried = _tried(tables, columns, samples, seats, edges, sends)
                if tried is not None:
                    yield tried


def _orders(tables: Tables, samples: int, stages: int, width: int, micro_batch: int) -> Iterator[tuple[Seat, ...]]:
    offered = [
        Seat(kind.name, tp, samples // copies, copies)
        for kind in tables.kinds
        for tp in tables.tps(kind.name)
        for copies in (1, 2, 4, 8)
        if copies <= width and samples % copies == 0 and samples // copies in tables.micro_batches(kind.name, tp)
        if samples // copies <= micro_batch
    ]

    def longer(seats: tuple[Seat, ...], left: Mapping[str, int]) -> Iterator[tuple[Seat, ...]]:
        if seats:
            yield seats
        if len(seats) < min(stages, tables.layers):
            for seat in offered:
                takes = seat.tp * seat.width
                if left[seat.kind] >= takes:
                    yield from longer((*seats, seat), {**left, seat.kind: left[seat.kind] - takes})

    yield from longer((), {kind.name: kind.count for kind in tables.kinds})


def _tried(
    tables: Tables,
    columns: Columns,
    samples: int,
    seats: tuple[Seat, ...],
    edges: tuple[int, ...],
    sends: tuple[int, ...],
) -> Tried | None:
    count = len(seats)
    stages, passes = [], []
    for s, seat in enumerate(seats):
        ends = (s == 0, s == count - 1)
        flying = tables.in_flight(s, count, tables.batch // samples)
        row = columns.rows[columns.number(seat, ends, flying)]
        held = edges[s + 1] - edges[s]
        again = row.again[held]
        layers = range(edges[s] + (not ends[0]), edges[s + 1] + 1 + ends[1])
        if tables.memory_bytes(seat.kind, seat.tp, seat.samples, layers, flying, again) > tables.capacity_bytes(
            seat.kind
        ):
            return None
        passes.append(pass_ps(tables, seat, layers, again))
        own = range(edges[s] + 1, edges[s + 1] + 1)
        stages.append(SketchStage(own, (Copies(seat.kind, seat.tp, seat.width),), again))
    devices = {kind.name: sum(s.tp * s.width for s in seats if s.kind == kind.name) for kind in tables.kinds}
    straggler = max(own + sent for own, sent in zip(passes, sends, strict=True))
    return Tried(tuple(stages), samples, sum(passes) + sum(sends), straggler, devices)


def _sets(each: list[Tried], left: Mapping[str, int], start: int) -> Iterator[list[Tried]]:
    for number in range(start, len(each)):
        own = each[number]
        if all(own.devices[kind] <= count for kind, count in left.items()):
            yield [own]
            rest = {kind: count - own.devices[kind] for kind, count in left.items()}
            for others in _sets(each, rest, number):
                yield [own, *others]


def _soonest(chosen: list[Tried], batch: int, best: int | None) -> list[int] | None:
    """Micro-batches of each so that the last ends soonest; None if that cannot beat ``best``, or there are none."""
    ends = sorted({own.fill_ps + n * own.straggler_ps for own in chosen for n in range(batch // own.micro_batch)})
    for end in ends:
        if best is not None and end >= best:
            return None
        dealt = _dealt(chosen, [own.turns(end) for own in chosen], batch)
        if dealt is not None:
            return dealt
    return None


def _dealt(chosen: list[Tried], most: list[int], batch: int) -> list[int] | None:
    if not chosen:
        return [] if batch == 0 else None
    own, *others = chosen
    for n in range(min(most[0], batch // own.micro_batch), 0, -1):
        found = _dealt(others, most[1:], batch - n * own.micro_batch)
        if found is not None:
            return [n, *found]
    return None
