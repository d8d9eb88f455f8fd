"""Metis: one pipeline over all devices, kind after kind, with stages of unlike size and layers cut to balance them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, permutations

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Kind, Seat, Tables
from xsim.plan.search.emit import best_placed
from xsim.plan.search.grids import divisors
from xsim.plan.search.shares import largest_remainder
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.stage_sizes import stage_sizes
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.checks import at_least
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Metis"]

Mix = tuple[tuple[int, int], ...]  # (number of a kind, how many of its devices), of one stage


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
    """

    variance: float = 1.0
    blocks: int = 4
    largest_tp: int = 0
    largest_micro_batch: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.variance <= 1:
            raise SpecError("variance", self.variance, "a part of the even share is 0 to 1", "write 1, or 0.5")
        at_least(self, "blocks", 1)
        at_least(self, "largest_tp", 0)
        at_least(self, "largest_micro_batch", 1)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        runs = StageRuns(tables(scenario, site))
        search = _Search(self, runs)
        return best_placed(list(search.plans()), "metis", scenario, site, runs.shortage)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Devices of a stage and how they are tied together.

    Attributes:
        seats: Its copies, those with equal samples together.
    """

    tp: int
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    options: Metis
    runs: StageRuns
    _tied: dict[tuple[Mix, int, int], _Stage | None] = field(default_factory=dict)
    _quickest: dict[tuple[Mix, int], int] = field(default_factory=dict)

    def plans(self) -> Iterator[tuple[int, Sketch]]:
        """Those that were the fastest when they were found."""
        least_ps: int | None = None
        kinds = self.runs.tables.kinds
        total = sum(kind.count for kind in kinds)
        for order in permutations(range(len(kinds))):
            for stages in range(1, min(total, self.runs.tables.layers) + 1):
                for sizes in stage_sizes(total, stages, self.options.variance, self.options.blocks):
                    mixes = _mixes(order, kinds, sizes)
                    for micro_batches in divisors(self.runs.tables.batch):
                        if least_ps is not None and self._at_least(mixes, micro_batches) >= least_ps:
                            continue
                        found = self._walk(mixes, micro_batches, least_ps)
                        if found and (least_ps is None or found[0] < least_ps):
                            least_ps = found[0]
                            yield found

    def _at_least(self, mixes: tuple[Mix, ...], micro_batches: int) -> int:
        """What no plan of these stages is faster than: layers cut in fractions, however their devices are tied."""
        samples = self.runs.tables.batch // micro_batches
        each = [self.quickest_ps(mix, samples) for mix in mixes]
        if min(each) < 0:
            return 2**62
        layers = self.runs.tables.layers
        slowest = max(int(layers / sum(1 / own for own in each)), *each, -(-layers // len(each)) * min(each))
        return (micro_batches - 1) * slowest + layers * min(each)

    def quickest_ps(self, mix: Mix, samples: int) -> int:
        """One transformer layer for a micro-batch of so many samples, with the best degree; -1 if there is none."""
        key = (mix, samples)
        if key not in self._quickest:
            tied = [self.tied(mix, tp, samples) for tp in self._degrees(mix)]
            self._quickest[key] = min((self.runs.layer_ps(own.seats) for own in tied if own), default=-1)
        return self._quickest[key]

    def _degrees(self, mix: Mix) -> list[int]:
        kinds = self.runs.tables.kinds
        most = min(max(self.runs.tables.tps(kinds[number].name)) for number, _ in mix)
        most = min(most, self.options.largest_tp or most)
        return [tp for tp in (1 << p for p in range(most.bit_length())) if all(count % tp == 0 for _, count in mix)]

    def tied(self, mix: Mix, tp: int, samples: int) -> _Stage | None:
        """Copies of ``tp`` devices each that share samples by speed; None if one would get too few or many."""
        key = (mix, tp, samples)
        if key not in self._tied:
            self._tied[key] = self._tie(mix, tp, samples)
        return self._tied[key]

    def _tie(self, mix: Mix, tp: int, samples: int) -> _Stage | None:
        names = [(self.runs.tables.kinds[number].name, count // tp) for number, count in mix]
        copies = sum(count for _, count in names)
        if samples < copies or (len(names) == 1 and samples % copies):
            return None
        speeds = [2**40 // self.runs.layer_ps((Seat(name, tp, 1),)) for name, _ in names]
        weights = [own for (_, count), own in zip(names, speeds, strict=True) for _ in range(count)]
        shares = largest_remainder(samples, weights)
        if min(shares) < 1 or max(shares) > self.options.largest_micro_batch:
            return None
        seats, start = [], 0
        for name, count in names:
            own = shares[start : start + count]
            start += count
            for each in sorted(set(own), reverse=True):
                seats.append(Seat(name, tp, each, own.count(each)))
        return _Stage(tp, tuple(seats))

    def _walk(self, mixes: tuple[Mix, ...], micro_batches: int, least_ps: int | None) -> tuple[int, Sketch] | None:
        """The first way to tie the devices of stages together with which all layers fit."""
        samples = self.runs.tables.batch // micro_batches
        degrees = [self._degrees(mix) for mix in mixes]
        at = [0] * len(mixes)
        while True:
            tied = [self.tied(mix, own[i], samples) for mix, own, i in zip(mixes, degrees, at, strict=True)]
            stages = [own for own in tied if own]
            if len(stages) == len(mixes):
                cut = self.runs.cut([own.seats for own in stages], micro_batches)
                if cut:
                    return self._timed(stages, *cut, micro_batches, least_ps)
            grown = [s for s in range(len(mixes)) if at[s] + 1 < len(degrees[s])]
            if not grown:
                return None
            at[min(grown, key=lambda s: self._spare(tied[s], s, len(mixes), micro_batches))] += 1

    def _spare(self, stage: _Stage | None, number: int, stages: int, micro_batches: int) -> int:
        """Layers that a stage has memory for beyond an even share; least if its copies get no whole samples."""
        if stage is None:
            return -(2**31)
        flying = self.runs.tables.in_flight(number, stages, micro_batches)
        ends = (number == 0, number == stages - 1)
        most = min(self.runs.most_layers(seat, ends, flying) for seat in stage.seats)
        return most - self.runs.tables.layers // stages

    def _timed(
        self, stages: list[_Stage], cuts: tuple[int, ...], times: list[int], micro_batches: int, least_ps: int | None
    ) -> tuple[int, Sketch] | None:
        priced = self.runs.tables
        total_ps = (micro_batches - 1) * max(times) + sum(times)
        if least_ps is not None and total_ps >= least_ps:
            return None
        sketch = _sketch(stages, cuts, priced.batch // micro_batches, micro_batches)
        total_ps += sum(priced.hand_overs_ps([own.seats for own in stages]))
        total_ps += priced.sync_ps(sketch) + _update_ps(priced, stages, cuts)
        return total_ps, sketch


def _mixes(order: tuple[int, ...], kinds: tuple[Kind, ...], sizes: tuple[int, ...]) -> tuple[Mix, ...]:
    """Which devices each stage gets of the row of kinds."""
    left = [(number, kinds[number].count) for number in order]
    found = []
    for size in sizes:
        own, missing = [], size
        while missing:
            number, count = left[0]
            taken = min(count, missing)
            own.append((number, taken))
            left[:1] = [(number, count - taken)] if taken < count else []
            missing -= taken
        found.append(tuple(own))
    return tuple(found)


def _sketch(stages: list[_Stage], cuts: tuple[int, ...], micro_batch: int, micro_batches: int) -> Sketch:
    spans = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
    found = (
        SketchStage(held, tuple(Copies(seat.kind, seat.tp, seat.width, seat.samples) for seat in stage.seats))
        for stage, held in zip(stages, spans, strict=True)
    )
    return Sketch((Pipeline(tuple(found), micro_batch, micro_batches),))


def _update_ps(priced: Tables, stages: list[_Stage], cuts: tuple[int, ...]) -> int:
    held = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
    held[0] = range(0, held[0].stop)
    held[-1] = range(held[-1].start, priced.layers + 2)
    return max(
        priced.update_ps(s.kind, s.tp, own) for stage, own in zip(stages, held, strict=True) for s in stage.seats
    )
