"""Iterations on the networks flow and packet, and their table in docs/packet_vs_flow.md."""

from __future__ import annotations

import io
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.agreement import main, show
from runners.cli import read_command
from runners.points import plan_sweep
from runners.store import row_of
from runners.worker import simulate
from xsim.errors import SpecError

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
QUICK = ("h100x4_a100x4_7b",)
PAGE = (Path(__file__).parents[2] / "docs" / "packet_vs_flow.md").read_text()


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Some runs of the commands of the page; in a soak run all."""
    flow = ["+grid=hetero_llama", "network=flow", "network.payload_bytes=0,9000"]
    commands = (flow, ["+grid=hetero_llama_packets"])
    points = [point for command in commands for point in plan_sweep(read_command(command, "")).points]
    quick = [point for point in points if point.labels["deployment"] in QUICK and point.labels["reshard"] != "alpacomm"]
    return tuple(row_of(point, simulate(point.config), worker=0, attempt=1) for point in (points if SOAK else quick))


def test_the_page_shows_what_its_commands_print() -> None:
    out = io.StringIO()
    show(rows(), out)

    printed = [line for line in out.getvalue().splitlines() if line.startswith("|")]
    on_page = [_cells(line) for line in PAGE.splitlines()]
    assert [line for line in printed if _cells(line) not in on_page and "---" not in line] == []
    assert len(printed) == 2 + len(rows()) // 3
    assert "python -m analysis.agreement outputs/hetero_llama outputs/hetero_llama_packets\n" in PAGE


def _cells(line: str) -> list[str]:
    """Of a row of a table, whose columns are as wide as what the table holds."""
    return [cell.strip() for cell in line.split("|")]


def test_iterations_agree_within_two_percent() -> None:
    """And within a tenth of a per cent if flow has packets too."""
    times: dict[tuple[str, str], dict[tuple[str, bool], float]] = {}
    for row in rows():
        stored = "payload_bytes=9000" in str(row["point"])
        times.setdefault((row["deployment"], row["reshard"]), {})[row["network"], stored] = row["training_time_s"]

    for own in times.values():
        packet_s = next(time_s for (network, _), time_s in own.items() if network == "packet")
        assert 0.98 < own["flow", False] / packet_s < 1
        assert own["flow", True] == pytest.approx(packet_s, rel=1e-3)


def test_what_only_one_network_has_is_left_out() -> None:
    out = io.StringIO()
    show([row for row in rows() if row["point"] != "network.payload_bytes=0"][1:], out)

    printed = [_cells(line) for line in out.getvalue().splitlines()[2:]]
    assert len(printed) == len(rows()) // 3 - 1
    assert {line[4] for line in printed} == {line[6] for line in printed} == {"-"}
    assert all(line[7].endswith("%") for line in printed)


def test_nothing_in_common_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SpecError, match="flow and packet have no run in common; name sweeps of the same deployments"):
        show([row for row in rows() if row["network"] == "flow"])

    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: folder = '{tmp_path}': it holds no results")
