"""Cuts in proportion to shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim.spec.shares import share_cuts

some_shares = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9)


@given(st.integers(0, 10**15), some_shares)
def test_every_cut_is_the_exact_proportion_rounded_down_unless_it_is_next_to_whole(
    size: int, shares: list[float]
) -> None:
    cuts = share_cuts(size, len(shares), shares)

    exact = [Fraction(str(share)) for share in shares]
    assert [cuts[0], cuts[-1]] == [0, size]
    for index in range(len(shares) + 1):
        wanted = size * sum(exact[:index]) / sum(exact)
        assert 0 <= wanted + Fraction(1, 10) - cuts[index] < 1 or len(set(shares)) == 1


@pytest.mark.parametrize("heads", range(3, 129, 3))
def test_thirds_may_be_rounded(heads: int) -> None:
    assert share_cuts(heads, 3, (0.333, 0.333, 0.334)) == share_cuts(heads, 3)


@given(st.integers(0, 10**9), st.integers(1, 9), st.floats(1e-3, 1e3))
def test_equal_shares_are_no_shares(size: int, parts: int, share: float) -> None:
    assert share_cuts(size, parts, [share] * parts) == share_cuts(size, parts)
