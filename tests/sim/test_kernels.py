"""How kernels are compiled."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import xsim

ROOT = Path(xsim.__file__).parents[1]
KERNELS = ROOT / "xsim" / "sim" / "kernels"


def test_python_calls_no_part_of_a_kernel() -> None:
    """It has no way in for Python: a call would end the process."""
    parts = {f"xsim.sim.kernels.{file.stem}.{name}" for file in KERNELS.glob("*.py") for name in parts_of(file)}
    assert "xsim.sim.kernels.packet_clock.recycle" in parts
    called = {name for folder in ("xsim", "runners", "analysis", "tests") for name in kernels_used(ROOT / folder)}
    assert "xsim.sim.kernels.packet_clock.post" in called
    assert not parts & called


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
