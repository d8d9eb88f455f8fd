from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.dealing import earliest_end_ps
from xsim.plan.search.local_batches import Pace, exact_shares, fill_exactly, greedy_shares, last_end_ps, least_shares

paces = st.builds(Pace, st.integers(1, 4), st.integers(1, 30), st.integers(0, 60))
several = st.lists(paces, min_size=1, max_size=3)


def samples(paces: list[Pace], shares: tuple[int, ...]) -> int:
    return sum(pace.micro_batch * n for pace, n in zip(paces, shares, strict=True))


@given(several, st.integers(1, 12))
def test_no_shares_end_earlier(paces: list[Pace], batch: int) -> None:
    found = least_shares(paces, batch)

    assert samples(paces, found) >= batch
    assert last_end_ps(paces, found) == earliest_end_ps(paces, batch, exactly=False)


@given(several, st.integers(1, 12))
def test_no_shares_that_sum_to_the_batch_end_earlier(paces: list[Pace], batch: int) -> None:
    found = exact_shares(paces, batch)

    best = earliest_end_ps(paces, batch, exactly=True)
    assert (found is None) == (best is None)
    if found is not None:
        assert samples(paces, found) == batch
        assert min(found) >= 1
        assert last_end_ps(paces, found) == best


@given(st.lists(paces, min_size=1, max_size=6), st.integers(1, 400))
def test_greedy_shares_never_end_earlier(paces: list[Pace], batch: int) -> None:
    found = greedy_shares(paces, batch)

    assert samples(paces, found) >= batch
    assert last_end_ps(paces, found) >= last_end_ps(paces, least_shares(paces, batch))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=6), st.integers(1, 400))
def test_with_equal_micro_batches_greedy_shares_end_as_early(times: list[tuple[int, int]], samples: int) -> None:
    """At most one micro-batch later is asked; every micro-batch counts the same, so it is none."""
    paces = [Pace(4, step, fixed) for step, fixed in times]

    assert last_end_ps(paces, greedy_shares(paces, samples)) == last_end_ps(paces, least_shares(paces, samples))


def test_greedy_shares_of_unlike_micro_batches_may_end_later() -> None:
    paces = [Pace(3, 10, 0), Pace(4, 11, 0)]

    assert greedy_shares(paces, 4) == (1, 1)
    assert least_shares(paces, 4) == (1, 1)
    assert exact_shares(paces, 8) is None
    assert exact_shares(paces, 7) == (1, 1)


def test_a_pipeline_may_be_left_without_a_share() -> None:
    assert greedy_shares([Pace(1, 1, 0), Pace(1, 100, 0)], 5) == (5, 0)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_counts_that_sum_exactly_are_found_if_there_are_any(limits: list[tuple[int, int]], batch: int) -> None:
    sizes, most = zip(*limits, strict=True)

    found = fill_exactly(sizes, most, batch)

    any_is = any(
        sum(a * n for a, n in zip(sizes, counts, strict=True)) == batch
        for counts in product(*(range(1, n + 1) for n in most))
    )
    assert (found is not None) == any_is
    if found is not None:
        assert sum(a * n for a, n in zip(sizes, found, strict=True)) == batch
        assert all(1 <= n <= limit for n, limit in zip(found, most, strict=True))
