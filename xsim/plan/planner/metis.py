"""Metis: one pipeline over all devices, kind after kind, with stages of unlike size and layers cut to balance them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Seat, Tables
from xsim.plan.search.device_rows import Mix, TiedStage, Tying, shapes
from xsim.plan.search.emit import best_placed
from xsim.plan.search.grids import divisors
from xsim.plan.search.metis_published import as_published
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage, place
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Metis"]

TOLD = 256  # shapes between two words on how far it is


@dataclass(frozen=True, slots=True)
class Metis:
    """One pipeline of unlike stages by Metis' search (https://www.usenix.org/conference/atc24/presentation/um).

    All devices stand in a row, kind after kind, in every order of kinds; the row is cut into stages of powers of two;
    a batch is cut into any number of micro-batches that divides it. The copies of a stage start with one device each;
    while layers do not fit, the stage with least memory to spare ties twice as many together: the first that fits
    counts. Layers are cut so that the slowest stage is as fast as can be, all of them, with as many micro-batches in
    flight as the schedule has; samples in a stage of unlike devices are in proportion to their speed. An iteration is
    ``(B - 1) max t + sum t``, each hand-over once, the slowest sum of gradients and the slowest update.

    Attributes:
        variance: How small a stage may be, over the even share of devices, 0 to 1; the paper has 0.5.
        blocks: How many blocks of stages are permuted; smaller stages are tied together; the paper has 10.
        largest_tp: The largest tensor-parallel degree; 0: as many as a host has devices.
        largest_micro_batch: The most samples that a device takes at once.
        evaluations: How many pairs of stages and micro-batches are looked at, few stages first; the search of 32 + 32
            devices and a batch of 1024 has 141,086.
        faithful: Behave as the published code, with what is wrong in it (``xsim.plan.search.metis_published``): the
            plan may need more memory than there is; that its stages leave layers out is an error.
    """

    variance: float = 1.0
    blocks: int = 4
    largest_tp: int = 0
    largest_micro_batch: int = 8
    evaluations: int = 150_000
    faithful: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.variance <= 1:
            raise SpecError("variance", self.variance, "a part of the even share is 0 to 1", "write 1, or 0.5")
        at_least(self, "blocks", 1)
        at_least(self, "largest_tp", 0)
        at_least(self, "evaluations", 1)
        at_least(self, "largest_micro_batch", 1)
        at_most(self, "evaluations", MOST_TRIES)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        priced = tables(scenario, site)
        runs = StageRuns(priced)
        tying = Tying(runs, self.largest_tp, self.largest_micro_batch)
        if self.faithful:
            sketch = as_published(tying, priced, (self.variance, self.blocks), self.evaluations)
            return place(replace(sketch, name="metis", source="metis"), scenario)
        search = _Search(self, runs, tying)
        return best_placed(list(search.plans(site)), "metis", scenario, site, runs.shortage)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    options: Metis
    runs: StageRuns
    tying: Tying
    _quickest: dict[tuple[Mix, int], int] = field(default_factory=dict)

    def plans(self, site: PlannerSite) -> Iterator[tuple[int, Sketch]]:
        """Those that were the fastest when they were found."""
        least_ps: int | None = None
        counts, most = divisors(self.runs.tables.batch), self.options.evaluations
        rows = shapes(self.runs.tables, self.options.variance, self.options.blocks)
        for number, (_, row) in enumerate(islice(rows, -(-most // len(counts)))):
            if number % TOLD == 0:
                site.progress(number * len(counts), most, "plans at most")
            for micro_batches in counts:
                if least_ps is not None and self._at_least(row, micro_batches) >= least_ps:
                    continue
                found = self._walk(row, micro_batches, least_ps)
                if found and (least_ps is None or found[0] < least_ps):
                    least_ps = found[0]
                    yield found

    def _at_least(self, row: tuple[Mix, ...], micro_batches: int) -> int:
        """What no plan of these stages is faster than: layers cut in fractions, however their devices are tied."""
        samples = self.runs.tables.batch // micro_batches
        each = [self.quickest_ps(mix, samples) for mix in row]
        return 2**62 if min(each) < 0 else self._bound_ps(each, micro_batches)

    def _as_tied(self, seats: list[tuple[Seat, ...]], micro_batches: int) -> int:
        """The same with devices tied like this, and what stages send."""
        sent = sum(self.runs.tables.hand_overs_ps(seats))
        return sent + self._bound_ps([self.runs.layer_ps(own) for own in seats], micro_batches)

    def _bound_ps(self, each: list[int], micro_batches: int) -> int:
        layers = self.runs.tables.layers
        slowest = max(int(layers / sum(1 / own for own in each)), *each, -(-layers // len(each)) * min(each))
        return (micro_batches - 1) * slowest + layers * min(each)

    def quickest_ps(self, mix: Mix, samples: int) -> int:
        """One transformer layer for a micro-batch of so many samples, with the best degree; -1 if there is none."""
        key = (mix, samples)
        if key not in self._quickest:
            tied = [self.tying.tied(mix, tp, samples) for tp in self.tying.degrees(mix)]
            self._quickest[key] = min((self.runs.layer_ps(own.seats) for own in tied if own), default=-1)
        return self._quickest[key]

    def _walk(self, row: tuple[Mix, ...], micro_batches: int, least_ps: int | None) -> tuple[int, Sketch] | None:
        """The first way to tie the devices of stages together with which all layers fit."""
        samples = self.runs.tables.batch // micro_batches
        degrees = [self.tying.degrees(mix) for mix in row]
        at = [0] * len(row)
        while True:
            tied = [self.tying.tied(mix, own[i], samples) for mix, own, i in zip(row, degrees, at, strict=True)]
            stages = [own for own in tied if own]
            if len(stages) == len(row):
                seats = [own.seats for own in stages]
                hopeless = least_ps is not None and self._as_tied(seats, micro_batches) >= least_ps
                if hopeless and self.runs.room(seats, micro_batches):
                    return None
                cut = None if hopeless else self.runs.cut(seats, micro_batches)
                if cut:
                    return self._timed(stages, *cut, micro_batches, least_ps)
            grown = [s for s in range(len(row)) if at[s] + 1 < len(degrees[s])]
            if not grown:
                return None
            at[min(grown, key=lambda s: self._spare(tied[s], s, len(row), micro_batches))] += 1

    def _spare(self, stage: TiedStage | None, number: int, stages: int, micro_batches: int) -> int:
        """Layers that a stage has memory for beyond an even share; least if its copies get no whole samples."""
        if stage is None:
            return -(2**31)
        flying = self.runs.tables.in_flight(number, stages, micro_batches)
        ends = (number == 0, number == stages - 1)
        most = min(self.runs.most_layers(seat, ends, flying) for seat in stage.seats)
        return most - self.runs.tables.layers // stages

    def _timed(
        self, stages: list[TiedStage], cuts: tuple[int, ...], times: list[int], micro_batches: int, least_ps: int | None
    ) -> tuple[int, Sketch] | None:
        priced = self.runs.tables
        total_ps = (micro_batches - 1) * max(times) + sum(times)
        if least_ps is not None and total_ps >= least_ps:
            return None
        sketch = _sketch(stages, cuts, priced.batch // micro_batches, micro_batches)
        total_ps += sum(priced.hand_overs_ps([own.seats for own in stages]))
        total_ps += priced.sync_ps(sketch) + _update_ps(priced, stages, cuts)
        return total_ps, sketch


def _sketch(stages: list[TiedStage], cuts: tuple[int, ...], micro_batch: int, micro_batches: int) -> Sketch:
    spans = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
    found = (
        SketchStage(held, tuple(Copies(seat.kind, seat.tp, seat.width, seat.samples) for seat in stage.seats))
        for stage, held in zip(stages, spans, strict=True)
    )
    return Sketch((Pipeline(tuple(found), micro_batch, micro_batches),))


def _update_ps(priced: Tables, stages: list[TiedStage], cuts: tuple[int, ...]) -> int:
    held = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
    held[0] = range(0, held[0].stop)
    held[-1] = range(held[-1].start, priced.layers + 2)
    return max(
        priced.update_ps(s.kind, s.tp, own) for stage, own in zip(stages, held, strict=True) for s in stage.seats
    )
