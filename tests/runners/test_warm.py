"""What is compiled on first use is compiled before the clock of a run starts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runners.cli import read_command
from runners.inputs import read
from runners.points import plan_single
from runners.worker import attempted
from xsim.plan.planner.uniform import Uniform

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


def test_a_network_is_warm_when_it_is_opened_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused before anything is simulated does not wait for compilers."""
    warmed: list[object] = []

    def warm(backend: object) -> float:
        warmed.append(backend)
        return 2.5

    monkeypatch.setattr("runners.warm.warm", warm)
    asked = read_command(["planner=uniform", "planner.tp=1", "planner.pp=5", "batch=8", "network=analytic"], "")
    config = plan_single(asked).points[0].config

    _, refused = attempted(lambda: replace(read(config).experiment(), planner=Uniform(tp=3)))
    assert (refused["status"], warmed) == ("invalid", [])
    _, outcome = attempted(lambda: read(dict(config, memory="report")).experiment())

    assert (outcome["status"], len(warmed)) == ("ok", 1)
    assert outcome["wall_s"] < 0, "it took 2.5 s, if one believes that"


def test_nothing_is_left_to_compile_when_a_run_begins() -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=root, env=environment, capture_output=True, text=True, check=False
    )

    assert done.stdout == "True\n", done.stdout + done.stderr
