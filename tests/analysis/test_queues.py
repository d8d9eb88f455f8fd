"""The figure of queues over time, and what its command refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes

from analysis.queues import draw, main

ROWS = {  # interval of 1 us; the first link is idle from 2 to 5 us
    "time_ps": [1_000_000, 1_000_000, 2_000_000, 2_000_000, 5_000_000, 6_000_000],
    "link": ["0->1", "1->2", "0->1", "1->2", "0->1", "0->1"],
    "queued_bytes": [5_000, 0, 0, 9_000, 1_000, 0],
    "sent_bytes": [10_000, 10_000, 0, 10_000, 5_000, 0],
    "rate_bytes_per_s": [1e10, 1e10, 0.0, 1e10, 5e9, 0.0],
}


def test_links_are_drawn_longest_queues_first_and_idle_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[str, list[float], list[float]]] = []
    step = Axes.step

    def noted(axes: Axes, x: np.ndarray, y: np.ndarray, **options: Any) -> object:
        drawn.append((str(options.get("label", "rate")), x.tolist(), y.tolist()))
        return step(axes, x, y, **options)

    monkeypatch.setattr(Axes, "step", noted)
    pq.write_table(pa.table(ROWS), tmp_path / "queues.parquet")

    path = draw(tmp_path)

    assert path == tmp_path / "figures" / "queues.png"
    assert path.stat().st_size > 1000
    assert drawn == [
        ("1->2", [0, 1, 2], [0, 0, 9]),
        ("rate", [0, 1, 2], [0, 80, 80]),
        ("0->1", [0, 1, 2, 4, 5, 6], [0, 5, 0, 0, 1, 0]),
        ("rate", [0, 1, 2, 4, 5, 6], [0, 80, 0, 0, 40, 0]),
    ]


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path), "--links", "0"]) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: folder = '{tmp_path}': it holds no queues.parquet; name a folder whose replay had")
    assert second == "error: --links = 0: nothing would be drawn; write at least 1"


def test_nothing_to_draw_is_an_empty_figure(tmp_path: Path) -> None:
    columns = {name: pa.array([], pa.string() if name == "link" else pa.int64()) for name in ROWS}
    pq.write_table(pa.table(columns), tmp_path / "queues.parquet")

    assert draw(tmp_path).is_file()
