"""Data-parallel groups of any holders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsim.plan.groups import Holder, dp_groups

LAYERS = st.tuples(st.integers(0, 20), st.integers(1, 20)).map(lambda pair: range(pair[0], pair[0] + pair[1]))


@st.composite
def holders(draw: st.DrawFn) -> tuple[Holder, ...]:
    """Up to six, on two ranks each."""
    return tuple(Holder((2 * i, 2 * i + 1), layers) for i, layers in enumerate(draw(st.lists(LAYERS, max_size=6))))


@given(many=holders())
def test_every_layer_is_in_the_group_of_all_who_hold_it(many: tuple[Holder, ...]) -> None:
    groups = dp_groups(many)
    for layer in range(41):
        holding = tuple(i for i, holder in enumerate(many) if layer in holder.layers)
        found = [group.members for group in groups if layer in group.layers]

        assert found == ([holding] if holding else [])


@given(many=holders())
def test_ranks_are_those_of_the_members(many: tuple[Holder, ...]) -> None:
    for group in dp_groups(many):
        assert group.ranks == tuple(rank for member in group.members for rank in many[member].ranks)


def test_segments_stay_apart_at_every_boundary() -> None:
    """Layer 3 is a boundary because a third holder ends there, though the first two go on."""
    many = (Holder((0,), range(1, 7)), Holder((1,), range(1, 7)), Holder((2,), range(1, 3)))

    assert [(group.layers, group.members) for group in dp_groups(many)] == [
        (range(1, 3), (0, 1, 2)),
        (range(3, 7), (0, 1)),
    ]


def test_a_gap_that_nobody_holds_has_no_group() -> None:
    assert [group.layers for group in dp_groups((Holder((0,), range(1, 3)), Holder((1,), range(5, 6))))] == [
        range(1, 3),
        range(5, 6),
    ]
