"""The rows of measured runs that tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from runners.points import Point
from runners.published.rows import MIXED, RUNS, Row, read_rows
from runners.published.sources import read_sources, source_of
from runners.validate import OWN
from runners.worker import simulate

__all__ = ["MODELS", "ROWS", "SOURCES", "changed", "simulated"]


def rows_by_name() -> dict[str, Row]:
    return {row.name: row for row in read_rows([OWN / RUNS, OWN / MIXED])}


ROWS = rows_by_name()
SOURCES = {row.group: source_of(row.group, read_sources()[0]) for row in ROWS.values()}
MODELS = read_sources()[1]


def simulated(points: Iterator[Point]) -> dict[str, dict[str, Any]]:
    """What points give, as rows of a store."""
    found: dict[str, dict[str, Any]] = {}
    for point in points:
        if point.key not in found:
            outcome = simulate(point.config)
            told = {"key": point.key, "status": outcome["status"], "reason": outcome["reason"]}
            found[point.key] = {**told, "wall_s": outcome["wall_s"], **outcome["metrics"]}
    return found


def changed(name: str, **texts: str) -> Row:
    """A row with other cells."""
    row = ROWS[name]
    whole = {**row.whole, **{key: int(text) for key, text in texts.items() if text.isdecimal()}}
    whole = {key: count for key, count in whole.items() if texts.get(key, "x")}
    return replace(row, texts={**row.texts, **texts}, whole=whole)
