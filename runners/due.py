"""Which points of a sweep are to run, why, and how long that may take: by the rows that its folder holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.version import CONFIG
from runners.brake import FAILURES
from runners.durations import Durations
from runners.points import Point
from runners.settings import Settings
from xsim.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["History", "chosen", "why"]

COLUMNS = ("key", "status", CONFIG, "wall_s", "network", "cluster", "model")
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class History:
    """What the rows of a folder tell about the points of a sweep.

    Attributes:
        known: Status by key.
        experiments: Digests of those that any version of the simulator ran.
        took_s: How long each experiment took that ended well, in the last version that ran it.
        durations: The same by kind.
    """

    known: Mapping[str, str] = field(default_factory=dict)
    experiments: frozenset[bytes] = frozenset()
    took_s: Mapping[bytes, float] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)

    @classmethod
    def of(cls, folder: Path) -> History:
        """That of the rows in ``folder``, which need not exist."""
        from analysis.stored import stored

        table = stored(folder, COLUMNS) if folder.is_dir() else None
        if table is None:
            return cls()
        rows = list(_digested(table))
        ended_well = [row for row in rows if row["status"] == "ok"]
        return cls(
            known={row["key"]: row["status"] for row in rows},
            experiments=frozenset(row[CONFIG] for row in rows),
            took_s={row[CONFIG]: row["wall_s"] for row in ended_well},
            durations=Durations.of(ended_well),
        )

    def expected_s(self, point: Point) -> float | None:
        """As long as the same experiment took before, else the median of its kind; absent if none ran."""
        same_s = self.took_s.get(_digest(point.config_json))
        return self.durations.measured_s(point.labels) if same_s is None else same_s


def _digested(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of ``table``, of their configs only the digest: those of many thousands would fill the memory."""
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield row | {CONFIG: _digest(row[CONFIG])}


def _digest(config_json: str) -> bytes:
    return hashlib.blake2b(config_json.encode(), digest_size=16).digest()


def chosen(points: Iterable[Point], only: Iterable[str]) -> list[Point]:
    """The points whose keys begin with one of ``only``; without any, all of them.

    Raises:
        SpecError: No key begins with one of them.
    """
    found, beginnings = list(points), tuple(only)
    for beginning in beginnings:
        if not any(point.key.startswith(beginning) for point in found):
            fix = "dry_run=true lists the points with the beginnings of their keys"
            raise SpecError("only", beginning, "no point of this sweep has such a key", fix)
    return [point for point in found if not beginnings or point.key.startswith(beginnings)]


def why(point: Point, history: History, settings: Settings) -> str:
    """The reason for which ``point`` is to run; empty if its row is there and stays."""
    status = history.known.get(point.key)
    if status is None:
        return "changed code" if _digest(point.config_json) in history.experiments else "missing"
    if settings.force:
        return f"forced, it was {status}"
    return f"failed before: {status}" if settings.retry_failed and status in FAILURES else ""
