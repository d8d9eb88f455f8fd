"""The command that explains a finished run: its path sums to the iteration, its levers are what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import analysis
from runners import explain, run
from runners.explained import print_levers
from xsim.tables import Table

RING = ["cluster=nodes_100g", "model=gradient_1mb", "compute=free", "planner=uniform", "planner.tp=1", "batch=8"]
SHORT = [f"deployment.replicas.{replica}.micro_batches=2" for replica in range(2)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def explained(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], Path, str]:
    """The row of a run of ``words``, the folder of its explanation and what was printed."""
    assert run.main([*words, "out=here"]) == 0
    (row,) = analysis.load("here/run").to_pylist()
    capsys.readouterr()
    assert explain.main([f"key={row['key'][:6]}", "out=here"]) == 0
    return row, Path("here/run/detail") / row["key"], capsys.readouterr().out


def test_the_path_of_a_mixed_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    row, detail, shown = explained(["network=analytic", *SHORT], capsys)

    path = pq.read_table(detail / "critical_path.parquet").to_pylist()
    assert sum(each["end_ps"] - each["start_ps"] for each in path) == round(row["training_time_s"] * 10**12)
    assert {each["piece"] for each in path} == {"compute", "collective", "hand_over", "sync"}
    assert {each["held_up_ps"] for each in path} == {0}
    assert f"Critical path: {len(path)} pieces, " in shown
    assert [shown.count(f"\n{word}: ") for word in ("groups", "actions", "pieces", "held up")] == [1] * 4
    assert "-0.00%" not in shown
    assert (detail / "figures" / "critical_path.png").is_file()
    levers = pq.read_table(detail / "levers.parquet").to_pylist()
    best = [each["lever"] for each in levers[:3]]
    assert best[0] == "a100_40 x1.1"  # they compute most of what is on the path
    assert f"Largest levers: {best[0]} (" in shown
    assert {"scale_up links x2", "h100_80 x1.1", "reshard=hetauto", "schedule=zb_h1"} <= {x["lever"] for x in levers}
    assert sorted(each["makespan_ps"] for each in levers) == [each["makespan_ps"] for each in levers]


def test_a_lever_is_the_time_of_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """An all-reduce among eight hosts: wires twice as wide halve all but latencies, a faster device saves nothing."""
    row, detail, shown = explained([*RING, "topology=one_switch"], capsys)

    time_ps = round(row["training_time_s"] * 10**12)
    levers = {each["lever"]: each for each in pq.read_table(detail / "levers.parquet").to_pylist()}
    size_ps = 2 * 7 / 8 * 1e6 / (100e9 / 8) * 1e12
    assert levers["nic links x2"]["saved_ps"] == pytest.approx(size_ps / 2, rel=0.1)
    device = next(name for name in levers if name.endswith("x1.1"))
    assert abs(levers[device]["saved_ps"]) < time_ps / 1000
    assert "nic links x2" in shown.splitlines()[-4]


def test_what_a_lever_loses_is_no_negative_zero(capsys: pytest.CaptureFixture[str]) -> None:
    makespan_ps = 10**12
    table: Table = {
        "lever": ["reshard=star"],
        "makespan_ps": np.array([makespan_ps + 1]),
        "saved_ps": np.array([-1]),
        "fits": ["true"],
        "problem": [""],
    }

    print_levers(table, makespan_ps)

    assert "| reshard=star |            1.0000 |    0.0000 | 0.00% |" in capsys.readouterr().out


def test_what_cannot_be_found_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    keys: list[str] = []
    while len({key[0] for key in keys}) == len(keys):
        assert run.main([*RING, "network=analytic", f"seed={len(keys)}", "out=here"]) == 0
        keys = analysis.load("here/run", every_version=True)["key"].to_pylist()
    twice = next(key[0] for key in keys if sum(each[0] == key[0] for each in keys) > 1)
    lacking = next(text for text in ("ffff", "0000") if not any(key.startswith(text) for key in keys))
    capsys.readouterr()
    for words, message in (
        (["out=here"], "key = '': it is no beginning of a key"),
        (["key=xyz", "out=here"], "key = 'xyz': it is no beginning of a key"),
        ([f"key={lacking}", "out=here"], f"key = '{lacking}': no run under here has such a key"),
        ([f"key={twice}", "out=here"], "runs have such keys: "),
        (["key=1", "out=nowhere"], "out = 'nowhere': there is no such folder; write out=FOLDER, where your runs lie"),
        (["kye=1"], "command line = 'kye=1': it cannot be read"),
        (["key=1", "levers=some"], "levers = 'some': it is neither"),
    ):
        assert explain.main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
