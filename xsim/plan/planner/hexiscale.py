"""HexiScale: devices cut into pipelines by the links between them, and layers dealt out by memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
import numpy.typing as npt

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.search.contracts import Seat
from xsim.plan.search.emit import best_placed
from xsim.plan.search.graph_parts import equal_parts
from xsim.plan.search.grids import check_divides
from xsim.plan.search.price import price
from xsim.plan.search.shares import largest_remainder
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.tables import tables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.cluster import rank_devices, rank_hosts, rank_kinds
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Hexiscale"]

ALL_ORDERS = 6  # parts of a pipeline up to which every order of them is tried
SUBPARTS = (2, 0.2)  # one more than so many draws of so likely a success
Weights = npt.NDArray[np.float64]  # seconds a byte takes from rank to rank, N x N, symmetric


@dataclass(frozen=True, slots=True)
class Hexiscale:
    """Unlike pipelines of equal batches by two cuts of the graph of links (https://arxiv.org/abs/2409.01143 section 4).

    Devices are cut into pipelines so that the links between these are fast, each pipeline at random into one to three
    parts. In a part the devices of a kind and host form tensor groups, powers of two, the largest first; a group is a
    stage. Parts follow one another on the way with the fastest links. Layers are dealt out in proportion to the memory
    of stages; what does not fit is dropped, and the number of pipelines walks at random, one up or down, before the
    next try. The fastest of all by the closed form of an iteration wins.

    Attributes:
        pipelines: How many the walk starts with, a divisor of the batch; 0: about one per host.
        micro_batch: Samples of one micro-batch, a divisor too; 0: the best of 1, 2, 4 and 8.
        largest_tp: The largest tensor group; 0: all devices of a kind in a host.
        evaluations: How many cuts are tried.
        seed: Of all that is drawn.
    """

    pipelines: int = 0
    micro_batch: int = 0
    largest_tp: int = 0
    evaluations: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("pipelines", "micro_batch", "largest_tp"):
            at_least(self, name, 0)
        at_least(self, "evaluations", 1)
        at_most(self, "evaluations", MOST_TRIES)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        runs = StageRuns(tables(scenario, site))
        found = list(self._plans(scenario, site, runs))
        return best_placed(found, "hexiscale", scenario, site, runs.shortage)

    def _plans(self, scenario: Scenario, site: PlannerSite, runs: StageRuns) -> Iterator[tuple[int, Sketch]]:
        allowed = [n for n in range(1, scenario.cluster.ranks + 1) if scenario.batch % n == 0]
        if self.pipelines and self.pipelines not in allowed:
            problem = (
                f"so many pipelines on {scenario.cluster.ranks} devices do not get equal parts of {scenario.batch}"
            )
            fix = f"choose one of {', '.join(map(str, allowed))}, or 0"
            raise SpecError("planner.pipelines", self.pipelines, problem, fix)
        check_divides(self.micro_batch, scenario.batch)
        rng, weights = random.Random(self.seed), _weights(site, scenario.cluster.ranks)
        samples = (self.micro_batch,) if self.micro_batch else (1, 2, 4, 8)
        hosts = len(set(rank_hosts(scenario.cluster)))
        at = _nearest(allowed, self.pipelines or hosts)
        known = set[tuple[tuple[tuple[int, ...], ...], ...]]()
        for number in range(self.evaluations):
            site.progress(number, self.evaluations, "cuts")
            parts = equal_parts(weights, allowed[at], rng)
            pipelines = tuple(sorted(self._stages(scenario, weights, part, rng) for part in parts))
            for own in samples if pipelines not in known else ():
                sketch = _sketch(scenario, runs, pipelines, own)
                if sketch:
                    yield price(sketch, runs.tables).iteration_ps, sketch
            known.add(pipelines)
            at = min(max(at + rng.choice((-1, 1)), 0), len(allowed) - 1)

    def _stages(
        self, scenario: Scenario, weights: Weights, ranks: tuple[int, ...], rng: random.Random
    ) -> tuple[tuple[int, ...], ...]:
        """Tensor groups of a pipeline in the order of its stages."""
        draws, likely = SUBPARTS
        count = min(1 + sum(rng.random() < likely for _ in range(draws)), len(ranks))
        parts = equal_parts(weights[np.ix_(ranks, ranks)], count, rng)
        groups = [group for part in parts for group in self._groups(scenario, [ranks[number] for number in part])]
        return tuple(_shortest_way(weights, groups)[: scenario.model.layers])

    def _groups(self, scenario: Scenario, ranks: Sequence[int]) -> Iterator[tuple[int, ...]]:
        kinds, hosts = rank_kinds(scenario.cluster), rank_hosts(scenario.cluster)
        places: dict[tuple[int, str], list[int]] = {}
        for rank in ranks:
            places.setdefault((hosts[rank], kinds[rank]), []).append(rank)
        most = min(self.largest_tp or scenario.model.heads, scenario.model.heads)
        for own in places.values():
            start = 0
            while start < len(own):
                size = 1 << min(len(own) - start, most).bit_length() - 1
                yield tuple(own[start : start + size])
                start += size


def _weights(site: PlannerSite, ranks: int) -> Weights:
    found = np.zeros((ranks, ranks))
    for a in range(ranks):
        for b in range(a):
            found[a, b] = found[b, a] = 1 / site.fabric.path_bandwidth_bytes_per_s(a, b)
    return found


def _nearest(allowed: Sequence[int], number: int) -> int:
    return min(range(len(allowed)), key=lambda at: abs(allowed[at] - number))


def _shortest_way(weights: Weights, groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All groups, each once, on the way with the fastest links: of all ways if they are few, else the nearest next."""

    def hop(a: tuple[int, ...], b: tuple[int, ...]) -> float:
        return float(weights[np.ix_(a, b)].min())

    def length(way: Iterable[tuple[int, ...]]) -> float:
        return sum((hop(a, b) for a, b in pairwise(way)), 0.0)

    if len(groups) <= ALL_ORDERS:
        return list(min(permutations(groups), key=length))
    way, left = [groups[0]], groups[1:]
    while left:
        way.append(min(left, key=lambda group: hop(way[-1], group)))
        left.remove(way[-1])
    return way


def _sketch(
    scenario: Scenario, runs: StageRuns, pipelines: Sequence[Sequence[tuple[int, ...]]], samples: int
) -> Sketch | None:
    """Equal batches, layers in proportion to memory; None if the batch cannot be shared or memory lacks."""
    micro_batches, rest = divmod(scenario.batch, len(pipelines) * samples)
    if rest:
        return None
    devices, names, found = rank_devices(scenario.cluster), rank_kinds(scenario.cluster), []
    for groups in pipelines:
        kinds = [names[group[0]] for group in groups]
        memory = [devices[group[0]].memory_bytes * len(group) for group in groups]
        spare = scenario.model.layers - len(groups)
        layers = [1 + more for more in largest_remainder(spare, memory)]
        stages, start = [], 1
        for s, (kind, group, held) in enumerate(zip(kinds, groups, layers, strict=True)):
            ends = (s == 0, s == len(groups) - 1)
            flying = runs.tables.in_flight(s, len(groups), micro_batches)
            seat = Seat(kind, len(group), samples)
            if not runs.holds(seat, ends, flying, held):
                return None
            stages.append(SketchStage(range(start, start + held), (Copies(kind, len(group), ranks=(group,)),)))
            start += held
        found.append(Pipeline(tuple(stages), samples, micro_batches))
    return Sketch(tuple(found))
