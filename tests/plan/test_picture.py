from __future__ import annotations

from tests.plan.test_walk import actions
from xsim.families import build
from xsim.plan.picture import picture


def drawn(schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> list[str]:
    member = build("schedule", {"name": schedule})
    return picture([member.order(s, stages, micro_batches, chunks) for s in range(stages)], chunks).splitlines()


def test_1f1b_is_drawn_like_the_textbook() -> None:
    assert drawn("one_f_one_b", 2, 3) == [
        "0 | F0 F1 .  .  B0--- F2 B1--- .  B2---",
        "1 | .  F0 B0--- F1 B1--- F2 B2--- .  .",
    ]


def test_halves_fill_what_1f1b_waits() -> None:
    assert drawn("zb_h1", 2, 3) == [
        "0 | F0 F1 .  I0 W0 F2 I1 W1 I2 W2",
        "1 | .  F0 I0 F1 I1 W0 F2 I2 W1 W2",
    ]


def test_chunks_are_drawn_with_their_number() -> None:
    assert drawn("interleaved", 2, 1, 2)[1] == "1 | .    F0-- .    F0.1 B0.1----- .    .    B0------- .    ."


def test_units_and_many_stages() -> None:
    orders = [actions("F0 B0")] * 11

    lines = picture(orders, units={"F": 2, "B": 1}).splitlines()

    assert lines[9] == " 9 |" + " . " * 18 + " F0--- .  .  .  B0" + (" . " * 9).rstrip()
    assert lines[10] == "10 |" + " . " * 20 + " F0--- B0" + (" . " * 10).rstrip()
