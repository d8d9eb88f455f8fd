"""A grid of ten thousand points: all are resolved, previewed and listed, in time that its user waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

POINTS = 48 * 209
LIMIT_CPU_S, LIMIT_BYTES = 30, 400e6


def listed(folder: Path) -> tuple[int, float, int]:
    """Points of a dry run; CPU seconds and bytes at most that it took."""
    words = ["-m", "runners.sweep", "+grid=hetero_llama", "seed=range(0,209)", "dry_run=true"]
    process = subprocess.Popen([sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    lines = process.stdout.read().count(b"\n")
    process.stdout.close()
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0
    return lines, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def test_ten_thousand_points(benchmark: Any, tmp_path: Path) -> None:
    lines, cpu_s, most_bytes = benchmark.pedantic(listed, args=(tmp_path,), rounds=1)

    assert lines == POINTS
    assert cpu_s < LIMIT_CPU_S
    assert most_bytes < LIMIT_BYTES
