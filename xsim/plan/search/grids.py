"""Megatron-LM's grids: one tensor-, pipeline- and data-parallel degree for all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from xsim.errors import SpecError
from xsim.plan.search.contracts import Seat
from xsim.plan.sketch import Copies, SketchStage
from xsim.spec.cluster import rank_hosts, rank_kinds
from xsim.spec.scenario import Scenario

__all__ = ["Grid", "GridStage", "check_divides", "cut_into", "divisors", "grids", "powers_of_two"]


@dataclass(frozen=True, slots=True)
class GridStage:
    """A stage without its layers.

    Attributes:
        copies: Of each its device and ranks, in data-parallel order.
    """

    copies: tuple[tuple[str, tuple[int, ...]], ...]

    def seats(self, samples: int) -> tuple[Seat, ...]:
        """Its copies by kind, each with so many samples."""
        kinds = dict.fromkeys(kind for kind, _ in self.copies)
        tp = len(self.copies[0][1])
        return tuple(Seat(kind, tp, samples, sum(own == kind for own, _ in self.copies)) for kind in kinds)

    def sketched(self, layers: range) -> SketchStage:
        """With ``layers``, on these very ranks."""
        runs = groupby(self.copies, key=lambda each: each[0])
        copies = []
        for kind, run in runs:
            ranks = tuple(ranks for _, ranks in run)
            copies.append(Copies(kind, len(ranks[0]), len(ranks), ranks=ranks))
        return SketchStage(layers, tuple(copies))


@dataclass(frozen=True, slots=True)
class Grid:
    """Degrees over all ranks: rank ``(stage * dp + copy) * tp + i``, as Megatron-LM deals them out.

    Attributes:
        samples: Of a micro-batch that each copy takes.
    """

    tp: int
    pp: int
    dp: int
    samples: int
    micro_batches: int

    def groups(self, stage: int) -> list[tuple[int, ...]]:
        """Ranks of each copy of a stage."""
        firsts = [(stage * self.dp + copy) * self.tp for copy in range(self.dp)]
        return [tuple(range(first, first + self.tp)) for first in firsts]

    def stages(self, scenario: Scenario) -> tuple[GridStage, ...]:
        """All stages; empty if a tensor group would have unlike devices or span hosts."""
        kinds, hosts = rank_kinds(scenario.cluster), rank_hosts(scenario.cluster)
        found = []
        for stage in range(self.pp):
            groups = self.groups(stage)
            for ranks in groups:
                if len({(kinds[rank], hosts[rank]) for rank in ranks}) > 1:
                    return ()
            found.append(GridStage(tuple((kinds[ranks[0]], ranks) for ranks in groups)))
        return tuple(found)


def grids(scenario: Scenario, largest_tp: int, largest_samples: int, cp: int = 1) -> Iterator[Grid]:
    """All that use every rank and train the batch exactly, small degrees first.

    Args:
        largest_tp: 0: no limit but the smallest host and the model's heads.
        cp: Context ranks of a copy, each with ``tp`` ranks.
    """
    ranks, layers = scenario.cluster.ranks // cp, scenario.model.layers
    if scenario.cluster.ranks % cp:
        return
    host = min(host.size for host in scenario.cluster.hosts)
    most = min(largest_tp or host, host, scenario.model.heads)
    for tp in powers_of_two(most):
        for pp in divisors(ranks // tp) if ranks % tp == 0 else ():
            dp = ranks // (tp * pp)
            if pp > layers or scenario.batch % dp:
                continue
            for samples in powers_of_two(min(largest_samples, scenario.batch // dp)):
                if scenario.batch // dp % samples == 0:
                    yield Grid(tp, pp, dp, samples, scenario.batch // (dp * samples))


def cut_into(stages: Sequence[GridStage], cuts: Sequence[int]) -> tuple[SketchStage, ...]:
    """The stages with their layers, by cuts 0 ... L of the transformer layers."""
    spans = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
    return tuple(stage.sketched(layers) for stage, layers in zip(stages, spans, strict=True))


def check_divides(micro_batch: int, batch: int) -> None:
    """Refuse an option ``micro_batch``, unless it is 0, of which no number makes the batch.

    Raises:
        SpecError: It is no divisor.
    """
    if micro_batch and batch % micro_batch:
        problem = f"it does not divide the batch of {batch}"
        raise SpecError("planner.micro_batch", micro_batch, problem, "choose a divisor, or 0")


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4 ... up to ``most``."""
    return [1 << power for power in range(most.bit_length())]


def divisors(number: int) -> list[int]:
    """Ascending."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return [*small, *(number // each for each in reversed(small) if each * each != number)]
