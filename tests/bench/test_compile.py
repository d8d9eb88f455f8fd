"""What the first use of each network compiles, in CPU seconds of a process with nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 30.0

PACKETS = """
import time
from runners.warm import warm, warm_packets
from xsim.families import build, names
from xsim.sim.kernels.packet_crowd import compiled_crowd
from xsim.sim.packets.settings import Settings

before_s = time.process_time()
warm(build("network", {"name": "packet"}))
for name in names("congestion"):
    warm_packets(Settings(congestion=build("congestion", {"name": name})))
compiled_crowd()
print(time.process_time() - before_s)
"""
FLOWS = """
import time
from runners.warm import warm
from xsim.families import build

before_s = time.process_time()
warm(build("network", {"name": "flow"}))
print(time.process_time() - before_s)
"""


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("script", [PACKETS, FLOWS], ids=["packets", "flows"])
def test_the_first_use(benchmark: Any, tmp_path: Path, script: str) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", script]

    took = benchmark.pedantic(lambda: subprocess.check_output(run, env=environment, text=True), rounds=1)
    again = subprocess.check_output(run, env=environment, text=True)
    benchmark.extra_info |= {"cpu_s": float(took), "again_s": float(again)}

    assert float(took) < LIMIT_S
    assert float(again) < LIMIT_S / 10, "it is kept on disk"
