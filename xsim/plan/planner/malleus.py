"""Malleus: pipelines of unlike speed that share layers and micro-batches in proportion to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, permutations, product

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Seat
from xsim.plan.search.deals import deals
from xsim.plan.search.emit import best_placed
from xsim.plan.search.grids import check_divides, divisors, powers_of_two
from xsim.plan.search.price import price
from xsim.plan.search.shares import least_maximum
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Malleus"]

Solved = tuple[int, int, tuple[str, ...], tuple[int, ...]]  # slowest, sum of all; kind and layers of each stage


@dataclass(frozen=True, slots=True)
class Malleus:
    """Layers and micro-batches shared out by two integer programs (https://arxiv.org/abs/2410.13333 section 4).

    Devices are tied into tensor groups of ``tp``, all of one host; what is left of a host idles. The groups are dealt
    to ``dp`` pipelines of as many stages, one more or less, in ways that differ in kinds, up to ``evaluations``. In a
    pipeline the stages of a kind follow one another, in the best order of kinds, and layers are shared out so that the
    slowest stage is as fast as can be and all fit; micro-batches so that the slowest pipeline is. Both programs are
    solved exactly, by bisection. A pipeline trains as many micro-batches as it has stages, or more. What Malleus itself
    is told, ``tp``, ``dp`` and ``micro_batch``, is tried out where it is 0, by the closed form of an iteration.

    Attributes:
        tp: Tensor-parallel degree of all groups; 0: that of the shortest iteration.
        dp: How many pipelines; 0: likewise.
        micro_batch: Samples of one micro-batch; 0: likewise, of 1, 2, 4 and 8.
        evaluations: How many ways to deal out the groups are looked at for each ``tp``, ``dp`` and ``micro_batch``.
    """

    tp: int = 0
    dp: int = 0
    micro_batch: int = 0
    evaluations: int = 50

    def __post_init__(self) -> None:
        for name in ("tp", "dp", "micro_batch"):
            at_least(self, name, 0)
        at_least(self, "evaluations", 1)
        at_most(self, "evaluations", MOST_TRIES)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        runs = StageRuns(tables(scenario, site, apart=True))
        return best_placed(list(self._plans(scenario, site, runs)), "malleus", scenario, site, runs.shortage)

    def _plans(self, scenario: Scenario, site: PlannerSite, runs: StageRuns) -> Iterator[tuple[int, Sketch]]:
        kinds = runs.tables.kinds
        largest = min(max(kind.per_host for kind in kinds), scenario.model.heads)
        if self.tp > largest:
            problem = f"no tensor group of this model on this cluster has more than {largest} devices"
            raise SpecError("planner.tp", self.tp, problem, f"write {largest} or less, or 0")
        check_divides(self.micro_batch, scenario.batch)
        self._check_pipelines(scenario, sum(own // max(self.tp, 1) for kind in kinds for own in kind.hosts))
        degrees = (self.tp,) if self.tp else powers_of_two(largest)
        sizes = (self.micro_batch,) if self.micro_batch else (1, 2, 4, 8)
        for number, (tp, micro_batch) in enumerate(product(degrees, sizes)):
            site.progress(number, len(degrees) * len(sizes), "tensor degrees and micro-batches")
            groups = {kind.name: sum(own // tp for own in kind.hosts) for kind in kinds if kind.per_host >= tp}
            if groups and scenario.batch % micro_batch == 0:
                dealing = _Dealing(runs, tuple(groups.items()), tp, micro_batch, self.evaluations)
                most = min(sum(groups.values()), scenario.batch // micro_batch)
                for dp in (self.dp,) if self.dp else sorted({*divisors(most), *powers_of_two(most)}):
                    found = dealing.best(scenario.batch // micro_batch, dp) if dp <= most else None
                    if found:
                        yield price(found, runs.tables).iteration_ps, found

    def _check_pipelines(self, scenario: Scenario, groups: int) -> None:
        """Refuse more pipelines than there are tensor groups, or micro-batches."""
        most = min(groups, scenario.batch // max(self.micro_batch, 1))
        if self.dp > most:
            problem = f"{groups} tensor groups and a batch of {scenario.batch} make no more than {most} pipelines"
            raise SpecError("planner.dp", self.dp, problem, f"write {most} or less, or 0")


@dataclass(frozen=True, slots=True, eq=False)
class _Dealing:
    """Groups of one size, by kind, that are dealt to pipelines."""

    runs: StageRuns
    groups: tuple[tuple[str, int], ...]
    tp: int
    micro_batch: int
    evaluations: int
    _solved: dict[tuple[int, ...], Solved | None] = field(default_factory=dict)

    def best(self, micro_batches: int, dp: int) -> Sketch | None:
        """The deal to ``dp`` pipelines whose slowest is fastest, with the micro-batches shared out."""
        least_ps, found = None, None
        for deal in deals(tuple(count for _, count in self.groups), dp, self.evaluations):
            solved = [own for own in map(self.solved, deal) if own]
            if len(solved) < dp:
                continue
            each = [own[0] for own in solved]
            counts = least_maximum(micro_batches, each, [sum(own) for own in deal], [micro_batches] * dp)
            if counts is None:
                continue
            time_ps = max(own * count for own, count in zip(each, counts, strict=True))
            if least_ps is None or time_ps < least_ps:
                least_ps, found = time_ps, (solved, counts)
        return self._sketch(*found) if found else None

    def solved(self, own: tuple[int, ...]) -> Solved | None:
        """The pipeline of so many groups of each kind, in its best order of kinds; None if it cannot hold the model."""
        if own not in self._solved:
            names = [kind for kind, _ in self.groups]
            blocks = [(name,) * count for name, count in zip(names, own, strict=True) if count]
            orders = [tuple(name for block in order for name in block) for order in permutations(blocks)]
            self._solved[own] = min(filter(None, map(self._in_order, orders)), default=None)
        return self._solved[own]

    def _in_order(self, kinds: tuple[str, ...]) -> Solved | None:
        """Layers so that the slowest stage is as fast as can be; each of the stages has one at least."""
        tables, count = self.runs.tables, len(kinds)
        seats = [Seat(kind, self.tp, self.micro_batch) for kind in kinds]
        most, fixed = [], []
        for s, seat in enumerate(seats):
            ends = (s == 0, s == count - 1)
            most.append(self.runs.most_layers(seat, ends, tables.in_flight(s, count, count)))
            fixed.append(self.runs.ends_ps(seat, ends))
        each = [self.runs.layer_ps((seat,)) for seat in seats]
        layers = least_maximum(tables.layers, each, [1] * count, most, fixed) if all(most) else None
        if layers is None:
            self.runs.note_layers([(seat,) for seat in seats], count)
            return None
        times = [base + own * held for base, own, held in zip(fixed, each, layers, strict=True)]
        return max(times), sum(times), kinds, layers

    def _sketch(self, solved: list[Solved], counts: tuple[int, ...]) -> Sketch:
        pipelines = []
        for (_, _, kinds, layers), count in zip(solved, counts, strict=True):
            cuts = (0, *accumulate(layers))
            spans = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
            stages = [SketchStage(held, (Copies(kind, self.tp),)) for kind, held in zip(kinds, spans, strict=True)]
            pipelines.append(Pipeline(tuple(stages), self.micro_batch, count))
        return Sketch(tuple(pipelines))
