"""What is shipped is whole and current, and quick to start."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("xsim", "runners", "analysis", "conf")


def run(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def cpu_s(*words: str) -> float:
    """CPU seconds of a child process: wall time would measure what else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(*words, folder=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_is_light() -> None:
    assert cpu_s("-c", "import xsim") < 0.5


@pytest.mark.parametrize("command", ["runners.sweep", "runners.run", "runners.network", "runners.plan"])
def test_help_is_quick(command: str) -> None:
    assert cpu_s("-m", command, "--help") < 1


def test_generated_code_is_current(tmp_path: Path) -> None:
    if importlib.util.find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools is not installed")
    out = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]

    done = run("-m", "grpc_tools.protoc", "-I.", *out, "xsim/spec/xsim.proto", folder=ROOT)

    assert done.returncode == 0, done.stderr
    for name in ("xsim_pb2.py", "xsim_pb2.pyi"):
        made = (tmp_path / "xsim" / "spec" / name).read_text()
        assert made == (ROOT / "xsim" / "spec" / name).read_text(), "run make proto"


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    """Built from a copy, unpacked elsewhere, it finds its own configuration."""
    source, unpacked = tmp_path / "source", tmp_path / "unpacked"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)

    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(tmp_path)]
    built = run("-m", "pip", "wheel", *options, str(source), folder=tmp_path)

    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    for kind in ("*.yaml", "*.csv"):
        shipped = {path.relative_to(unpacked) for path in unpacked.rglob(kind)}
        assert shipped == {path.relative_to(ROOT) for p in PACKAGES for path in (ROOT / p).rglob(kind)}
    assert list(unpacked.glob("*.dist-info/entry_points.txt"))
    points = run("-m", "runners.sweep", "+grid=hetero_llama", "dry_run=true", folder=unpacked)
    assert points.returncode == 0, points.stderr
    assert "48 points" in points.stderr


def test_every_installed_command_exists_and_is_in_the_readme() -> None:
    commands = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    named = re.findall(r"`(xsim-[\w-]+)`", (ROOT / "README.md").read_text())

    assert sorted(named) == sorted(commands)
    for place in commands.values():
        module, _, name = place.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_each_target_of_make_stands_once_and_check_has_them_all() -> None:
    text = (ROOT / "Makefile").read_text()

    targets = re.findall(r"(?m)^([a-z]+):", text)
    assert len(targets) == len(set(targets))
    assert re.search(r"(?m)^check: lint types imports pytest ", text)
    phony = re.search(r"(?m)^\.PHONY: (.*)$", text)
    assert phony is not None
    assert set(phony[1].split()) == set(targets)
