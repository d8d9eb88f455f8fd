"""What a replay tells while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import Mock

import pytest

import runners.network
import runners.warm
from tests.runners.replays import RING, STAR, replayed


def test_a_long_replay_of_packets_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runners.network, "QUIET_S", 0.0)
    monkeypatch.setattr(runners.network, "LINE_EVERY_S", 0.0)

    replayed(tmp_path, STAR, RING)

    lines = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "0 of 3 flows done, 1 us simulated"
    assert lines[-1] == "3 of 3 flows done, 38 us simulated"


def test_compiling_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, and only where something is compiled."""
    monkeypatch.setattr(runners.warm, "QUIET_S", 0.001)
    misses = {"before": 1}
    monkeypatch.setattr("xsim.sim.kernels.packet.run", Mock(stats=Mock(cache_misses=misses)))
    for found in ({}, {"signature": 1}, {}):
        with runners.warm.announced() as passed_s:
            misses |= found
            time.sleep(0.1)
        assert passed_s() >= 0.1

    assert capsys.readouterr().err == "compiling the packet simulation, once\n"


def test_waiting_for_another_process_that_compiles_is_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.warm.QUIET_S", 0.01)
    monkeypatch.setattr("xsim.sim.kernels.turn.waits", lambda: True)
    with runners.warm.announced() as passed_s:
        while passed_s() < 0.1:
            time.sleep(0.01)

    assert capsys.readouterr().err == "another process compiles simulations, which takes a while; waiting for it\n"


def test_a_long_replay_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runners.network, "QUIET_S", 0.0)
    monkeypatch.setattr(runners.network, "LINE_EVERY_S", 0.0)

    replayed(tmp_path, STAR, RING, "network=analytic")

    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == [
        f"{count} of 3 flows done" for count in (1, 2, 3)
    ]
