"""How kernels are compiled."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import xsim

ROOT = Path(xsim.__file__).parents[1]
KERNELS = ROOT / "xsim" / "sim" / "kernels"
PATIENCE_S = 60.0

TOY = """
import pathlib, sys, time
from numba.core import event
from xsim.sim.kernels.jit import kernel, part

class Slow(event.Listener):
    def on_start(self, _):
        pathlib.Path(sys.argv[1]).touch()
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
    def on_end(self, _):
        pass

@part
def inner(number):
    return number + 1

@kernel
def toy(number):
    return inner(number) + 1

event.register("numba:compile", Slow())
assert toy(1) == 3
print(*(sum(counts.values()) for counts in (toy.stats.cache_misses, toy.stats.cache_hits)))
"""


def test_python_calls_no_part_of_a_kernel() -> None:
    """It has no way in for Python: a call would end the process."""
    parts = {f"xsim.sim.kernels.{file.stem}.{name}" for file in KERNELS.glob("*.py") for name in parts_of(file)}
    assert "xsim.sim.kernels.packet_clock.recycle" in parts
    called = {name for folder in ("xsim", "runners", "analysis", "tests") for name in kernels_used(ROOT / folder)}
    assert "xsim.sim.kernels.packet_clock.post" in called
    assert not parts & called


def test_processes_that_lack_the_same_code_compile_it_once(tmp_path: Path) -> None:
    first = started(tmp_path, "first")
    wait_for(tmp_path / "first")
    second = started(tmp_path, "second")
    wait_until_blocked(second)
    (tmp_path / "go").touch()

    assert first.communicate()[0].split() == ["1", "0"]
    assert second.communicate()[0].split() == ["0", "1"]
    assert not (tmp_path / "second").exists()


def test_a_process_that_was_killed_keeps_nobody_from_compiling(tmp_path: Path) -> None:
    first = started(tmp_path, "first")
    wait_for(tmp_path / "first")
    second = started(tmp_path, "second")
    wait_until_blocked(second)
    first.kill()
    first.communicate()
    (tmp_path / "go").touch()

    assert second.communicate()[0].split() == ["1", "0"]


def started(folder: Path, name: str) -> subprocess.Popen[str]:
    """A process that needs the toy kernel; it writes the file ``name`` when it begins to compile."""
    file = folder / "toy.py"
    if not file.exists():
        file.write_text(TOY)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "toy.py", name], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


def wait_for(file: Path) -> None:
    """Until it is there."""
    ends_s = time.monotonic() + PATIENCE_S
    while not file.exists():
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def wait_until_blocked(process: subprocess.Popen[str]) -> None:
    """Until it waits for the lock of a file that another process has."""
    ends_s = time.monotonic() + PATIENCE_S
    waiting = f"FLOCK  ADVISORY  WRITE {process.pid} "
    while not any("->" in line and waiting in line for line in Path("/proc/locks").read_text().splitlines()):
        assert process.poll() is None
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def parts_of(file: Path) -> Iterator[str]:
    """Names of the functions that ``file`` makes parts of kernels."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(mark, ast.Name) and mark.id in ("part", "rare_kernel") for mark in node.decorator_list
        ):
            yield node.name


def kernels_used(folder: Path) -> Iterator[str]:
    """What files below ``folder`` that are no kernels import from modules of kernels, in full."""
    for file in folder.rglob("*.py"):
        if file.parent == KERNELS:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xsim.sim.kernels"):
                for alias in node.names:
                    yield from attributes(f"{node.module}.{alias.name}")


def attributes(name: str) -> Iterator[str]:
    """``name`` itself, or all that is in it if it is a module."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        yield name
    else:
        yield from (f"{name}.{attribute}" for attribute in vars(module) if attribute.islower())
