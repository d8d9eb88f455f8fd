"""The figure of memory over time, and what its command refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes

from analysis.memory import CAUSES, draw, main


def test_the_fullest_rank_of_each_kind_is_drawn_with_what_it_keeps_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[list[float], list[list[float]]]] = []
    stackplot = Axes.stackplot

    def noted(axes: Axes, x: np.ndarray, y: np.ndarray, **options: Any) -> object:
        drawn.append((x.tolist(), y.tolist()))
        return stackplot(axes, x, y, **options)

    monkeypatch.setattr(Axes, "stackplot", noted)
    ms = 10**9
    rows: dict[str, list[int]] = {"rank": [0, 0, 1, 1, 2, 2], "from_ps": [0, 3 * ms] * 3, "until_ps": [ms, 4 * ms] * 3}
    rows |= {f"{cause}_bytes": [10**9] * 6 for cause in CAUSES}
    rows |= {"activation_bytes": [ms, ms, 5 * ms, 4 * ms, ms, ms], "kept_bytes": [ms, 0, 3 * ms, 0, ms, 0]}
    pq.write_table(pa.table(rows), tmp_path / "memory.parquet")

    path = draw(tmp_path)

    assert path == tmp_path / "figures" / "memory.png"
    assert path.stat().st_size > 1000
    assert [times for times, _ in drawn] == [[0, 1, 3, 4]] * 2
    assert [levels[-1] for _, levels in drawn] == [[5, 3, 4, 0], [1, 1, 1, 0]]
    assert all(levels[:-1] == [[1] * 4] * (len(CAUSES) - 1) for _, levels in drawn)


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path), "--ranks", "0"]) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: folder = '{tmp_path}': it holds no memory.parquet; name a folder detail/KEY")
    assert second == "error: --ranks = 0: nothing would be drawn; write at least 1"
