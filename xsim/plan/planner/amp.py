"""AMP: one grid of equal degrees over devices that are taken for average ones, with stages cut to balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xsim.fabric.fabric import Fabric
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import NEVER_PS, Seat, Tables
from xsim.plan.search.cuts import StageTimes, least_maximum_cuts, stage_times
from xsim.plan.search.emit import best_placed
from xsim.plan.search.grids import Grid, cut_into, grids
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.sync import ring_ps, ring_rate
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Pipeline, Sketch
from xsim.spec.checks import at_least
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Amp"]


@dataclass(frozen=True, slots=True)
class Amp:
    """The best of all grids of equal degrees by AMP's model (https://arxiv.org/abs/2210.07297 section 3).

    A device counts as the average of all, weighted by how many there are of each kind; links count as they are. A
    pipeline of S stages and B micro-batches takes the sum of its stages, B - 1 times the slowest, each hand-over once,
    and the slowest ring of gradients. Ranks are dealt out as Megatron-LM does, stages are cut so that the slowest is as
    fast as can be. Unlike the published code it keeps to the memory of the devices that a stage really has, and takes
    the slowest link of the whole ring and not its last.

    Attributes:
        largest_tp: The largest tensor-parallel degree tried; 0: as many as a host has devices.
        largest_micro_batch: The most samples of a micro-batch that a device takes at once.
    """

    largest_tp: int = 0
    largest_micro_batch: int = 8

    def __post_init__(self) -> None:
        at_least(self, "largest_tp", 0)
        at_least(self, "largest_micro_batch", 1)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        runs = StageRuns(tables(scenario, site))
        found = list(self._plans(scenario, site.fabric, runs))
        return best_placed(found, "amp", scenario, site, runs.shortage)

    def _plans(self, scenario: Scenario, fabric: Fabric, runs: StageRuns) -> Iterator[tuple[int, Sketch]]:
        for grid in grids(scenario, self.largest_tp, self.largest_micro_batch):
            stages = grid.stages(scenario)
            if not stages:
                continue
            seats = [stage.seats(grid.samples) for stage in stages]
            times = _average(runs, scenario, grid, seats)
            cuts = least_maximum_cuts(times)
            if cuts is None:
                continue
            each = [int(own[a, b]) for own, a, b in zip(times, cuts, cuts[1:], strict=False)]
            sketch = Sketch((Pipeline(cut_into(stages, cuts), grid.dp * grid.samples, grid.micro_batches),))
            time_ps = sum(each) + (grid.micro_batches - 1) * max(each)
            time_ps += sum(runs.tables.hand_overs_ps(seats)) // 2
            yield time_ps + _ring_ps(scenario, fabric, grid, cuts), sketch


def _average(runs: StageRuns, scenario: Scenario, grid: Grid, seats: Sequence[tuple[Seat, ...]]) -> list[StageTimes]:
    """Of each stage what runs of layers take an average device; they must fit the devices that it has."""
    passes = _average_passes(runs.tables, grid)
    found = []
    for s, own in enumerate(seats):
        first, last = s == 0, s == grid.pp - 1
        flying = runs.tables.in_flight(s, grid.pp, grid.micro_batches)
        fitting = runs.times(own, (first, last), flying) < NEVER_PS
        extra = int(passes[0]) * first + int(passes[-1]) * last
        any_run = np.full(scenario.model.layers, scenario.model.layers)
        found.append(np.where(fitting, stage_times(passes[1:-1], extra, any_run), NEVER_PS))
    return found


def _average_passes(priced: Tables, grid: Grid) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = Counter({kind.name: kind.count for kind in priced.kinds if grid.tp in priced.tps(kind.name)})
    total = sum(
        count * (priced.forward_ps(kind, grid.tp, grid.samples) + priced.backward_ps(kind, grid.tp, grid.samples))
        for kind, count in counts.items()
    )
    return np.asarray(total // counts.total(), dtype=np.int64)


def _ring_ps(scenario: Scenario, fabric: Fabric, grid: Grid, cuts: Sequence[int]) -> int:
    """The slowest ring that sums the gradients of a stage's layers, at the rate of the slowest link on it."""
    if grid.dp == 1:
        return 0
    slowest_ps = 0
    for s, (start, stop) in enumerate(pairwise(cuts)):
        held = set(range(start + 1, stop + 1)) | ({0} if s == 0 else set())
        held |= {scenario.model.layers + 1} if s == grid.pp - 1 else set()
        size = scenario.model.held_parameters(held) * scenario.gradient_dtype_bytes
        rate = ring_rate(fabric, [group[0] for group in grid.groups(s)])
        slowest_ps = max(slowest_ps, ring_ps(size, grid.dp, grid.tp, rate, latency_ps=0))
    return slowest_ps
