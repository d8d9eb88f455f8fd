"""What the judge says of sums in a switch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from xsim.errors import PlanError
from xsim.fabric.transfers import Rows, concatenate, line
from xsim.plan.comm import Collective
from xsim.plan.judge import verify_collective

Part = tuple[Rows, Sequence[Sequence[int]]]


class TestSwitch:
    """Vertex 9 sums or multicasts for ranks 0, 1 and 2, each of which has an element of 3."""

    def test_sums_are_fetched_and_spread(self) -> None:
        halves = concatenate([*up(), *fetch()], [range(3)])
        whole = concatenate([*up(), *fetch(), *put(), *spread()], [range(3)])

        verify_collective(halves, Collective("reduce_scatter", (0, 1, 2), range(3)))
        verify_collective(whole, Collective("all_reduce", (0, 1, 2), range(3)))

    def test_a_sum_is_given_but_once(self) -> None:
        assert refused_sum(up(), spread((0, 1, 2))) == (
            "row 4: Transfer(9, 1, span=range(0, 3)) reads a sum that the switch has given to another"
        )

    def test_a_sum_that_was_not_put_back_is_not_there(self) -> None:
        found = refused_sum(up(), fetch(), put()[:2], spread((5, 6, 7)))

        assert found == "row 8: Transfer(9, 0, span=range(0, 3)) reads a sum that the switch has given to another"

    def test_a_value_that_never_came(self) -> None:
        found = refused_sum(up()[:2], fetch((0, 1)), put(2), spread((5, 6, 7)))

        assert found == "at the end rank 0 has rank 2 not at all in element 0"

    def test_a_value_that_comes_at_any_time(self) -> None:
        again: Part = line(1, 9, range(1, 2), add=True), [()]

        assert "neither waits for the other" in refused_sum(up(), fetch(), put(), spread(), [again])

    def test_a_switch_cannot_overwrite(self) -> None:
        assert refused_sum([(line(0, 9, range(3)), [()])]) == (
            "row 0: Transfer(0, 9, span=range(0, 3)) overwrites what a switch has; it can only add"
        )

    def test_a_switch_has_nothing_of_its_own(self) -> None:
        assert "rank 9 does not hold element 0" in refused_sum([(line(9, 0, range(3)), [()])])


def up() -> list[Part]:
    return [(line(rank, 9, range(3), add=True), [()]) for rank in range(3)]


def fetch(waits: Sequence[int] = (0, 1, 2)) -> list[Part]:
    return [(line(9, rank, range(rank, rank + 1)), [waits]) for rank in range(3)]


def put(fetched: int = 3) -> list[Part]:
    return [(line(rank, 9, range(rank, rank + 1), add=True), [(fetched + rank,)]) for rank in range(3)]


def spread(waits: Sequence[int] = (6, 7, 8)) -> list[Part]:
    return [(line(9, rank, range(3)), [waits]) for rank in range(3)]


def refused_sum(*parts: Sequence[Part]) -> str:
    graph = concatenate([part for each in parts for part in each], [range(3)])
    with pytest.raises(PlanError) as caught:
        verify_collective(graph, Collective("all_reduce", (0, 1, 2), range(3)))
    return str(caught.value)
