"""The grid hetero_llama from the command line: 48 runs, Ray's start and a cold cache of compiled code; and again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import analysis

LIMIT_S, LIMIT_AGAIN_S = 60, 15


def sweep(folder: Path) -> None:
    """The sweep, its results and its compiled code under ``folder``."""
    subprocess.run(
        [sys.executable, "-m", "runners.sweep", "+grid=hetero_llama", f"out={folder / 'outputs'}"],
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
