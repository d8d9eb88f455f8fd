"""What is compiled on first use is compiled before the clock of a run starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from numba.core.dispatcher import Dispatcher
from runners.cli import read_command
from runners.points import plan_sweep
from runners.warm import warm
from runners.worker import simulate
from xsim.families import build

def compiled():
    kernels = [module for name, module in list(sys.modules.items()) if name.startswith("xsim.sim.kernels")]
    found = [(name, value) for module in kernels for name, value in vars(module).items()]
    return {name for name, value in found if isinstance(value, Dispatcher) and value.signatures}

for network in ("flow", "packet"):
    warm(build("network", {"name": network}))
before = compiled()
for command in (["+grid=packet_vs_flow"], ["+grid=hetero_llama", "network=flow", "cluster=fig4", "reshard=lcm"]):
    for point in plan_sweep(read_command(command, "")).points:
        if point.labels["network"] != "analytic" and point.batch in (8, 16, 24):
            assert simulate(point.config)["status"] == "ok"
print(*sorted(compiled() - before), len(before) > 3)
"""


def test_nothing_is_left_to_compile_when_a_run_begins() -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=root, env=environment, capture_output=True, text=True, check=False
    )

    assert done.stdout == "True\n", done.stdout + done.stderr
