"""The check of every time account reaches the processes that a command starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_the_actors_of_a_sweep_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "checked"
    monkeypatch.setenv("XSIM_CHECKED_LOG", str(log))
    words = ["runners.sweep", "network=analytic", "reshard=lcm,hetauto,alpacomm", "tracking=none"]

    done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["10"] * 3
    assert "3 ok" in done.stdout + done.stderr


def test_a_wrong_account_fails_the_command(tmp_path: Path) -> None:
    wrong = (
        "import sys, xsim.account\n"
        "waited = xsim.account._waited_ps\n"
        "xsim.account._waited_ps = lambda *asked: waited(*asked) + 1\n"
        "from runners.run import main\n"
        "sys.exit(main(['network=analytic']))\n"
    )

    done = subprocess.run([sys.executable, "-c", wrong], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "the account says" in done.stdout + done.stderr


def test_a_packet_network_with_something_left_over_fails_the_command(tmp_path: Path) -> None:
    spoilt = (
        "from xsim.sim.kernels import packet_columns as k\n"
        "from tests.sim.traffic import point_to_point, star\n"
        "from xsim.sim.network.packet import Packet\n"
        "network = Packet().open(star(2), 0)\n"
        "network.release(network.submit(point_to_point((0, 1, 9))), 0, 0)\n"
        "network.advance(None)\n"
        "network.stats()\n"
        "network._instances._engine.links[0, k.BACKLOG] = 1\n"
        "network.stats()\n"
    )
    root = Path(__file__).parents[2]

    done = subprocess.run([sys.executable, "-c", spoilt], cwd=root, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "a buffer is not empty" in done.stderr
