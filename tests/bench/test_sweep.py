"""Grids from the command line, with Ray's start and a cold cache of compiled code; and again, with nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import analysis

LIMIT_S, LIMIT_AGAIN_S, LIMIT_ALL_S = 60, 15, 90


def sweep(folder: Path, grid: str = "hetero_llama") -> None:
    """The sweep, its results and its compiled code under ``folder``."""
    subprocess.run(
        [sys.executable, "-m", "runners.sweep", f"+grid={grid}", f"out={folder / 'outputs'}"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "compiled")},
        capture_output=True,
        check=True,
    )


def test_hetero_llama_and_again(benchmark: Any, tmp_path: Path) -> None:
    benchmark.pedantic(sweep, args=(tmp_path,), rounds=1)

    assert len(analysis.load(tmp_path / "outputs" / "hetero_llama")) == 48
    assert benchmark.stats.stats.max < LIMIT_S


def test_hetero_llama_when_nothing_is_missing(benchmark: Any, tmp_path: Path) -> None:
    sweep(tmp_path)
    (row, *_) = sorted((tmp_path / "outputs" / "hetero_llama" / "runs").rglob("*.arrow"))
    written = row.stat().st_mtime_ns

    benchmark.pedantic(sweep, args=(tmp_path,), rounds=3)

    assert row.stat().st_mtime_ns == written
    assert benchmark.stats.stats.max < LIMIT_AGAIN_S


def test_every_strategy_on_eight_clusters(benchmark: Any, tmp_path: Path) -> None:
    benchmark.pedantic(sweep, args=(tmp_path, "reshard_all"), rounds=1)

    table = analysis.load(tmp_path / "outputs" / "reshard_all")
    assert table["status"].to_pylist() == ["ok"] * 8 * 10
    assert (len(set(table["cluster"].to_pylist())), len(set(table["reshard"].to_pylist()))) == (8, 10)
    assert benchmark.stats.stats.max < LIMIT_ALL_S
