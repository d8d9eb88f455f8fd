"""Reads the tables that sweeps leave behind: ``load(folder)`` gives one row per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.tables import load

__all__ = ["load"]


def __getattr__(name: str) -> object:
    """Load Arrow when it is first used: the commands print their help without it."""
    if name != "load":
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    from analysis.tables import load

    return load
