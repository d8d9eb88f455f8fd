from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import disjoint_layouts
from xsim.plan.layout import Layout
from xsim.plan.shards import shard_layout


@given(disjoint_layouts(1, 5))
def test_shards_are_one_partition_inside_what_ranks_hold(many: tuple[Layout, ...]) -> None:
    cut = [replace(layout, replicated=False) for layout in many]
    shards = shard_layout(cut)

    assert sorted(shards.ranks) == sorted(rank for layout in cut for rank in layout.ranks)
    assert shards.size == cut[0].size
    assert all(any(layout.holds(rank, span) for layout in cut) for rank, span in shards.shards() if span)


def largest(degrees: tuple[int, ...]) -> Fraction:
    """The largest shard among evenly cut groups, as a part of the tensor."""
    size = 1200 * sum(degrees) * 240
    ranks = iter(range(sum(degrees)))
    layouts = [Layout.even(tuple(next(ranks) for _ in range(degree)), size) for degree in degrees]
    return Fraction(max(len(span) for _, span in shard_layout(layouts).shards()), size)


@pytest.mark.parametrize(
    "degrees", [(4, 4), (2, 2, 2), (3, 2), (6, 4), (1, 1), (16, 8, 8), (16, *(1,) * 8), (4, 3, 2, 1)]
)
def test_shards_of_even_cuts_are_even(degrees: tuple[int, ...]) -> None:
    """Also where eight groups of one rank fill the gaps of a group of sixteen."""
    assert largest(degrees) == Fraction(1, sum(degrees))


@pytest.mark.parametrize(("degrees", "part"), [((8, 1), Fraction(1, 8)), ((8, 4, 1), Fraction(1, 8))])
def test_where_one_stretch_each_is_not_enough_no_shard_is_larger_than_the_finest_cut(
    degrees: tuple[int, ...], part: Fraction
) -> None:
    """The single rank cannot take a ninth of all eight parts."""
    assert largest(degrees) <= part


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_shares_of_whole_copies_are_kept_exactly(shares: list[int]) -> None:
    """Groups of one rank each, which all hold everything."""
    layouts = [Layout((rank,), (0, 7 * sum(shares))) for rank in range(len(shares))]

    shards = shard_layout(layouts, {rank: Fraction(share) for rank, share in enumerate(shares)})

    assert {rank: len(span) for rank, span in shards.shards()} == {rank: 7 * each for rank, each in enumerate(shares)}


@given(disjoint_layouts(1, 5), st.lists(st.fractions(Fraction(1, 10), 10), min_size=40, max_size=40))
def test_with_any_shares_shards_stay_inside(many: tuple[Layout, ...], shares: list[Fraction]) -> None:
    cut = [replace(layout, replicated=False) for layout in many]
    shards = shard_layout(cut, dict(enumerate(shares)))

    assert sorted(shards.ranks) == sorted(rank for layout in cut for rank in layout.ranks)
    assert all(any(layout.holds(rank, span) for layout in cut) for rank, span in shards.shards() if span)


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (80_000, [20_000] * 4 + [5_000] * 4),
        (20_000, [5_000] * 4 + [20_000] * 4),
        (100_000 * 10 // 11, [22_728, 22_728, 22_727, 22_726, 2_273, 2_273, 2_273, 2_272]),
    ],
)
def test_unequal_parts_are_each_shared_evenly(cut: int, expected: list[int]) -> None:
    """Four groups, all cut 4:1, 1:4 or 10:1."""
    layouts = [Layout((2 * i, 2 * i + 1), (0, cut, 100_000)) for i in range(4)]

    assert [len(span) for _, span in shard_layout(layouts).shards()] == expected


@given(st.integers(1, 6), st.lists(st.integers(0, 1000), min_size=1, max_size=6).filter(any))
def test_shards_of_groups_cut_alike_are_the_least_possible(groups: int, parts: list[int]) -> None:
    """However unlike the parts are: those who hold a part, and nothing else, have to take it among them."""
    cuts = (0, *accumulate(parts))
    layouts = [Layout(tuple(range(i * len(parts), (i + 1) * len(parts))), cuts) for i in range(groups)]

    found: dict[int, list[int]] = {}
    for rank, span in shard_layout(layouts).shards():
        found.setdefault(rank % len(parts), []).append(len(span))

    for number, size in enumerate(parts):
        assert sum(found[number]) == size
        assert max(found[number]) <= -(-size // groups) + 1


def test_groups_that_are_cut_alike_share_each_part() -> None:
    shards = shard_layout((Layout.even((0, 1), 8), Layout.even((5, 4), 8)))

    assert list(shards.shards()) == [(0, range(2)), (5, range(2, 4)), (1, range(4, 6)), (4, range(6, 8))]
