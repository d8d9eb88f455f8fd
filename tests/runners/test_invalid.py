"""A combination that cannot be is a row that says why; what is wrong in itself ends the command."""

from __future__ import annotations

from pathlib import Path

import pytest

import analysis
from runners import pool, sweep
from runners.cli import read_command
from runners.points import Point, plan_sweep
from tests.runners.in_process import in_process
from xsim.errors import SpecError


def points(words: str) -> tuple[Point, ...]:
    return plan_sweep(read_command(words.split(), "")).points


def invalid(words: str) -> list[str]:
    return [str(point.contradiction) if point.contradiction else "" for point in points(words)]


def test_an_option_that_one_member_has_and_another_has_not() -> None:
    found = invalid("network=analytic,packet network.payload_bytes=1500,9000")

    assert [text.partition(";")[0] for text in found] == [
        "network.payload_bytes = 1500: network=analytic has no option payload_bytes",
        "network.payload_bytes = 9000: network=analytic has no option payload_bytes",
        "",
        "",
    ]
    assert invalid("network=flow,packet network.payload_bytes=9000")[1] == ""
    assert "gain" in invalid("network=packet network.congestion=none,dcqcn network.congestion.gain=0.5")[0]


def test_what_only_one_planner_needs() -> None:
    given, uniform = invalid("planner=given,uniform")

    assert given == ""
    assert uniform.startswith("batch = None: no deployment says how many samples to train")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("network=flow,analytic network.exact=true,false", "network=flow has no option exact"),
        ("reshard=lcm,hetauto model.seq_len=2048,-1", "model.seq_len = -1: "),
        ("reshard=lcm,hetauto seed=0,x", "seed = 'x': its type is str"),
        ("network=packet,flow network.pyload_bytes=1500", "has no option pyload_bytes; did you mean payload_bytes"),
        ("network=packet network.payload_bytes=1500,big", "network.payload_bytes = 'big': "),
    ],
)
def test_a_value_that_works_in_no_point_is_malformed(words: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        points(words)


def test_no_contradiction_hides_another_point() -> None:
    found = points("planner=uniform,given deployment.zero=0,1 batch=24")
    (plain, _) = points("planner=uniform,given batch=24")

    assert len({point.key for point in found}) == 4
    assert plain.contradiction is None
    assert plain.key not in {point.key for point in found}, "a row of the sound one would be taken for the other"


def test_rows_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures take longer than all else
    monkeypatch.setattr(pool, "finished", in_process)
    words = ["planner=given,uniform", "network=analytic,flow", "network.reuse=true", "tracking=none"]

    assert sweep.main(words) == 0, "they are answers"

    rows = analysis.load("outputs/adhoc").to_pylist()
    found = {(row["planner"], row["network"]): (row["status"], row["batch"]) for row in rows}
    assert found == {
        ("given", "analytic"): ("invalid", None),
        ("given", "flow"): ("ok", 24),
        ("uniform", "analytic"): ("invalid", None),
        ("uniform", "flow"): ("invalid", None),
    }
    assert all(row["reason"] and row["config_json"] for row in rows if row["status"] == "invalid")
    assert "invalid: network.reuse = True: network=analytic has no option reuse" in capsys.readouterr().out
    monkeypatch.setattr(pool, "finished", None)
    assert sweep.main(words) == 0, "nothing is left to do"
