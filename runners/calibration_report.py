"""The report of a calibration: what was fitted, how far off the simulation is, and what does not count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from runners.calibration import Costs
from runners.measured import Row

__all__ = ["Found", "grouped", "mean_error", "text"]

Key = TypeVar("Key", bound=Hashable)

HOST_TARGET, NETWORK_TARGET = 0.10, 0.20  # mean absolute errors that are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a calibration found.

    Attributes:
        costs: Fitted, by generation.
        latencies_ps: Of a NIC's port, fitted, by network.
        errors: Of each row, simulated time over measured time, less 1.
        left_out: By group of rows, how many do not count, and why.
    """

    costs: Mapping[str, Costs]
    latencies_ps: Mapping[str, int]
    errors: Mapping[Row, float]
    left_out: Mapping[str, tuple[int, str]]


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Rows by a key, in order of the keys."""
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return {name: found[name] for name in sorted(found, key=str)}


def mean_error(found: Found, rows: Iterable[Row]) -> float:
    """Mean absolute error of simulated against measured times."""
    return fmean(abs(found.errors[row]) for row in rows)


def text(found: Found) -> str:
    """The report in Markdown."""
    return "\n".join(
        [
            *_preface(),
            *_costs(found),
            *_on_one_host(found),
            *_by_size(found),
            *_over_hosts(found),
            *_left_out(found),
        ]
    )
