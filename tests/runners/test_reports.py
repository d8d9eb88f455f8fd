"""What others have reported of sweeps by Hydra does not happen here; each test names the report."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hydra
import pytest

import analysis
from runners import pool, sweep, worker
from runners.cli import read_command
from runners.points import Point, plan_sweep
from runners.pool import Finished, Limits
from runners.worker import simulate
from xsim.experiment import Experiment

ROOT = Path(__file__).parent.parent.parent
GRID = ["network=analytic", "tracking=none"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

Between = Callable[[int], None]


def in_process(monkeypatch: pytest.MonkeyPatch, between: Between = lambda ended: None) -> list[str]:
    """Simulate without Ray; ``between`` is told how many points have ended and are stored. Returns keys as they run."""
    keys: list[str] = []

    def finished(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for ended, point in enumerate(points):
            between(ended)
            keys.append(point.key)
            yield Finished(point, simulate(point.config), 0, 1)

    monkeypatch.setattr(pool, "finished", finished)
    return keys


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("analysis.compare.draw", lambda *_: None)  # figures take longer than all else
    return tmp_path


def test_hydra_1945_a_file_edited_meanwhile_changes_no_later_point(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder / "mine" / "model" / "mine.yaml"
    model.parent.mkdir(parents=True)
    model.write_text("defaults: [llama2_7b, _self_]\nname: mine\nseq_len: 2048\n")

    def edit(ended: int) -> None:
        if ended == 1:
            model.write_text(model.read_text().replace("2048", "512"))

    in_process(monkeypatch, edit)

    assert sweep.main([*GRID, "--config-dir", "mine", "model=mine", "reshard=lcm,hetauto,star"]) == 0

    configs = analysis.load("outputs/adhoc")["config_json"].to_pylist()
    assert len(configs) == 3
    assert all('"seq_len":2048' in config for config in configs)


def test_hydra_2284_and_3227_each_failure_is_stored_when_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []

    def fails(experiment: Experiment, *_watchers: object) -> None:
        raise RuntimeError(f"seed {experiment.seed} broke")

    def look(ended: int) -> None:
        stored.append(len(list(Path("outputs/adhoc/runs").rglob("[!.]*.arrow"))))
        assert ended == stored[-1]

    monkeypatch.setattr(worker, "run", fails)
    in_process(monkeypatch, look)

    assert sweep.main([*GRID, "seed=0,1,2"]) == 1

    assert stored == [0, 1, 2]
    for row in analysis.load("outputs/adhoc").to_pylist():
        assert (row["status"], row["reason"]) == ("failed", f"RuntimeError: seed {row['seed']} broke")
        assert row["details"].startswith("Traceback")
        assert row["details"].endswith(f"seed {row['seed']} broke\n")


def test_hydra_1407_and_3328_the_same_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(ended: int) -> None:
        if ended == 2:
            raise KeyboardInterrupt

    words = [*GRID, "reshard=lcm,hetauto,star,ntp"]
    first = in_process(monkeypatch, killed)
    assert sweep.main(words) == 130

    then = in_process(monkeypatch)
    assert sweep.main(words) == 0
    assert len(first) == len(then) == 2
    assert sorted(first + then) == sorted(analysis.load("outputs/adhoc")["key"].to_pylist())


def test_hydra_1324_a_config_is_composed_once_per_option_not_per_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand points and their time are in the benchmarks."""
    composed: list[Sequence[str]] = []
    real = hydra.compose

    def counting(*args: object, **named: object) -> object:
        composed.append(str(args))
        return real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(hydra, "compose", counting)
    counts = []
    for seeds in (2, 60):
        composed.clear()
        points = plan_sweep(read_command([*GRID, "reshard=lcm,hetauto", f"seed=range(0,{seeds})"], "")).points
        assert len(points) == 2 * seeds
        counts.append(len(composed))

    assert counts[0] == counts[1] < 12


def test_hydra_725_coupled_values_stay_coupled() -> None:
    coupled = "grid.zip=[{model.seq_len:[512,1024,2048],model.vocab:[32000,50000,64000]}]"

    points = plan_sweep(read_command([*GRID, coupled], "")).points

    assert [point.choice for point in points] == [
        f"model.seq_len={seq_len}, model.vocab={vocab}"
        for seq_len, vocab in ((512, 32000), (1024, 50000), (2048, 64000))
    ]


def test_hydra_283_keys_inside_a_group_that_varies() -> None:
    words = ["model=llama2_7b,gpt3_350m", "planner=uniform", "batch=60", "model.seq_len=512,1024", "model.vocab=50000"]

    found = [point.config["model"] for point in plan_sweep(read_command([*GRID, *words], "")).points]

    assert all(isinstance(model, dict) and model["vocab"] == 50000 for model in found)
    assert [(model["name"], model["seq_len"]) for model in found if isinstance(model, dict)] == [
        ("llama2_7b", 512),
        ("llama2_7b", 1024),
        ("gpt3_350m", 512),
        ("gpt3_350m", 1024),
    ]


def test_hydra_2381_settings_of_hydra_do_not_vary(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("hydra.verbose=true,false", "hydra.job.name=a", "+hydra.x=1,2", "hydra/launcher=joblib"):
        assert sweep.main([*GRID, word]) == 2
        assert capsys.readouterr().err.count("there is no such key; ") == 1


def test_hydra_3121_only_versions_of_python_that_hydra_runs_on_are_offered() -> None:
    lowest, highest = (
        tuple(map(int, bound.strip("<>=").split("."))) for bound in PROJECT["requires-python"].split(",")
    )

    assert (lowest, highest) == ((3, 11), (3, 14))
    assert lowest <= sys.version_info[:2] < highest


@pytest.mark.parametrize(
    "word",
    [
        "+cluster._target_=os.system",
        "+model.x={_target_:subprocess.Popen}",
        "+model.x=[{_target_:pandas.read_pickle}]",
        "+model._partial_=true",
        "+model.x={y:{_args_:[1]}}",
    ],
)
def test_hydra_3409_no_alias_of_code_is_run(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is instantiated: whatever the name is, the key is refused."""
    assert sweep.main([*GRID, "reshard=lcm,hetauto", word]) == 2

    error = capsys.readouterr().err
    assert "a config cannot name code to run" in error
    assert error.count("\n") == 1


def test_hydra_2407_and_2725_no_plugin_is_needed() -> None:
    assert [name for name in PROJECT["dependencies"] if "hydra" in name] == ["hydra-core==1.3.8"]


def test_hydra_2407_and_2725_a_broken_plugin_stops_no_sweep(folder: Path) -> None:
    """Hydra imports every plugin that it finds; none of them starts the jobs of a sweep."""
    plugin = folder / "plugins" / "hydra_plugins" / "launcher.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("import a_package_that_nobody_has\n")
    path = os.pathsep.join([str(folder / "plugins"), os.environ["PYTHONPATH"], str(ROOT)])
    words = [sys.executable, "-m", "runners.sweep", *GRID, "reshard=lcm,hetauto", "dry_run=true"]

    found = subprocess.run(
        words, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=True
    )

    assert len(found.stdout.splitlines()) == 2


def test_the_same_multirun_with_and_without_its_flag() -> None:
    words = [*GRID, "reshard=lcm,hetauto", "seed=range(0,2)"]

    with_flag, without = (plan_sweep(read_command(each, "")).points for each in ([*words, "-m"], words))

    assert [point.key for point in with_flag] == [point.key for point in without]
    assert len(without) == 4
