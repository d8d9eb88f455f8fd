"""The search over groupings, on pipelines whose throughput is given by a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim.plan.search.grouping_search import GroupingSearch, Shortcuts
from xsim.plan.search.grouping_sums import device_rows, largest_sums, row_cuts
from xsim.plan.search.groupings import Composition, Grouping, groupings

NONE = Shortcuts(cache=False, skip=False, order=False, dynamic="none")


@dataclass
class Formula:
    """Pipelines that do what their devices do, less something for each beyond the first, and for unlike ones."""

    counts: Composition
    speeds: tuple[float, ...]
    memory_bytes: tuple[int, ...]
    lost: float
    sync_ps: int
    batch: int = 64
    layers: int = 8
    asked: list[Composition] = field(default_factory=list)

    def configured(self, pipeline: Composition) -> Composition:
        self.asked.append(pipeline)
        return pipeline

    def throughput(self, configured: Composition) -> float:
        """It never falls when a device is added or becomes better: the bounds of the search are exact."""
        each = sorted((s for s, n in zip(self.speeds, configured, strict=True) for _ in range(n)), reverse=True)
        return sum(speed * (1 - self.lost) ** i for i, speed in enumerate(each)) / 1e6

    def balanced(self, configured: Sequence[Composition]) -> tuple[int, Grouping] | None:
        """As if the batch could be divided at will, and then a sync."""
        rate = sum(self.throughput(own) for own in configured)
        return round(self.batch / rate) + self.sync_ps * (len(configured) - 1), tuple(configured)


formulas = st.integers(1, 3).flatmap(
    lambda kinds: st.builds(
        Formula,
        st.tuples(*(st.integers(1, 3) for _ in range(kinds))),
        st.tuples(*(st.sampled_from([1.0, 2.0, 2.5, 4.0]) for _ in range(kinds))),
        st.tuples(*(st.sampled_from([1, 2, 4]) for _ in range(kinds))),
        st.sampled_from([0.0, 0.05, 0.3, 0.6]),
        st.sampled_from([0, 10_000, 3_000_000]),
    )
)


@given(formulas, st.booleans(), st.booleans(), st.booleans())
def test_shortcuts_with_exact_bounds_change_no_result(problem: Formula, cache: bool, skip: bool, order: bool) -> None:
    plain = GroupingSearch(replace(problem, asked=[]), NONE).run()
    short = Shortcuts(cache=cache, skip=skip, alpha=0, order=order, dynamic="none")

    found = GroupingSearch(problem, short).run()

    assert found.iteration_ps == plain.iteration_ps
    assert found.balanced + found.skipped == plain.balanced
    if cache:
        assert len(problem.asked) == len(set(problem.asked)) == found.configured


@given(formulas)
def test_all_groupings_are_looked_at_if_none_is_skipped(problem: Formula) -> None:
    found = GroupingSearch(problem, NONE).run()

    every = [g for p in range(1, sum(problem.counts) + 1) for g in groupings(problem.counts, p)]
    assert found.balanced == len(every)
    assert found.configured == sum(map(len, every))
    assert found.iteration_ps == min((problem.balanced(g) or (0,))[0] for g in every)


def test_skipping_and_order_save_work() -> None:
    problem = Formula((4, 4), (4.0, 1.0), (2, 1), 0.2, 100_000)
    plain = GroupingSearch(problem, replace(NONE, cache=True)).run()
    skipping = GroupingSearch(problem, replace(NONE, cache=True, skip=True, alpha=0)).run()

    assert plain.balanced == 109
    assert skipping.skipped > 0
    assert skipping.iteration_ps == plain.iteration_ps


def test_a_small_alpha_skips_more_and_may_miss_the_best() -> None:
    problem = Formula((4, 4), (4.0, 1.0), (2, 1), 0.3, 0)
    skipped = [GroupingSearch(problem, Shortcuts(alpha=alpha, dynamic="none")).run().skipped for alpha in (0.5, 1.5, 4)]
    best = [
        GroupingSearch(problem, Shortcuts(alpha=alpha, dynamic="none")).run().iteration_ps for alpha in (0.5, 1.5, 4)
    ]

    assert skipped == sorted(skipped, reverse=True)
    assert skipped[0] > skipped[-1]
    assert best == sorted(best, reverse=True)


def test_orders_with_little_variance_come_first() -> None:
    """Equation 9: a large batch makes up for unlike pipelines, many layers for unlike stages."""
    batches, layers = (Formula((2, 2), (4.0, 1.0), (1, 1), 0.0, 0, batch=b, layers=n) for b, n in ((64, 8), (4, 80)))
    for problem in (batches, layers):
        GroupingSearch(problem, replace(NONE, order=True, cache=True)).run()

    assert batches.asked[:3] == [(2, 2), (2, 0), (0, 2)]
    assert layers.asked[:2] == [(2, 2), (1, 1)]


@pytest.mark.parametrize("dynamic", ["orders", "knapsack"])
def test_dynamic_programming_takes_over_when_nothing_is_skipped(dynamic: str) -> None:
    """A sum of throughputs that nothing disturbs is largest with a device to each pipeline."""
    problem = Formula((4, 4), (4.0, 1.0), (2, 1), 0.3, 0)

    found = GroupingSearch(problem, Shortcuts(skip=False, dynamic=dynamic)).run()

    assert found.dynamic
    assert found.balanced < 109
    assert found.grouping == ((1, 0),) * 4 + ((0, 1),) * 4


def test_more_groupings_than_can_be_listed_are_left_to_dynamic_programming() -> None:
    problem = Formula((12, 12), (4.0, 1.0), (2, 1), 0.3, 0)

    found = GroupingSearch(problem, Shortcuts()).run()

    assert found.dynamic
    assert found.skipped == 0
    assert len(found.grouping) == 24


@settings(max_examples=20)
@given(formulas)
def test_the_knapsack_has_the_largest_sum_of_every_number_of_pipelines(problem: Formula) -> None:
    found = list(largest_sums(problem.counts, problem.throughput))

    for pipelines, grouping in enumerate(found, start=1):
        sums = [sum(map(problem.throughput, each)) for each in groupings(problem.counts, pipelines)]
        assert sum(map(problem.throughput, grouping)) == pytest.approx(max(sums))


@given(formulas)
def test_rows_hold_all_devices_and_so_do_their_cuts(problem: Formula) -> None:
    for row in device_rows(problem.counts, problem.speeds, drawn=2):
        assert tuple(row.count(kind) for kind in range(len(problem.counts))) == problem.counts
        for grouping in row_cuts(row, len(problem.counts), problem.throughput):
            assert tuple(map(sum, zip(*grouping, strict=True))) == problem.counts
