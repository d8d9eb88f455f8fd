from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.dealing import dealt_greedily, earliest_end_ps, last_end_ps
from xsim.plan.search.batch_balance import greedy_shares
from xsim.plan.search.batches import Running, dealt, soonest

pipelines = st.builds(Running, st.integers(1, 90), st.integers(1, 30), st.integers(1, 4))


def samples(each: list[Running], shares: tuple[int, ...]) -> int:
    return sum(own.micro_batch * n for own, n in zip(each, shares, strict=True))


@given(st.lists(pipelines, min_size=1, max_size=5), st.integers(1, 200))
def test_greedy_shares_are_those_of_one_micro_batch_after_the_other(each: list[Running], batch: int) -> None:
    assert greedy_shares(each, batch) == dealt_greedily(each, batch)


@given(st.lists(pipelines, min_size=1, max_size=3), st.integers(1, 12))
def test_greedy_shares_never_end_earlier_than_can_be(each: list[Running], batch: int) -> None:
    found = greedy_shares(each, batch)

    assert samples(each, found) >= batch
    assert last_end_ps(each, found) >= earliest_end_ps(each, batch)


@given(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 30)), min_size=1, max_size=3), st.integers(1, 40))
def test_with_equal_micro_batches_greedy_shares_end_as_early(times: list[tuple[int, int]], batch: int) -> None:
    """At most one micro-batch later is asked; every micro-batch counts the same, so it is none."""
    each = [Running(fill, straggler, 4) for fill, straggler in times]

    assert last_end_ps(each, greedy_shares(each, batch)) == earliest_end_ps(each, batch)


def test_greedy_shares_of_unlike_micro_batches_may_end_later() -> None:
    each = [Running(10, 10, 3), Running(11, 11, 4)]

    assert greedy_shares(each, 4) == (1, 1)
    assert soonest(each, 8) is None
    assert soonest(each, 7) == (11, [{1: 1}, {1: 1}])


def test_a_pipeline_may_be_left_without_a_share() -> None:
    assert greedy_shares([Running(1, 1, 1), Running(100, 100, 1)], 5) == (5, 0)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_counts_that_sum_exactly_are_found_if_there_are_any(limits: list[tuple[int, int]], batch: int) -> None:
    sizes, most = zip(*limits, strict=True)

    found = dealt([Running(1, 1, size) for size in sizes], most, batch)

    any_is = any(
        sum(a * n for a, n in zip(sizes, counts, strict=True)) == batch
        for counts in product(*(range(1, n + 1) for n in most))
    )
    assert (found is not None) == any_is
    if found is not None:
        counts = [min(own) for own in found]
        assert [own.total() for own in found] == [1] * len(sizes)
        assert sum(a * n for a, n in zip(sizes, counts, strict=True)) == batch
        assert all(1 <= n <= limit for n, limit in zip(counts, most, strict=True))
