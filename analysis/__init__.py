"""Reads the tables that sweeps leave behind: ``load(folder)`` gives one row per run."""

from analysis.tables import load

__all__ = ["load"]
