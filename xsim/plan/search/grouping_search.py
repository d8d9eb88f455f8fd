"""Which devices make pipelines together: the search of ETH and what shortens it.

ETH (https://arxiv.org/abs/2610.22035, section 5) looks at groupings by ascending number of pipelines. A cache keeps
what pipelines of the same devices do; groupings whose bound on throughput is below the best found are skipped; those
with little variance come first; and when too few are skipped, dynamic programming over devices in a row takes over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from xsim.plan.contracts import unheard
from xsim.plan.search.dominance import dominates
from xsim.plan.search.eth_formulas import order_cost
from xsim.plan.search.grouping_sums import device_rows, largest_sums, row_cuts
from xsim.plan.search.groupings import Composition, Grouping, grouping_count, groupings

__all__ = ["GroupingSearch", "Pipelines", "Searched", "Shortcuts"]

WINDOW = 32  # groupings over which the share of skipped ones is taken
MOST_GROUPINGS = 20_000  # more are not listed, but left to dynamic programming

C = TypeVar("C")
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Pipelines(Protocol[C, P_co]):
    """What the search is over: pipelines of a cluster's devices, in units."""

    @property
    def counts(self) -> Composition:
        """Units of each type."""

    @property
    def memory_bytes(self) -> Sequence[int]:
        """Of a device of each type."""

    @property
    def speeds(self) -> Sequence[float]:
        """Compute power of a device of each type, in any unit."""

    @property
    def batch(self) -> int:
        """Samples of an iteration."""

    @property
    def layers(self) -> int:
        """Of the model."""

    def configured(self, pipeline: Composition) -> C:
        """The work of the search: how such a pipeline is best configured."""

    def throughput(self, configured: C) -> float:
        """Samples per picosecond with the whole batch, 0 if it cannot train."""

    def balanced(self, configured: Sequence[C]) -> tuple[int, P_co] | None:
        """The iteration of these pipelines side by side in picoseconds, and the plan; None if there is none."""


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Which of them are taken.

    Attributes:
        cache: Keep the configuration of pipelines of the same devices.
        skip: Skip groupings whose bound is below the best.
        alpha: Of the approximate bound; 0 leaves the deterministic one alone.
        order: Look at groupings of low variance first (Equation 9).
        dynamic: ``none``, or how pipelines are put together when few groupings are skipped: ``orders``, devices in a
            row cut into pipelines (Equation 10) in several orders, or ``knapsack``, the best sum over all groupings.
        orders: How many orders are drawn besides those by type and alternating.
    """

    cache: bool = True
    skip: bool = True
    alpha: float = 1.5
    order: bool = True
    dynamic: str = "orders"
    orders: int = 2


@dataclass(slots=True)
class Searched(Generic[P]):
    """What came of it.

    Attributes:
        configured: Pipelines that were configured, ``balanced`` and ``skipped`` groupings.
    """

    iteration_ps: int = 0
    plan: P | None = None
    grouping: Grouping = ()
    configured: int = 0
    balanced: int = 0
    skipped: int = 0
    dynamic: bool = False


@dataclass(slots=True)
class GroupingSearch(Generic[C, P]):
    """One search; ``run`` it once.

    Attributes:
        told: Is told how many of the different pipelines have been configured, as a site is of progress.
    """

    pipelines: Pipelines[C, P]
    shortcuts: Shortcuts
    told: Callable[[int, int, str], None] = unheard
    found: Searched[P] = field(default_factory=Searched)
    _known: dict[Composition, C] = field(default_factory=dict)
    _throughput: dict[Composition, float] = field(default_factory=dict)
    _ceilings: dict[Composition, float] = field(default_factory=dict)

    def run(self) -> Searched[P]:
        """The best that is found; without a plan if nothing can train."""
        dynamic = self.shortcuts.dynamic != "none"
        listed = not dynamic or grouping_count(self.pipelines.counts) <= MOST_GROUPINGS
        for pipelines in range(1, sum(self.pipelines.counts) + 1) if listed else ():
            if self._look(self._ordered(pipelines), patient=not dynamic):
                listed = False
                break
        if not listed:
            self.found.dynamic = True
            for grouping in self._put_together():
                self._evaluate(grouping)
        return self.found

    def only(self, grouping: Grouping) -> Searched[P]:
        """What this grouping alone gives."""
        self._evaluate(grouping)
        return self.found

    def _look(self, listed: Iterable[Grouping], *, patient: bool) -> bool:
        """Look at groupings, until too few of the last ones were skipped unless ``patient``; True if so."""
        looked = skipped = 0
        for grouping in listed:
            looked += 1
            if self.shortcuts.skip and self._hopeless(grouping):
                self.found.skipped += 1
                skipped += 1
            else:
                self._evaluate(grouping)
            if looked == WINDOW:
                if skipped < WINDOW // 2 and not patient:
                    return True
                looked = skipped = 0
        return False

    def _ordered(self, pipelines: int) -> Iterable[Grouping]:
        listed = groupings(self.pipelines.counts, pipelines)
        return sorted(listed, key=self._cost) if self.shortcuts.order else listed

    def _cost(self, grouping: Grouping) -> float:
        """Equation 9."""
        rates = self.pipelines.speeds
        compute = [[r for r, n in zip(rates, pipeline, strict=True) for _ in range(n)] for pipeline in grouping]
        return order_cost(compute, self.pipelines.batch, self.pipelines.layers)

    def _evaluate(self, grouping: Grouping) -> None:
        best = self.pipelines.balanced([self._configured(pipeline) for pipeline in grouping])
        self.found.balanced += 1
        if best is not None and (self.found.plan is None or best[0] < self.found.iteration_ps):
            self.found.iteration_ps, self.found.plan = best
            self.found.grouping = grouping

    def _configured(self, pipeline: Composition) -> C:
        if self.shortcuts.cache and pipeline in self._known:
            return self._known[pipeline]
        found = self.pipelines.configured(pipeline)
        self.found.configured += 1
        if self.shortcuts.cache:
            every = math.prod(count + 1 for count in self.pipelines.counts) - 1
            self.told(self.found.configured, every, "pipelines of unlike devices")
            self._known[pipeline] = found
            self._throughput[pipeline] = self.pipelines.throughput(found)
        return found

    def _ceiling(self, pipeline: Composition) -> float:
        """The throughput of a pipeline that may leave some type idle, which its weakest devices can be better for."""
        if pipeline not in self._ceilings:
            kinds = [kind for kind, count in enumerate(pipeline) if count]
            without = [tuple(0 if k == kind else n for k, n in enumerate(pipeline)) for kind in kinds]
            for each in without if len(kinds) > 1 else ():
                self._configured(each)
            others = (self._ceiling(each) for each in without if len(kinds) > 1)
            self._ceilings[pipeline] = max((self._throughput[pipeline], *others))
        return self._ceilings[pipeline]

    def _hopeless(self, grouping: Grouping) -> bool:
        """Whether bounds on the throughputs of its pipelines sum to less than the best plan has."""
        if self.found.plan is None:
            return False
        needed = self.pipelines.batch / self.found.iteration_ps
        return sum(self._bound(pipeline) for pipeline in grouping) <= needed

    def _bound(self, pipeline: Composition) -> float:
        """The smaller of both bounds (section 5.2); what has been found, if it has been; else infinite."""
        if pipeline in self._throughput:
            return self._throughput[pipeline]
        memory, flops = self.pipelines.memory_bytes, self.pipelines.speeds
        stronger = [other for other in self._throughput if dominates(other, pipeline, memory, flops)]
        bounds = [self._ceiling(other) for other in stronger]
        if self.shortcuts.alpha:
            bounds.extend(self._scaled(pipeline))
        return min(bounds, default=float("inf"))

    def _scaled(self, pipeline: Composition) -> Iterator[float]:
        """The throughput of the most similar pipeline, by compute and memory, times alpha."""
        training = [other for other, rate in self._throughput.items() if rate]
        if training:
            near = min(training, key=lambda o: sum(abs(a - b) for a, b in zip(o, pipeline, strict=True)))
            ratio = 1.0
            for each in (self.pipelines.speeds, self.pipelines.memory_bytes):
                own, other = (sum(n * v for n, v in zip(c, each, strict=True)) for c in (pipeline, near))
                ratio *= own / other
            yield self._ceiling(near) * ratio * self.shortcuts.alpha

    def _put_together(self) -> Iterator[Grouping]:
        """Groupings with large sums of throughputs, each once, of few pipelines first."""
        counts, flops = self.pipelines.counts, self.pipelines.speeds
        found: dict[Grouping, None] = {}
        if self.shortcuts.dynamic == "knapsack":
            found.update(dict.fromkeys(largest_sums(counts, self._rate)))
        else:
            for row in device_rows(counts, flops, self.shortcuts.orders):
                found.update(dict.fromkeys(row_cuts(row, len(counts), self._rate)))
        yield from sorted(found, key=lambda grouping: (len(grouping), grouping))

    def _rate(self, pipeline: Composition) -> float:
        if pipeline in self._throughput:
            return self._throughput[pipeline]
        return self.pipelines.throughput(self._configured(pipeline))
