"""A scenario as the search over groupings sees it: pipelines of whole units of devices, and plans of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xsim.errors import NoPlanError, SpecError
from xsim.plan.search.batch_balance import shared, sketched
from xsim.plan.search.contracts import Kind, Tables
from xsim.plan.search.groupings import Composition
from xsim.plan.search.pipeline_choice import Choices, PipelineChoice
from xsim.plan.search.price import price
from xsim.plan.search.shortage import Shortage, nothing_fits
from xsim.plan.search.stage_balance import StageBalance
from xsim.plan.search.stage_options import StageOptions
from xsim.plan.search.stage_passes import StagePasses
from xsim.plan.sketch import Sketch
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = ["EthProblem", "Search", "Units", "eth_problem", "speed", "units_of"]

PRICED = 4  # ways to share out a batch that are priced with the sums of gradients over all pipelines
FEW_UNITS, MOST_UNITS = 16, 32  # of all kinds, if the size of a unit is left open


@dataclass(frozen=True, slots=True)
class Units:
    """How finely devices are dealt out.

    Attributes:
        pipeline: Devices of one unit of which pipelines are made.
        stage: Devices of one unit of which stages are made; it divides ``pipeline``.
    """

    pipeline: int
    stage: int


def units_of(kinds: Sequence[Kind], pipeline: int, stage: int) -> Units:
    """``pipeline`` and ``stage`` devices; where that is 0, powers of two.

    A pipeline's unit leaves about 16 of them in all, and to no kind less than one, as far as 32 in all allow; a
    stage's is no more than the smallest host has, and leaves up to 32 of them in all.

    Raises:
        SpecError: A pipeline's unit has more devices than any kind, or a stage's does not divide it.
    """
    total = sum(kind.count for kind in kinds)
    few = min(_power_up(total / FEW_UNITS), _power_down(min(kind.count for kind in kinds)))
    own = pipeline or max(few, _power_up(total / MOST_UNITS))
    part = stage or math.gcd(own, _power_down(min(min(kind.hosts) for kind in kinds)))
    while not stage and part % 2 == 0 and total // (part // 2) <= MOST_UNITS:
        part //= 2
    most = max(kind.count for kind in kinds)
    if pipeline > most:
        raise SpecError(
            "planner.unit", pipeline, f"no kind has more than {most} devices", f"write {most} or less, or 0"
        )
    if own % part:
        fix = f"choose one of {', '.join(str(n) for n in range(1, own + 1) if own % n == 0)}"
        raise SpecError("planner.stage_unit", part, f"it does not divide a pipeline's unit of {own} devices", fix)
    return Units(own, part)


@dataclass(frozen=True, slots=True)
class Search:
    """What a planner says about how to search.

    Attributes:
        limit: Sequences of stages that are all tried, at most.
        budget: States to look at for each sequence and micro-batch; ``adaptive``: more for those of little variance.
        bound: Leave out sequences that cannot be best.
        starts: Sequences and micro-batches from which a pipeline is balanced; 0: all.
        most: States to look at in all; 0: no limit.
        rounds: How often shares and configurations follow one another.
        exact: Shares with the earliest end, instead of greedy ones.
        idle: Leave out pipelines without which the others are faster.
    """

    limit: int
    budget: int
    adaptive: bool
    bound: bool
    starts: int
    most: int
    rounds: int
    exact: bool
    recompute: bool
    idle: bool


def eth_problem(tables: Tables, search: Search, units: Units, *, name: str, sequence_parallel: bool) -> EthProblem:
    """That of all devices of the tables."""
    names = tuple(kind.name for kind in tables.kinds)
    balance = StageBalance(StageOptions(StagePasses(tables, names, search.recompute)))
    counts = tuple(kind.count // units.pipeline for kind in tables.kinds)
    choice = PipelineChoice(
        balance,
        tables.batch,
        units.stage,
        tuple(tables.capacity_bytes(kind) for kind in names),
        tuple(speed(tables, kind) for kind in names),
        tuple(count * units.pipeline for count in counts),
        search.limit,
        search.budget,
        search.adaptive,
        search.bound,
        search.starts,
        search.most,
    )
    return EthProblem(choice, counts, units.pipeline, search, sequence_parallel, name)


def _power_up(number: float) -> int:
    return 1 << max(0, math.ceil(number) - 1).bit_length()


def _power_down(number: int) -> int:
    return 1 << (number.bit_length() - 1)


def speed(tables: Tables, kind: str) -> float:
    """Transformer layers per second of one device with one sample."""
    both = tables.forward_ps(kind, 1, 1)[1] + tables.backward_ps(kind, 1, 1)[1]
    return PS_PER_S / float(both)


@dataclass(frozen=True, slots=True, eq=False)
class EthProblem:
    """As ``Pipelines`` of ``xsim.plan.search.grouping_search`` says.

    Attributes:
        counts: Units of each kind; devices that fill no unit idle.
        search: How shares and configurations follow one another, and whether pipelines may idle.
        name: Of the plans.
    """

    choice: PipelineChoice
    counts: Composition
    unit: int
    search: Search
    sequence_parallel: bool
    name: str

    @property
    def memory_bytes(self) -> tuple[int, ...]:
        return self.choice.memory_bytes

    @property
    def speeds(self) -> tuple[float, ...]:
        return self.choice.speeds

    @property
    def batch(self) -> int:
        return self.choice.batch

    @property
    def layers(self) -> int:
        return self.tables.layers

    @property
    def tables(self) -> Tables:
        """What plans are priced with."""
        return self.choice.balance.options.passes.tables

    def configured(self, pipeline: Composition) -> Choices:
        return self.choice.choices(tuple(count * self.unit for count in pipeline))

    def throughput(self, configured: Choices) -> float:
        return configured.throughput(self.batch)

    def balanced(self, configured: Sequence[Choices]) -> tuple[int, Sketch] | None:
        best = self._priced(configured)
        while best is not None and self.search.idle and len(configured) > 1:
            alike = {id(own): i for i, own in enumerate(configured)}
            fewer = [[*configured[:i], *configured[i + 1 :]] for i in alike.values()]
            each = [(found, own) for own in fewer if (found := self._priced(own)) is not None]
            found, configured = min(each, key=lambda one: one[0][0], default=(best, configured))
            if found[0] >= best[0]:
                break
            best = found
        return best

    def _priced(self, configured: Sequence[Choices]) -> tuple[int, Sketch] | None:
        """The best of a few ways to share out the batch among these pipelines; None if there is none."""
        found = []
        for shares in shared(configured, self.batch, rounds=self.search.rounds, exact=self.search.exact)[:PRICED]:
            options = self.choice.balance.options
            plan = sketched(shares, options, name=self.name, sequence_parallel=self.sequence_parallel)
            found.append((price(plan, self.tables).iteration_ps, plan))
        return min(found, key=lambda each: each[0], default=None)

    def nothing_fits(self, scenario: Scenario) -> NoPlanError:
        """What is missing, if no pipeline can train."""
        devices = [kind.device for kind in self.tables.kinds for _ in range(kind.count)]
        return nothing_fits(self.name, scenario, devices, Shortage(self._lacks_bytes()))

    def _lacks_bytes(self) -> int | None:
        """Of the nearest configuration, else the weights of the layers that nearly fit; None if pipelines do fit."""
        balance, tables = self.choice.balance, self.tables
        if balance.spent.configured:
            return None
        weights = tables.memory_column(tables.kinds[0].name, 1, 1, (True, True), 0)
        layers = min(balance.options.missing_layers, default=tables.layers)
        return balance.spent.lacked_bytes or layers * int(weights[-1] - weights[-2])
