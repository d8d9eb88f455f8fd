from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim.plan.search.groupings import (
    Composition,
    compositions,
    grouping_count,
    groupings,
    stage_sequence_count,
    stage_sequences,
)

counts = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple).filter(lambda c: 0 < sum(c) <= 5)


def multisets(counts: Composition, pipelines: int) -> set[tuple[Composition, ...]]:
    every = product(compositions(counts), repeat=pipelines)
    return {tuple(sorted(g, reverse=True)) for g in every if tuple(map(sum, zip(*g, strict=True))) == counts}


@given(counts, st.integers(1, 4))
def test_groupings_are_the_multisets(counts: Composition, pipelines: int) -> None:
    found = list(groupings(counts, pipelines))

    assert len(found) == len(set(found))
    assert set(found) == multisets(counts, pipelines)


@pytest.mark.parametrize(("each", "ways"), [(1, 2), (2, 9), (4, 109), (8, 8406)])
def test_groupings_of_two_types(each: int, ways: int) -> None:
    """Bipartite partitions, https://oeis.org/A002774."""
    assert sum(1 for p in range(1, 2 * each + 1) for _ in groupings((each, each), p)) == ways
    assert grouping_count((each, each)) == ways


def test_their_number_is_had_without_listing_them() -> None:
    assert grouping_count((16, 16)) == 12_130_780
    assert grouping_count((1, 1, 1)) == 5  # the partitions of a set of three


def test_the_example_of_the_paper() -> None:
    """Section 4.2.1: two of each type, from one pipeline to one for each device, none twice."""
    assert list(groupings((2, 2), 1)) == [((2, 2),)]
    assert list(groupings((2, 2), 2)) == [
        ((2, 1), (0, 1)),
        ((2, 0), (0, 2)),
        ((1, 2), (1, 0)),
        ((1, 1), (1, 1)),
    ]
    assert list(groupings((2, 2), 4)) == [((1, 0), (1, 0), (0, 1), (0, 1))]


@pytest.mark.parametrize(("each", "ways"), [(1, 3), (2, 26), (4, 2568)])
def test_stage_sequences_of_two_types(each: int, ways: int) -> None:
    assert sum(1 for s in range(1, 2 * each + 1) for _ in stage_sequences((each, each), s)) == ways
    assert stage_sequence_count((each, each)) == ways


def test_the_number_of_stage_sequences_is_had_without_listing_them() -> None:
    assert stage_sequence_count((8, 8)) == 34_013_312


@given(counts, st.integers(1, 4))
def test_stage_sequences_are_ordered_and_distinct(counts: Composition, stages: int) -> None:
    found = list(stage_sequences(counts, stages))

    assert all(a < b for a, b in pairwise(found))
    every = product(compositions(counts), repeat=stages)
    assert set(found) == {s for s in every if tuple(map(sum, zip(*s, strict=True))) == counts}
