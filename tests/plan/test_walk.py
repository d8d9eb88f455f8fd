"""Orders of stages, as text: ``F0 F1 B0 B1``."""

from __future__ import annotations

import pytest

from xsim.errors import PlanError, SpecError
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.walk import walk
from xsim.plan.workload import Action


def actions(text: str) -> list[Action]:
    return [Action(word[0], *map(int, word[1:].split("."))) for word in text.split()]


def text(order: tuple[Action, ...]) -> str:
    return " ".join(map(str, order))


def test_1f1b_reads_like_the_textbook() -> None:
    assert [text(OneFOneB().order(stage, stages=4, micro_batches=4)) for stage in range(4)] == [
        "F0 F1 F2 F3 B0 B1 B2 B3",
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ]


def test_1f1b_with_few_micro_batches() -> None:
    assert text(OneFOneB().order(0, stages=4, micro_batches=2)) == "F0 F1 B0 B1"


def test_1f1b_takes_one_chunk() -> None:
    with pytest.raises(SpecError) as caught:
        OneFOneB().order(0, stages=2, micro_batches=4, chunks=2)

    assert str(caught.value) == (
        "chunks = 2: one_f_one_b takes one chunk per stage; "
        "give each stage one range of layers, or choose schedule=gpipe"
    )


def test_gpipe_reads_like_the_textbook() -> None:
    assert text(GPipe().order(0, stages=4, micro_batches=3)) == "F0 F1 F2 B0 B1 B2"
    assert text(GPipe().order(0, stages=4, micro_batches=2, chunks=2)) == "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"


def test_1f1b_keeps_as_many_as_there_are_stages_from_here_on() -> None:
    orders = [OneFOneB().order(stage, 4, 8) for stage in range(4)]

    assert walk(orders, 8) == (4, 3, 2, 1)
    assert walk([GPipe().order(stage, 4, 8) for stage in range(4)], 8) == (8, 8, 8, 8)


def test_what_is_kept_is_the_most_at_once() -> None:
    assert walk([actions("F0 F1 B0 F2 F3 B1 B2 B3")], 4) == (3,)


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        (["F0 B0 F1"], "stage 0: B1 occurs 0 times; each action occurs once"),
        (["F0 F0 F1 B0 B1"], "stage 0: F0 occurs 2 times; each action occurs once"),
        (["F0 F1 B0 B1 B2"], "stage 0: B2 is not one of 2 micro-batches and 1 chunks"),
        (["B0 F0 F1 B1"], "deadlock: stage 0 waits at B0 for F0 of stage 0"),
        (
            ["F0 B0 F1 B1", "F1 F0 B0 B1"],
            "deadlock: stage 0 waits at B0 for B0 of stage 1; stage 1 waits at F1 for F1 of stage 0",
        ),
    ],
)
def test_what_is_wrong_is_named(orders: list[str], complaint: str) -> None:
    with pytest.raises(PlanError) as caught:
        walk([actions(order) for order in orders], 2)

    assert str(caught.value) == complaint
