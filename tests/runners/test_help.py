"""``--help`` tells what there is, and beside a member its options."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners import run
from runners.members import described
from xsim.families import names


@pytest.mark.parametrize("command", ["sweep", "run"])
def test_help_is_quick_and_lists_groups(command: str, tmp_path: Path) -> None:
    started = time.perf_counter()

    found = subprocess.run(
        [sys.executable, "-m", f"runners.{command}", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(run.__file__).parent.parent), "PATH": "/usr/bin:/bin"},
    )

    words = " ".join(found.stdout.split())
    for text in ("uniform: Equal stages", "FAMILY=NAME --help has the options", "deployment.zero=0"):
        assert text in words
    assert f"reshard: {', '.join(names('reshard'))}" in words
    assert time.perf_counter() - started < 5, "it takes 0.2 s on an idle machine"
    assert max(map(len, found.stdout.splitlines())) <= 100
    assert not list(tmp_path.iterdir())


def test_help_of_a_member_tells_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["planner=uniform", "network.congestion=none", "network=analytic", "--help"])

    told = capsys.readouterr().out
    assert told.startswith("planner=uniform: Equal stages and equal replicas")
    assert "\n  planner.tp=0: Tensor-parallel degree; 0 takes all devices of the smallest host.\n" in told
    assert "\n  planner.tp_overlap=false: Of the deployment, as they are.\n" in told
    assert "\n\nnetwork=analytic: " in told
    assert max(map(len, told.splitlines())) <= 100


def test_no_two_options_of_a_network_share_their_words() -> None:
    """One text for four numbers does not say which is which."""
    for each in described("network"):
        told = [text for text in each.meanings if text]
        assert len(told) == len(set(told)), each.name
