from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.baselines import every_deal
from xsim.plan.search.deals import deals

COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any).map(tuple)


@given(COUNTS, st.integers(1, 4))
def test_all_deals_of_even_sizes_are_found(counts: tuple[int, ...], parts: int) -> None:
    found = list(deals(counts, parts, 10**6))

    assert len(set(found)) == len(found)
    assert every_deal(counts, parts) <= set(found)
    for deal in found:
        assert all(map(any, deal))
        assert tuple(map(sum, zip(*deal, strict=True))) == counts


def test_a_limit_keeps_the_plainest() -> None:
    assert list(deals((4, 4), 2, 2)) == [((4, 0), (0, 4)), ((2, 2), (2, 2))]
