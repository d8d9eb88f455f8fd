"""docs/adding_a_strategy.md does what it says: its file, put beside the others, is found, judged, run and swept."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import analysis
from tests.examples import scenario
from tests.paper.test_optimality import SITE, UNIT_PS, layouts
from xsim.errors import PlanError
from xsim.experiment import Experiment, run
from xsim.plan.reshard.lcm import Lcm

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding_a_strategy.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(ENTRY_POINTS,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(ERROR,) = re.findall(r"```text\nPlanError: (.*?)\n```", PAGE, re.DOTALL)
(SHELL,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line.split(" #")[0].strip() for line in SHELL.splitlines()]


def strategy(code: str = CODE) -> Any:
    """The strategy of the page, or of a variant of its code."""
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, "widest.py", "exec"), found)
    return found["Widest"]()


@pytest.fixture(scope="module", name="beside")
def _beside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process that finds the package of the page installed."""
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "my_strategies").mkdir()
    (folder / "my_strategies" / "__init__.py").touch()
    (folder / "my_strategies" / "widest.py").write_text(CODE)
    installed = folder / "my_strategies-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-strategies\nVersion: 1.0\n")
    group, *entries = ENTRY_POINTS.splitlines()
    name = re.fullmatch(r'\[project\.entry-points\."(.*)"\]', group)
    assert name is not None
    lines = [f"[{name[1]}]", *(entry.replace('"', "") for entry in entries)]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


def started(command: str, beside: dict[str, str], folder: Path) -> str:
    """What ``command`` prints when it is typed in ``folder``."""
    program, *words = shlex.split(command)
    words = ["-m", program, "-q", *words] if program == "pytest" else words
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=beside, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if "runners.run" in command])
def test_it_runs(command: str, beside: dict[str, str], tmp_path: Path) -> None:
    assert "bubble" in started(command, beside, tmp_path)


def test_it_is_swept(beside: dict[str, str], tmp_path: Path) -> None:
    (command,) = [command for command in COMMANDS if "runners.sweep" in command]

    shown = started(f"{command} tracking=none", beside, tmp_path)

    assert "sync overhead of lcm" in shown
    assert "against widest" in shown
    table = analysis.load(tmp_path / "outputs" / "hetero_llama")
    assert set(table["reshard"].to_pylist()) == {"lcm", "widest"}
    assert set(table["status"].to_pylist()) == {"ok"}


def test_it_passes_the_contract_of_all_strategies(beside: dict[str, str]) -> None:
    (command,) = [command for command in COMMANDS if command.startswith("pytest")]

    assert re.search(r"\d+ passed, \d+ deselected", started(command, beside, ROOT))


def test_every_command_of_the_page_is_tried() -> None:
    kinds = ("python -m runners.run", "python -m runners.sweep", "pytest tests/contracts")
    assert [command for command in COMMANDS if not command.startswith(kinds)] == []


def test_without_the_way_back_the_judge_refuses_it() -> None:
    """On the cluster of Figure 4, the default of every command."""
    back = "            flows += [Flow(root, rank, piece, stage=1) for rank in others]\n"
    assert back in CODE
    example = scenario("fig4", "llama2_7b", "fig4_7b")

    with pytest.raises(PlanError, match=f"^{re.escape(ERROR)}$"):
        run(Experiment(scenario=example, reshard=strategy(CODE.replace(back, "")), verify=True))


def test_it_meets_the_bound_of_8_4_and_2_ranks() -> None:
    many = layouts((8, 4, 2), 8)

    widest, lcm = (SITE.price(each.reduce(many, SITE)) / UNIT_PS for each in (strategy(), Lcm()))

    assert widest == pytest.approx(4, rel=0.05)
    assert lcm == pytest.approx(16 / 3, rel=0.001)
