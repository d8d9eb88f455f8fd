"""A sweep without Ray: its points are simulated where the test runs, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runners.points import Point
from runners.pool import Finished, Limits
from runners.worker import simulate

__all__ = ["in_process"]


def in_process(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
    """Stands in for ``runners.pool.finished``."""
    for point in points:
        yield Finished(point, simulate(point.config), 0, 1)
        yield None
