"""The best plan of a tiny cluster, by trying them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import NEVER_PS, Seat, Tables
from xsim.plan.search.price import pass_ps, price

__all__ = ["best_plan", "every_pipeline"]


@dataclass(frozen=True)
class Tried:
    """A pipeline, whatever it works through."""

    stages: tuple[SketchStage, ...]
    micro_batch: int
    fill_ps: int
    straggler_ps: int
    needs: tuple[int, ...]

    def samples(self, deadline_ps: int) -> int:
        return self.micro_batch * self.turns(deadline_ps)

    def turns(self, deadline_ps: int) -> int:
        return 0 if deadline_ps < self.fill_ps else 1 + (deadline_ps - self.fill_ps) // self.straggler_ps


def best_plan(tables: Tables, *, stages: int, width: int, micro_batch: int) -> int | None:
    """The shortest iteration of all plans.

    Left out are only sets of pipelines that cannot do the batch sooner than the best known by then, whatever is added
    to them, and though gradients and weights took no time.
    """
    each = list(every_pipeline(tables, stages=stages, width=width, micro_batch=micro_batch))
    if not each:
        return None
    search = _Search(tables, min(_time_ps([own], tables, None) for own in each), each)
    search.extend([], list(range(len(each))), tuple(kind.count for kind in tables.kinds))
    return search.best_ps


class _Search:
    """All sets of pipelines that may be better than the best known.

    Attributes:
        done: What each pipeline does before that.
        most: What pipelines of given devices do at most before that, whole sets of them.
    """

    def __init__(self, tables: Tables, best_ps: int, each: list[Tried]) -> None:
        self.tables, self.each = tables, each
        self._better(best_ps)

    def extend(self, chosen: list[int], among: list[int], left: tuple[int, ...]) -> None:
        """Price all sets that have ``chosen`` and others ``among`` some, of the devices ``left``.

        Who cannot be added in time now cannot later either, beside more of the others.
        """
        among = [number for number in among if self._in_time([*chosen, number], _less(left, self.each[number]))]
        for at, number in enumerate(among):
            own, rest = [*chosen, number], _less(left, self.each[number])
            if not self._in_time(own, rest):
                continue  # there has been a better plan since
            found_ps = _time_ps([self.each[i] for i in own], self.tables, self.best_ps)
            if found_ps < self.best_ps:
                self._better(found_ps)
            self.extend(own, among[at:], rest)

    def _in_time(self, chosen: list[int], rest: tuple[int, ...]) -> bool:
        if min(rest) < 0 or not all(self.done[number] for number in chosen):
            return False
        return sum(self.done[number] for number in chosen) + self.most[rest] >= self.tables.batch

    def _better(self, best_ps: int) -> None:
        self.best_ps = best_ps
        self.done = [own.samples(best_ps - 1) for own in self.each]
        alone: dict[tuple[int, ...], int] = {}
        for own, samples in zip(self.each, self.done, strict=True):
            alone[own.needs] = max(alone.get(own.needs, 0), samples)
        self.most = dict.fromkeys(product(*(range(kind.count + 1) for kind in self.tables.kinds)), 0)
        for left in self.most:  # in the order of their counts: what is left of them has been there before
            for needs, samples in alone.items():
                rest = tuple(a - b for a, b in zip(left, needs, strict=True))
                if min(rest) >= 0:
                    self.most[left] = max(self.most[left], samples + self.most[rest])


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
    needs = tuple(sum(s.tp * s.width for s in seats if s.kind == kind.name) for kind in tables.kinds)
    straggler = max(own + sent for own, sent in zip(passes, sends, strict=True))
    return Tried(tuple(stages), samples, sum(passes) + sum(sends), straggler, needs)


def _less(left: tuple[int, ...], own: Tried) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(left, own.needs, strict=True))


def _time_ps(chosen: list[Tried], tables: Tables, best_ps: int | None) -> int:
    """An iteration with the local batches that end soonest; later than all if that cannot beat ``best_ps``."""
    dealt = _soonest(chosen, tables.batch, best_ps)
    if dealt is None:
        return NEVER_PS
    pipelines = tuple(Pipeline(own.stages, own.micro_batch, n) for own, n in zip(chosen, dealt, strict=True))
    return price(Sketch(pipelines), tables).iteration_ps


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
