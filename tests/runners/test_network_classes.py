"""Orders of traffic classes, by what flows say of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.network import main
from tests.runners.replays import STAR


def test_an_order_of_one_class_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net").write_text(STAR)
    (tmp_path / "two.flows").write_text("1 0 2 4000 0 -1\n2 1 2 4000 0 -1\n")
    words = [f"topology={tmp_path / 'net'}", f"flows={tmp_path / 'two.flows'}", "network.class_order=strict"]

    assert main(words) == 2
    assert "network.class_order = 'strict': all packets are of one class; leave it out" in capsys.readouterr().err
    assert main([*words, "network.ack_priority=true"]) == 0, "acknowledgements are of another"


def test_pause_frames_that_nobody_sends_have_no_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net").write_text(STAR)
    (tmp_path / "two.flows").write_text("1 0 2 4000 0 -1\n")
    words = [f"topology={tmp_path / 'net'}", f"flows={tmp_path / 'two.flows'}", "network.flow_control=credit"]

    assert main([*words, "network.pfc_bytes=64"]) == 2
    assert "network.pfc_bytes = 64: with flow_control=credit nobody is paused" in capsys.readouterr().err
