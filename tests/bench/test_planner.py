"""How long the search of planner=xsim takes on the common problem: CPU time of one core, and memory."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_sailor_tables import SECOND_PS, SPACE, common
from xsim.plan.search.hunt import Hunt

SIZES = [(32, 96, 4.881, 1.0), (80, 240, 2.385, 1.0), (128, 384, 1.764, 2.0), (512, 1536, 0.768, 10.0)]
MOST_MB = 200


@pytest.mark.parametrize(("fast", "slow", "seconds", "search_s"), SIZES)
def test_common_problem(
    benchmark: Any, reference_data: Path, fast: int, slow: int, seconds: float, search_s: float
) -> None:
    known = common(reference_data, fast, slow)
    Hunt(known, replace(SPACE, limit=10)).look()  # compiles
    spent: list[float] = []

    def search() -> Hunt:
        started = time.process_time()
        hunt = Hunt(known, SPACE)
        hunt.look()
        spent.append(time.process_time() - started)
        return hunt

    found = benchmark.pedantic(search, rounds=3)

    assert found.best is not None
    assert found.best.time_ps / SECOND_PS <= seconds
    assert min(spent) <= search_s
    benchmark.extra_info["iteration_s"] = found.best.time_ps / SECOND_PS
    benchmark.extra_info["cpu_s"] = min(spent)


def test_memory_of_the_search_alone(benchmark: Any, reference_data: Path) -> None:
    """A process that does nothing else."""
    program = (
        "from tests.bench.memory import peak_bytes\n"
        "from pathlib import Path\n"
        "from tests.interop.test_sailor_tables import SPACE, common\n"
        "from xsim.plan.search.hunt import Hunt\n"
        f"hunt = Hunt(common(Path({str(reference_data)!r}), 128, 384), SPACE)\n"
        "hunt.look()\n"
        "print(peak_bytes() // 10**6)\n"
    )

    def megabytes() -> int:
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return int(told.stdout)

    benchmark.extra_info["MB"] = benchmark.pedantic(megabytes, rounds=1, warmup_rounds=1)
    assert benchmark.extra_info["MB"] <= MOST_MB  # the first may compile
