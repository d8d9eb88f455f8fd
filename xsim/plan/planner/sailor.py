"""Sailor: even stages whose copies come from several kinds of devices, by dynamic programming over what is left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Kind, Seat, Tables
from xsim.plan.search.emit import best_placed
from xsim.plan.search.price import pass_ps
from xsim.plan.search.shortage import Shortage
from xsim.plan.search.tables import tables
from xsim.plan.search.worth import check_objective
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.checks import at_least
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Sailor"]

OBJECTIVES = ("time", "cost")
WORTH_DOUBLING = 1.5  # by how much twice the tensor ranks must speed a stage up to be taken without need
Left = tuple[int, ...]  # devices of each kind


@dataclass(frozen=True, slots=True)
class Sailor:
    """One pipeline with as many copies of each stage, of any kinds (https://arxiv.org/abs/2504.17096 section 4).

    For every number of stages, all of equally many layers with the rest on the last ones, and every micro-batch: of
    each kind the smallest tensor-parallel degree with which a stage fits, more if doubling it is worth its devices; for
    every number of copies, many first, until fewer do not help: by dynamic programming from the last stage to the
    first, which copies come from which kind. For each stage and what devices are left it keeps one solution. Devices
    may idle. The published code's search by cost never finds two stages; this one does.

    Attributes:
        objective: ``time``: the shortest iteration; ``cost``: the cheapest, by the hourly prices of devices in use.
        stages: The most stages tried; 0: as many as there are layers or devices.
    """

    objective: str = "time"
    stages: int = 0

    def __post_init__(self) -> None:
        at_least(self, "stages", 0)
        if self.objective not in OBJECTIVES:
            raise SpecError("objective", self.objective, "it is unknown", f"choose one of {', '.join(OBJECTIVES)}")

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        try:
            check_objective(self.objective, rank_devices(scenario.cluster))
        except SpecError as error:
            raise error.under("planner") from None
        priced, shortage = tables(scenario, site), Shortage()
        found = [(int(value), sketch) for value, sketch in self._plans(priced, shortage, site)]
        return best_placed(found, "sailor", scenario, site, shortage)

    def _plans(self, priced: Tables, shortage: Shortage, site: PlannerSite) -> Iterator[tuple[float, Sketch]]:
        devices, by_cost = sum(kind.count for kind in priced.kinds), self.objective == "cost"
        most = min(priced.layers, devices)
        if self.stages > most:
            problem = f"{priced.layers} layers on {devices} devices make no more than {most} stages"
            raise SpecError("planner.stages", self.stages, problem, f"write {most} or less, or 0")
        most = self.stages or most
        samples = sorted({s for kind in priced.kinds for s in priced.micro_batches(kind.name, 1)})
        fastest_ps: float = math.inf
        for count in range(1, most + 1):
            site.progress(count - 1, most, "numbers of stages")
            for own in samples:
                best: float | None = None
                for dp in _widths(priced, own, devices // count):
                    shape = _Shape(priced, count, own, dp, by_cost, shortage)
                    if not by_cost and fastest_ps <= shape.at_least_ps() < math.inf:
                        break
                    sketch = shape.best()
                    if sketch is None:
                        continue
                    time_ps, dollars = shape.takes_and_costs(sketch)
                    fastest_ps = min(fastest_ps, time_ps)
                    value = time_ps * dollars if by_cost else time_ps
                    if best is not None and value >= best:
                        break
                    best = value
                    yield value, replace(sketch, predicted_ps=time_ps)


def _widths(priced: Tables, samples: int, most: int) -> list[int]:
    """Copies of a stage that train the batch exactly, many first."""
    total = priced.batch // samples
    return [dp for dp in range(min(most, total), 0, -1) if priced.batch % (dp * samples) == 0]


@dataclass(frozen=True, slots=True)
class _Suffix:
    """The stages from one on: what they take, and how its copies are shared out among the kinds.

    Attributes:
        first_ps: One micro-batch through the first of them.
        price: Of all their devices, an hour.
    """

    value: float
    straggler_ps: int
    fill_ps: int
    price: float
    first_ps: int
    seats: tuple[Seat, ...]
    rest: _Suffix | None


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """So many stages of so many copies that take so many samples each."""

    tables: Tables
    stages: int
    samples: int
    dp: int
    by_cost: bool
    shortage: Shortage
    _known: dict[tuple[int, Left], _Suffix | None] = field(default_factory=dict)
    _degrees: dict[tuple[int, str], int] = field(default_factory=dict)
    _taken: dict[tuple[int, Seat], int] = field(default_factory=dict)

    @property
    def micro_batches(self) -> int:
        """Of the one pipeline."""
        return self.tables.batch // (self.dp * self.samples)

    def takes_and_costs(self, sketch: Sketch) -> tuple[int, float]:
        """Picoseconds of an iteration, with the sum of gradients, and what its devices cost an hour."""
        found = self.suffix(0, tuple(kind.count for kind in self.tables.kinds))
        assert found is not None, "a sketch was made of it"
        time_ps = found.fill_ps + (self.micro_batches - 1) * found.straggler_ps + self.tables.sync_ps(sketch)
        return time_ps, found.price

    def at_least_ps(self) -> float:
        """What an iteration takes without hand-overs and sums, if each stage had its fastest kind."""
        each = []
        for stage in range(self.stages):
            degrees = [(kind.name, self.degree(stage, kind)) for kind in self.tables.kinds]
            times = [self.takes(stage, Seat(name, tp, self.samples)) for name, tp in degrees if tp]
            each.append(min(times, default=math.inf))
        return sum(each) + (self.micro_batches - 1) * max(each)

    def best(self) -> Sketch | None:
        """The plan of this shape; None if there is none."""
        found = self.suffix(0, tuple(kind.count for kind in self.tables.kinds))
        if found is None:
            return None
        stages: list[SketchStage] = []
        while found:
            held = self.layers(len(stages))
            inner = range(max(held.start, 1), min(held.stop, self.tables.layers + 1))
            stages.append(SketchStage(inner, tuple(Copies(s.kind, s.tp, s.width) for s in found.seats)))
            found = found.rest
        return Sketch((Pipeline(tuple(stages), self.dp * self.samples, self.micro_batches),))

    def layers(self, stage: int) -> range:
        """Equally many for each, the rest on the last ones, with the ends."""
        each, rest = divmod(self.tables.layers, self.stages)
        longer = max(0, stage - (self.stages - rest))
        start = 1 + stage * each + longer
        stop = start + each + (stage >= self.stages - rest)
        return range(0 if stage == 0 else start, stop + (stage == self.stages - 1))

    def suffix(self, stage: int, left: Left) -> _Suffix | None:
        """The best stages from ``stage`` on of the devices that are left; None if there are too few."""
        key = (stage, left)
        if key not in self._known:
            self._known[key] = self._find(stage, left)
        return self._known[key]

    def _find(self, stage: int, left: Left) -> _Suffix | None:
        degrees = [self.degree(stage, kind) for kind in self.tables.kinds]
        rooms = [
            _room(kind, tp, own) if tp else 0 for kind, tp, own in zip(self.tables.kinds, degrees, left, strict=True)
        ]
        best: _Suffix | None = None
        for widths in _shared(self.dp, rooms):
            after = tuple(own - width * tp for own, width, tp in zip(left, widths, degrees, strict=True))
            rest = None
            if stage + 1 < self.stages:
                rest = self.suffix(stage + 1, after)
                if rest is None:
                    continue
            found = self._joined(stage, widths, degrees, rest)
            if best is None or found.value < best.value:
                best = found
        return best

    def _joined(self, stage: int, widths: tuple[int, ...], degrees: list[int], rest: _Suffix | None) -> _Suffix:
        chosen = [
            (kind, width, tp) for kind, width, tp in zip(self.tables.kinds, widths, degrees, strict=True) if width
        ]
        seats = tuple(Seat(kind.name, tp, self.samples, width) for kind, width, tp in chosen)
        price = sum(kind.device.price_usd_per_hour * width * tp for kind, width, tp in chosen)
        own = max(self.takes(stage, Seat(seat.kind, seat.tp, seat.samples)) for seat in seats)
        straggler = fill = own
        if rest:
            sent = max(self.tables.boundary_ps(a, b) for a in seats for b in rest.seats)
            back = max(self.tables.boundary_ps(b, a) for a in seats for b in rest.seats)
            straggler = max(own + sent, rest.first_ps + back, rest.straggler_ps)
            fill, price = own + sent + back + rest.fill_ps, price + rest.price
        time_ps = fill + (self.micro_batches - 1) * straggler
        return _Suffix(time_ps * price if self.by_cost else time_ps, straggler, fill, price, own, seats, rest)

    def takes(self, stage: int, seat: Seat) -> int:
        """One micro-batch through a copy of the stage, forward and backward."""
        key = (stage, seat)
        if key not in self._taken:
            self._taken[key] = pass_ps(self.tables, seat, self.layers(stage))
        return self._taken[key]

    def degree(self, stage: int, kind: Kind) -> int:
        """The tensor-parallel degree of ``kind`` for the stage; 0 if it does not fit with any."""
        key = (stage, kind.name)
        if key not in self._degrees:
            self._degrees[key] = self._find_degree(stage, kind)
        return self._degrees[key]

    def _find_degree(self, stage: int, kind: Kind) -> int:
        flying = self.tables.in_flight(stage, self.stages, self.micro_batches)
        degrees, lacks = self.tables.tps(kind.name), 0
        for number, tp in enumerate(degrees):
            need = self.tables.memory_bytes(kind.name, tp, self.samples, self.layers(stage), flying)
            lacks = need - self.tables.capacity_bytes(kind.name)
            if lacks <= 0:
                return self._worthwhile(stage, kind, degrees[number:])
        self.shortage.note(kind.name, lacks)
        return 0

    def _worthwhile(self, stage: int, kind: Kind, degrees: tuple[int, ...]) -> int:
        chosen = degrees[0]
        for tp in degrees[1:]:
            slow, fast = (self.takes(stage, Seat(kind.name, each, self.samples)) for each in (chosen, tp))
            if slow < WORTH_DOUBLING * fast:
                break
            chosen = tp
        return chosen


def _room(kind: Kind, tp: int, left: int) -> int:
    """How many copies find a place on ``left`` devices of a kind, none across hosts."""
    return min(left // tp, sum(own // tp for own in kind.hosts))


def _shared(total: int, rooms: list[int]) -> Iterator[tuple[int, ...]]:
    """``total`` copies shared out among kinds that have so much room each."""
    for widths in product(*(range(min(total, room), -1, -1) for room in rooms[:-1])):
        rest = total - sum(widths)
        if 0 <= rest <= rooms[-1]:
            yield (*widths, rest)
