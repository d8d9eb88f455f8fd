"""Which runs stand on one line, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.scaling import lines_of, main
from xsim.errors import SpecError


def row(network: str, ranks: int, point: str, **other: object) -> dict[str, object]:
    return {
        "status": "ok",
        "network": network,
        "ranks": ranks,
        "point": point,
        "training_time_s": 1e-6,
        "wall_s": 0.5,
    } | other


def test_a_line_is_a_network_and_what_varies_with_it() -> None:
    rows = [
        row("flow", 16, "cluster.hosts.0.count=16, model.layers=1"),
        row("flow", 8, "cluster.hosts.0.count=8, model.layers=1"),
        row("packet", 8, "model.layers=1, network.payload_bytes=9000"),
        row("packet", 8, "model.layers=4, network.payload_bytes=9000"),
        row("packet", 16, "model.layers=4, network.payload_bytes=9000", status="failed"),
    ]

    lines = lines_of(rows)

    assert {name: list(line) for name, line in lines.items()} == {
        "flow": [8, 16],
        "packet, model.layers=1": [8],
        "packet, model.layers=4": [8],
    }
    assert lines["flow"][8] == {"training_time_s": pytest.approx(1), "wall_s": 0.5}


def test_two_runs_at_one_place_are_refused() -> None:
    message = r"folder = 'here': flow has two runs with 8 ranks \(batch=16\); name the folder of a grid with one run"

    with pytest.raises(SpecError, match=message):
        lines_of([row("flow", 8, "batch=8"), row("flow", 8, "batch=16")], Path("here"))


def test_a_folder_without_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: folder = '{tmp_path}': it holds no results")
