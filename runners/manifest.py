"""What a sweep was asked for, and by which software on which machine: what a paper that uses its results must say."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import xsim
from analysis.secrets import shown, shown_words
from analysis.version import SCHEMA_VERSION
from runners.points import Plan

__all__ = ["PACKAGES", "git_state", "manifest", "sweep_of", "version_of"]

PACKAGES = ("xsim", "hydra-core", "mlflow", "numba", "numpy", "pyarrow", "ray", "scipy", "simpy")
GIT_S = 10.0


def manifest(plan: Plan, argv: Sequence[str], program: str = "sweep") -> dict[str, object]:
    """Everything needed to ask again: command, versions, state of the source, seeds, and the points by key and name.

    Args:
        program: Which of ``runners`` was started, with ``argv``.
    """
    settings = plan.settings
    return {
        "sweep": sweep_of(point.key for point in plan.points),
        "command": ["python", "-m", f"runners.{program}", *shown_words(argv)],
        "folder": str(Path.cwd()),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "code": plan.points[0].code,
        "schema_version": SCHEMA_VERSION,
        "git": git_state(Path(xsim.__file__).parent),
        "python": sys.version.split()[0],
        "versions": {name: version_of(name) for name in PACKAGES},
        "machine": {"host": socket.gethostname(), "system": platform.platform(), "cpus": len(os.sched_getaffinity(0))},
        "settings": {
            "num_workers": settings.num_workers,
            "timeout_s": settings.timeout_s,
            "retries": settings.retries,
            "tracking_uri": None if settings.tracking_uri is None else shown(settings.tracking_uri),
            "ray_address": settings.ray_address,
        },
        "seeds": sorted({point.seed for point in plan.points}),
        "points": [point.named for point in plan.points],
    }


def sweep_of(keys: Iterable[str]) -> str:
    """Identity of a sweep: the same points are the same sweep, whenever and in whatever order they run."""
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:16]


def git_state(folder: Path) -> Mapping[str, object] | None:
    """Commit of the repository that holds ``folder``, and which files differ from it; ``None`` outside of one."""
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    if commit is None or changed is None or _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return {"commit": commit.strip(), "changed": [line[3:] for line in changed.splitlines()]}


def version_of(package: str) -> str | None:
    """Of the installed ``package``, if it is."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *words: str) -> str | None:
    """What git says of the repository around ``folder``; ``None`` if it is none, or there is no git."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
