"""A grid of ten thousand points: all are resolved, previewed and listed, in time that its user waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

POINTS = 48 * 209
LIMIT_CPU_S, LIMIT_BYTES = 30, 400e6


LIST = """
import sys, time
from runners.sweep import main
from tests.bench.memory import peak_bytes
code = main(["+grid=hetero_llama", "seed=range(0,209)", "dry_run=true", f"out={sys.argv[1]}"])
print(code, time.process_time(), peak_bytes(), file=sys.stderr)
"""


def listed(folder: Path) -> tuple[int, float, int]:
    """Points of a dry run; CPU seconds and bytes at most that it took."""
    done = subprocess.run([sys.executable, "-c", LIST, str(folder)], capture_output=True, text=True, check=True)
    code, cpu_s, most_bytes = done.stderr.splitlines()[-1].split()
    assert code == "0"
    return done.stdout.count("\n"), float(cpu_s), int(most_bytes)


def test_ten_thousand_points(benchmark: Any, tmp_path: Path) -> None:
    lines, cpu_s, most_bytes = benchmark.pedantic(listed, args=(tmp_path,), rounds=1)

    assert lines == POINTS
    assert cpu_s < LIMIT_CPU_S
    assert most_bytes < LIMIT_BYTES
