from __future__ import annotations

import pytest

from runners.schedule import main


def test_a_schedule_is_drawn_with_what_it_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zb_h1", "2", "2"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "0 | F0 F1 .  I0 W0 I1 W1",
        "1 | .  F0 I0 F1 I1 W0 W1",
        "",
        "units of time: F 1, I 1, W 1; a dot is one of waiting",
        "activations kept at once, per stage: 2 2",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zb_h1", "0", "1"], "error: stages = 0: it is not positive; write 1 or more"),
        (["zb_h2", "2", "1"], "error: schedule = 'zb_h2': there is no such option; did you mean zb_h1? choose one of"),
        (["zb_h1", "2", "4", "2"], "error: chunks = 2: zb_h1 takes one chunk per stage, one range"),
        (["zb_h1", "two", "4"], "error: command line = "),
        (["gpipe", "4", "1" + "0" * 30], "error: stages x micro_batches x chunks = 4 x 1"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2

    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith(message)
    assert said.err.count("\n") == 1
