from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.baselines import best_counts
from xsim.plan.search.shares import largest_remainder, least_maximum

SOME = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 4), st.integers(0, 12)), min_size=1)


@given(st.integers(0, 1000), st.lists(st.integers(0, 50), min_size=1).filter(any))
def test_parts_sum_up_and_are_nearest_to_proportion(total: int, weights: list[int]) -> None:
    parts = largest_remainder(total, weights)

    assert sum(parts) == total
    assert all(
        abs(part * sum(weights) - total * weight) < sum(weights) for part, weight in zip(parts, weights, strict=True)
    )


@given(st.integers(0, 14), SOME.map(lambda rows: rows[:4]))
def test_the_slowest_is_as_fast_as_any_counts_make_it(total: int, rows: list[tuple[int, int, int, int]]) -> None:
    each, least, most = [r[0] for r in rows], [r[1] for r in rows], [r[1] + r[2] for r in rows]
    fixed = [r[3] for r in rows]

    found = least_maximum(total, each, least, most, fixed)

    expected = best_counts(total, each, least, most, fixed)
    if found is None:
        assert expected is None
    else:
        assert sum(found) == total
        assert all(low <= count <= high for low, count, high in zip(least, found, most, strict=True))
        slowest = max((b + c * n for b, c, n in zip(fixed, each, found, strict=True) if n), default=0)
        assert slowest == expected
