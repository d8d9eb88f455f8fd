"""How long a simulation will take: what others like it took, else a guess that only orders them."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.points import Point

__all__ = ["Durations"]

KEPT = 31  # of each kind, the newest: enough for a median
GUESS_S: Mapping[str, float] = {"analytic": 0.001, "flow": 0.01, "packet": 1.0}  # for a rank
GUESS_OTHER_S = 0.1

Kind = tuple[str | None, ...]


@dataclass(slots=True)
class Durations:
    """Seconds by kind of simulation: first of the same network, cluster and model, then of the same network."""

    _known: defaultdict[Kind, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=KEPT)))

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Durations:
        """What ``rows``, with network, cluster, model and wall_s, say."""
        durations = cls()
        for row in rows:
            durations.add(row, row["wall_s"])
        return durations

    def add(self, labels: Mapping[str, str | None], wall_s: float) -> None:
        """One more simulation took ``wall_s``."""
        for kind in _kinds(labels):
            self._known[kind].append(wall_s)

    def measured_s(self, labels: Mapping[str, str | None]) -> float | None:
        """The median of the nearest kind that was simulated before; absent if none was."""
        for kind in _kinds(labels):
            if kind in self._known:
                return statistics.median(self._known[kind])
        return None

    def alike_s(self, points: Iterable[Point]) -> float | None:
        """The mean of what ``points`` take; absent if of one no other of the same cluster and model has run."""
        kinds = [_kinds(point.labels)[0] for point in points]
        if not kinds or any(kind not in self._known for kind in kinds):
            return None
        return statistics.fmean(statistics.median(self._known[kind]) for kind in kinds)

    def expected_s(self, point: Point) -> float:
        """As measured, else a guess by network and number of ranks."""
        measured = self.measured_s(point.labels)
        return guess_s(point) if measured is None else measured


def guess_s(point: Point) -> float:
    """A guess that is wrong by a lot, and still puts what is long before what is short."""
    return GUESS_S.get(str(point.labels.get("network")), GUESS_OTHER_S) * max(1, _ranks(point.config.get("cluster")))


def _kinds(labels: Mapping[str, str | None]) -> tuple[Kind, Kind]:
    network = labels.get("network")
    return (network, labels.get("cluster"), labels.get("model")), (network,)


def _ranks(cluster: object) -> int:
    """Devices of a plain cluster; 0 of one that is written otherwise."""
    hosts = cluster.get("hosts") if isinstance(cluster, Mapping) else None
    return sum(_count(host) * sum(map(_count, host.get("devices") or ())) for host in hosts or () if _is_map(host))


def _is_map(node: object) -> bool:
    return isinstance(node, Mapping)


def _count(node: object) -> int:
    count = node.get("count", 1) if isinstance(node, Mapping) else 1
    return count if isinstance(count, int) else 1
