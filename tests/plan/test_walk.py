"""Orders of stages, as text: ``F0 F1 B0 B1``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim.errors import PlanError, SpecError
from xsim.plan.contracts import Schedule
from xsim.plan.schedule.eager_1f1b import EagerOneFOneB
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.interleaved import Interleaved
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
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
        "chunks = 2: one_f_one_b takes one chunk per stage, one range of layers; "
        "use one, or choose schedule=interleaved"
    )


def test_gpipe_reads_like_the_textbook() -> None:
    assert text(GPipe().order(0, stages=4, micro_batches=3)) == "F0 F1 F2 B0 B1 B2"
    assert text(GPipe().order(0, stages=4, micro_batches=2, chunks=2)) == "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"


def test_1f1b_keeps_as_many_as_there_are_stages_from_here_on() -> None:
    orders = [OneFOneB().order(stage, 4, 8) for stage in range(4)]

    assert walk(orders, 8) == (4, 3, 2, 1)
    assert walk([GPipe().order(stage, 4, 8) for stage in range(4)], 8) == (8, 8, 8, 8)


def test_eager_1f1b_reads_like_the_paper() -> None:
    assert [text(EagerOneFOneB().order(stage, stages=4, micro_batches=6)) for stage in range(4)] == [
        "F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5",
        "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]


def test_eager_1f1b_keeps_about_twice_as_many() -> None:
    assert walk([EagerOneFOneB().order(stage, 4, 12) for stage in range(4)], 12) == (7, 5, 3, 1)


def test_interleaved_reads_like_the_paper() -> None:
    """Narayanan et al. 2021, Figure 4 bottom: 4 stages of 2 chunks, 8 micro-batches."""
    first, *_, last = [text(Interleaved().order(stage, 4, 8, 2)) for stage in range(4)]

    assert first.startswith("F0 F1 F2 F3 F0.1 F1.1 F2.1 F3.1 F4 F5 F6 B0.1 F7 B1.1 F4.1 B2.1")
    assert last.startswith("F0 F1 F2 F3 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4 B0 F5 B1")


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_interleaved_keeps_a_little_more_than_1f1b(stages: int, chunks: int) -> None:
    """The first stage: p (1 + (p - 1) / (p v)) micro-batches (https://arxiv.org/abs/2205.05198 section 4.2.3)."""
    micro_batches = 4 * stages

    kept = walk([Interleaved().order(s, stages, micro_batches, chunks) for s in range(stages)], micro_batches, chunks)

    assert kept[0] == stages * chunks + stages - 1
    assert kept == tuple(kept[0] - 2 * s for s in range(stages))


def test_interleaved_without_a_rest_that_would_block() -> None:
    """Groups of 4 would leave one micro-batch alone, whose chunks then wait for the backward of the group before."""
    assert text(Interleaved().order(3, 4, 5, 3)).startswith("F0 F1 F2 F3 F4 F0.1 F1.1 F2.1 F3.1 F4.1 F0.2 B0.2")


def test_interleaved_with_one_chunk_is_1f1b() -> None:
    assert [Interleaved().order(stage, 4, 7) for stage in range(4)] == [OneFOneB().order(s, 4, 7) for s in range(4)]


def test_zb_h1_reads_like_the_paper() -> None:
    assert [text(ZbH1().order(stage, stages=4, micro_batches=5)) for stage in (0, 1, 3)] == [
        "F0 F1 F2 F3 I0 W0 F4 I1 W1 I2 W2 I3 W3 I4 W4",
        "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 I3 W2 I4 W3 W4",
        "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 W2 W3 W4",
    ]


@pytest.mark.parametrize("stages", range(1, 8))
def test_zb_h1_keeps_on_every_stage_what_1f1b_keeps_on_the_first(stages: int) -> None:
    assert walk([ZbH1().order(stage, stages, 12) for stage in range(stages)], 12) == (stages,) * stages


@given(st.integers(1, 12), st.integers(1, 30))
def test_in_flight_counts_as_published(stages: int, micro_batches: int) -> None:
    """GPipe: all; 1F1B, eager 1F1B, ZB-H1: as their docstrings cite, or all if there are fewer."""

    def kept(schedule: Schedule) -> tuple[int, ...]:
        return walk([schedule.order(stage, stages, micro_batches) for stage in range(stages)], micro_batches)

    def at_most(published: Iterable[int]) -> tuple[int, ...]:
        return tuple(min(count, micro_batches) for count in published)

    assert kept(GPipe()) == (micro_batches,) * stages
    assert kept(OneFOneB()) == at_most(stages - s for s in range(stages))
    assert kept(EagerOneFOneB()) == at_most(2 * (stages - s) - 1 for s in range(stages))
    assert kept(ZbH1()) == at_most([stages] * stages)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(2, 5))
def test_in_flight_counts_of_interleaved_as_published(stages: int, groups: int, chunks: int) -> None:
    """Megatron-LM's warm-up, 2 (p - s - 1) + (v - 1) p forwards, and the one of the first pair; in chunks."""
    micro_batches = groups * stages

    kept = walk([Interleaved().order(s, stages, micro_batches, chunks) for s in range(stages)], micro_batches, chunks)

    most = chunks * micro_batches
    assert kept == tuple(min(2 * (stages - s - 1) + (chunks - 1) * stages + 1, most) for s in range(stages))


def test_what_is_kept_is_the_most_at_once() -> None:
    assert walk([actions("F0 F1 B0 F2 F3 B1 B2 B3")], 4) == (3,)


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        (["F0 B0 F1"], "stage 0: B1 occurs 0 times; each action occurs once"),
        (["F0 F0 F1 B0 B1"], "stage 0: F0 occurs 2 times; each action occurs once"),
        (["F0 F1 B0 B1 B2"], "stage 0: B2 is not one of 2 micro-batches and 1 chunks"),
        (["F0 I0 F1 B1"], "stage 0: W0 occurs 0 times; each action occurs once"),
        (["F0 I0 W0 B0 F1 B1"], "stage 0: B0 occurs whole and in halves"),
        (["F0 W0 I0 F1 B1"], "deadlock: stage 0 waits at W0 for I0 of stage 0"),
        (
            ["F0 F1 B0 B1", "F0 I0 W0 I1 F1 W1"],
            "deadlock: stage 0 waits at B1 for I1 of stage 1; stage 1 waits at I1 for F1 of stage 1",
        ),
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


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        (
            ["F0 F1.1 B1.1", "F1.1 F0 B0 B1.1"],
            "stage 0: B0 occurs 0 times; each action occurs once",
        ),
        (
            ["F0 F0.1 B0.1 B0", "F0.1 F0 B0 B0.1"],
            "stage 0: F1.1 occurs 0 times; each action occurs once",
        ),
        (
            ["F0 F1.1 B1.1 B0 F0.1", "F1.1 F0 B0 B1.1"],
            "stage 0: F0.1 is not one of 2 micro-batches and 2 chunks, half of them in each direction",
        ),
        (
            ["F1.1 B1.1 F0 B0", "F0 B0 F1.1 B1.1"],
            "deadlock: stage 0 waits at F1.1 for F1.1 of stage 1; stage 1 waits at F0 for F0 of stage 0",
        ),
        (
            ["F0 F1.1 B1.1 B0"] * 3,
            "a bidirectional schedule of 3 stages: the one in the middle has no other to mirror",
        ),
    ],
)
def test_what_is_wrong_in_both_directions_is_named(orders: list[str], complaint: str) -> None:
    with pytest.raises(PlanError) as caught:
        walk([actions(order) for order in orders], 2)

    assert str(caught.value) == complaint


def test_both_directions_end() -> None:
    assert walk([actions("F0 F1.1 B1.1 I0 W0"), actions("F1.1 F0 B0 B1.1")], 2) == (2, 2)
