"""Every Python process that finds this folder first on its path has its time accounts computed a second time, and
its packet networks looked at when they end.

That is how commands that a test starts, and their Ray actors, are checked like what a test runs itself: Python imports
a module of this name when it starts (https://docs.python.org/3/library/site.html). Nothing else is imported before the
process asks for ``xsim.experiment`` or the packets.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

LOG = "XSIM_CHECKED_LOG"  # a file: a line per experiment that was checked
FATES = "XSIM_FATES"  # a folder: simulations go wrong, see tests/faulty_worker.py


class _Watched(importlib.abc.Loader):
    """Loads a module, then puts the check in."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _CHECKS[module.__name__](module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _CHECKS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Watched(spec.loader)
        return spec


def _check_accounts(module: ModuleType) -> None:
    module.__dict__["account"] = _checked_account(module.__dict__["account"])


def _check_packets(module: ModuleType) -> None:
    instances, checker = module.__dict__["Instances"], _tests("packet_checker")
    instances.totals, instances._retire = checker.checked_totals, checker.checked_retire


def _spoil(module: ModuleType) -> None:
    _tests("faulty_worker").spoil(module)


_CHECKS = {"xsim.experiment": _check_accounts, "xsim.sim.packets.instances": _check_packets}
if FATES in os.environ:
    _CHECKS["runners.worker"] = _spoil


def _tests(name: str) -> ModuleType:
    """A module of the tests."""
    root = str(Path(__file__).parents[2])
    sys.path.insert(0, root)
    try:
        return importlib.import_module(f"tests.{name}")
    finally:
        sys.path.remove(root)


def _checked_account(account: Callable[..., Any]) -> Callable[..., Any]:
    checker = _tests("account_checker")

    def checked(workload: object, timeline: object) -> Any:
        found = checker.check_account(workload, timeline, account(workload, timeline))
        if LOG in os.environ:
            with open(os.environ[LOG], "a") as log:
                log.write(f"{os.getpid()} {len(found.ranks)}\n")
        return found

    return checked


sys.meta_path.insert(0, _Finder())
