"""Section 4.3, Algorithm 1: data-parallel groups by a sweep line over layer boundaries."""

from __future__ import annotations

from tests.paper.example import DG0, DG1, DG2, DG3
from xsim.plan.groups import dp_groups

GROUPS = dp_groups((DG0, DG1, DG2, DG3))


def test_layer_ranges_and_ranks_as_given() -> None:
    assert [(holder.layers, holder.ranks) for holder in (DG0, DG1, DG2, DG3)] == [
        (range(1, 21), (0, 1, 2)),
        (range(21, 33), (5, 6)),
        (range(1, 16), (3, 4)),
        (range(16, 33), (7, 8, 9)),
    ]


def test_boundaries_1_16_21_33() -> None:
    assert sorted({edge for g in GROUPS for edge in (g.layers.start, g.layers.stop)}) == [1, 16, 21, 33]


def test_three_segments_and_their_ranks() -> None:
    assert [(group.layers, group.ranks) for group in GROUPS] == [
        (range(1, 16), (0, 1, 2, 3, 4)),
        (range(16, 21), (0, 1, 2, 7, 8, 9)),
        (range(21, 33), (5, 6, 7, 8, 9)),
    ]


def test_each_segment_is_covered_by_two_device_groups() -> None:
    assert [group.members for group in GROUPS] == [(0, 2), (0, 3), (1, 3)]


def test_rank_0_is_in_two_groups_by_layer() -> None:
    assert [group.layers for group in GROUPS if 0 in group.ranks] == [range(1, 16), range(16, 21)]
