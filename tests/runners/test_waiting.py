"""Longest first, short ones together, one at a time after an accident."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runners.durations import Durations
from runners.needs import Need
from runners.points import Point
from runners.resolve import pack
from runners.waiting import MOST, SHORT_S, TOGETHER_S, Waiting
from xsim.families import FAMILIES


def point(key: str, network: str = "analytic", cluster: str = "fig4", hosts: int = 1) -> Point:
    labels = dict.fromkeys(("cluster", "model", "deployment", *FAMILIES), "some") | {
        "network": network,
        "cluster": cluster,
    }
    plain: dict[str, object] = {"cluster": {"hosts": [{"count": hosts, "devices": [{"count": 8}]}]}}
    return Point(
        labels=labels,
        choice="",
        config=plain,
        key=key,
        code="",
        packed=pack("{}"),
        seed=0,
        batch=1,
        contradiction=None,
    )


def everything(_need: Need) -> bool:
    return True


def order(waiting: Waiting, workers: int = 1) -> list[list[str]]:
    calls = []
    while (taken := waiting.take(everything, workers)) is not None:
        calls.append([task.point.key for task in taken[1]])
    return calls


def test_earlier_rows_tell_what_points_take_if_they_are_like_them() -> None:
    rows = [
        {"network": "flow", "cluster": "large", "model": "some", "wall_s": 9.0},
        {"network": "flow", "cluster": "small", "model": "some", "wall_s": 1.0},
    ]
    durations = Durations.of(rows)
    small, large, other = (point("key", "flow", cluster) for cluster in ("small", "large", "other"))

    assert durations.alike_s([small, small, large]) == (1.0 + 1.0 + 9.0) / 3
    assert durations.alike_s([small, other]) is None
    assert durations.alike_s([]) is None


def test_what_was_measured_orders_points_and_a_guess_the_rest() -> None:
    rows = [
        {"network": "flow", "cluster": "large", "model": "some", "wall_s": 9.0},
        {"network": "flow", "cluster": "small", "model": "some", "wall_s": 1.0},
    ]
    waiting = Waiting({}, Durations.of(rows))
    waiting.fill(
        [
            point("small", "flow", "small"),
            point("unknown cluster", "flow", "other"),
            point("large", "flow", "large"),
            point("packets of many", "packet", hosts=100),
            point("packets of few", "packet", hosts=1),
        ]
    )

    assert order(waiting) == [["packets of many"], ["large"], ["packets of few"], ["unknown cluster"], ["small"]]


def test_short_points_go_together_and_never_beside_one_that_had_an_accident() -> None:
    durations = Durations()
    waiting = Waiting({}, durations)
    waiting.fill([point(f"{number}") for number in range(200)])
    first = waiting.take(everything, 2)
    assert first is not None
    assert len(first[1]) == 1, "nobody knows yet that it is short"
    durations.add(first[1][0].point.labels, 0.005)

    taken = waiting.take(everything, 2)

    assert taken is not None
    assert len(taken[1]) == 199 // 4 + 1
    unlucky = taken[1][0]
    unlucky.single = True
    waiting.again([unlucky])
    again = waiting.take(everything, 2)
    assert again is not None
    assert again[1] == [unlucky]


@given(st.lists(st.floats(0.0001, 0.2), min_size=1, max_size=40), st.integers(1, 4))
def test_a_call_is_short_and_every_point_comes_once(walls: list[float], workers: int) -> None:
    durations = Durations()
    points = [point(f"{number}", cluster=f"c{number}") for number in range(len(walls))]
    for each, wall_s in zip(points, walls, strict=True):
        durations.add(each.labels, wall_s)
    waiting = Waiting({}, durations)
    waiting.fill(points)

    calls = order(waiting, workers)

    lasts = {each.key: wall_s for each, wall_s in zip(points, walls, strict=True)}
    assert sorted(key for call in calls for key in call) == sorted(lasts)
    for call in calls:
        assert len(call) == 1 or (len(call) <= MOST and sum(lasts[key] for key in call) <= TOGETHER_S * 1.001)
        assert len(call) == 1 or max(lasts[key] for key in call) < SHORT_S
    heads = [lasts[call[0]] for call in calls]
    assert heads == sorted(heads, reverse=True)


def test_what_does_not_fit_now_lets_the_next_kind_pass() -> None:
    waiting = Waiting({"packet": Need(cpus=2, memory_bytes=100)}, Durations())
    waiting.fill([point("long", "packet", hosts=9), point("short", "flow")])

    taken = waiting.take(lambda need: need.cpus == 1, 1)

    assert taken is not None
    assert [task.point.key for task in taken[1]] == ["short"]
    assert waiting.take(lambda need: need.cpus == 1, 1) is None
    assert order(waiting) == [["long"]]
