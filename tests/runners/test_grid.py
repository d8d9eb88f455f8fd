from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cli import several
from runners.grid import Choice, Grid, check_rules, expand, grid_from_plain, narrow_extra, pin
from xsim.errors import SpecError

keys = st.sampled_from(["a", "b", "c", "d"])
values = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
axes = st.dictionaries(keys, values, min_size=1)


def checked(section: object) -> tuple[Choice, ...]:
    grid = grid_from_plain(section, several)
    check_rules(grid, grid)
    return expand(grid)


@given(axes)
def test_axes_give_their_product_in_order(axes: dict[str, tuple[int, ...]]) -> None:
    points = expand(Grid(axes=axes))

    assert len(points) == len({repr(point) for point in points})
    ranks = [tuple(axes[key].index(int(str(point[key]))) for key in axes) for point in points]
    assert ranks == sorted(ranks)
    total = 1
    for column in axes.values():
        total *= len(column)
    assert len(points) == total


@given(axes, keys, st.integers(0, 5))
def test_exclusion_drops_exactly_what_matches(axes: dict[str, tuple[int, ...]], key: str, value: int) -> None:
    if key not in axes or axes[key] == (value,):
        return
    everything = expand(Grid(axes=axes))

    left = expand(Grid(axes=axes, exclude=({key: (value,)},)))

    assert left == tuple(point for point in everything if point[key] != value)


@given(axes, keys, values)
def test_a_pinned_axis_has_the_pinned_values(
    axes: dict[str, tuple[int, ...]], key: str, pinned: tuple[int, ...]
) -> None:
    points = expand(pin(Grid(axes=axes), key, pinned))

    assert {point[key] for point in points} == set(pinned)
    assert all(set(point) == {*axes, key} for point in points)


def test_zipped_keys_advance_together() -> None:
    grid = grid_from_plain({"zip": [{"a": [1, 2, 3], "b": ["x", "y", "z"]}], "axes": {"c": "range(0,2)"}}, several)

    found = [(point["a"], point["b"], point["c"]) for point in expand(grid)]

    assert found == [(1, "x", 0), (1, "x", 1), (2, "y", 0), (2, "y", 1), (3, "z", 0), (3, "z", 1)]


def test_pinning_a_key_narrows_the_extra_points() -> None:
    """Those that have another value of it; one without the key gets it."""
    grid = Grid(axes={"a": (1, 2)}, include=({"a": 3, "b": 0}, {"a": 4, "b": 0}, {"b": 5}))

    assert expand(pin(grid, "a", (3,))) == ({"a": 3}, {"a": 3, "b": 0}, {"b": 5, "a": 3})
    assert expand(pin(grid, "c", (7, 8)))[-2:] == ({"b": 5, "c": 7}, {"b": 5, "c": 8})


def test_a_key_that_only_extra_points_have_narrows_them() -> None:
    grid = Grid(axes={"a": (1,)}, include=({"a": 2, "b": 0}, {"a": 2, "b": 1}, {"a": 3}))

    assert narrow_extra(grid, "b", 1).include == ({"a": 2, "b": 1}, {"a": 3})
    with pytest.raises(SpecError, match="b = 2: no extra point of the grid has it; choose among 0, 1, or write"):
        narrow_extra(grid, "b", 2)


def test_keys_inside_a_group_may_be_nested() -> None:
    nested = {"axes": {"model": {"seq_len": [1, 2]}, "network": {"congestion": {"gain": "range(0,2)"}}}}
    member = {"axes": {"network": {"congestion": [{"name": "dcqcn", "gain": 0.5}]}}}

    assert grid_from_plain(nested, several).axes == {"model.seq_len": (1, 2), "network.congestion.gain": (0, 1)}
    assert grid_from_plain(member, several).axes == {"network.congestion": ({"name": "dcqcn", "gain": 0.5},)}


def test_lists_in_an_extra_point_make_several() -> None:
    grid = grid_from_plain({"include": [{"a": [1, 2], "b": "range(0,2)", "c": "tor0 -> spine1"}]}, several)

    assert [tuple(point.values()) for point in expand(grid)] == [
        (a, b, "tor0 -> spine1") for a in (1, 2) for b in (0, 1)
    ]


def test_pinning_a_zipped_key_narrows_its_block() -> None:
    grid = Grid(axes={}, zipped=({"a": (1, 2, 1), "b": (7, 8, 9)},))

    assert [point["b"] for point in expand(pin(grid, "a", (1,)))] == [7, 9]
    with pytest.raises(SpecError, match=r"a = 3: the grid zips it with b; choose among 1, 2"):
        pin(grid, "a", (3,))


def test_a_single_value_needs_no_list() -> None:
    assert expand(grid_from_plain({"axes": {"a": "x", "b": 3}}, several)) == ({"a": "x", "b": 3},)


def test_extra_points_come_last_and_only_once() -> None:
    grid = Grid(axes={"a": (1, 2)}, include=({"a": 2}, {"a": 5, "b": 0}))

    assert expand(grid) == ({"a": 1}, {"a": 2}, {"a": 5, "b": 0})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "grid = 'no axes': it has no points"),
        ({"axes": {"a": [1]}, "exclude": [{"a": 1}]}, "grid = 'a: 1': it has no points"),
        ({"axs": {}}, "grid.axs = .*did you mean axes"),
        ({"axes": {"a": []}}, r"grid.axes.a = \[\]: it has no values"),
        ({"axes": [1]}, r"grid.axes = \[1\]: it is not a mapping"),
        ({"zip": [{"a": [1, 2], "b": [1]}]}, r"grid.zip\[0\] = 'a has 2, b has 1'"),
        ({"axes": {"a": [1]}, "zip": [{"a": [1]}]}, "it is an axis twice"),
        ({"axes": {"reshard": [1]}, "exclude": [{"reshad": 1}]}, r"grid.exclude\[0\].reshad = .*did you mean reshard"),
        ({"grid": {"axes": {"a": [1]}}}, r"grid.grid = .*begins with the line: # @package _global_"),
        ({"memory": "report", "axes": {"a": [1]}}, r"grid.memory = 'report': .*the line: # @package _global_"),
        (
            {"axes": {"a": ["one", "two"]}, "exclude": [{"a": "tow"}]},
            r"grid.exclude\[0\].a = 'tow': .*did you mean two",
        ),
        (
            {"zip": [{"a": ["x", "y"], "b": [1, 2]}], "axes": {"c": [1]}, "exclude": [{"a": "x", "b": 2, "c": 1}]},
            r"grid.exclude\[0\] = {'a': 'x', 'b': 2}: no point has these values; the grid zips a, b",
        ),
        ({"axes": {"model": {"seq_len": 1}, "model.seq_len": 2}}, "grid.axes.model.seq_len = 2: it stands here twice"),
        ({"include": [{"a": "range(0,400)", "b": "range(0,400)"}]}, r"grid.include\[0\] = .*more than 100000 points"),
        ({"axes": "a"}, "grid.axes = 'a': it is not a mapping"),
        ({"axes": {"a": "range(0"}}, r"'a=range\(0': it cannot be read"),
    ],
)
def test_a_wrong_grid_is_refused(section: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        checked(section)
