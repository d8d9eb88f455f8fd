"""Sections of a validation beside training runs: what is measured of collectives alone.

Each is a heading, lines of Markdown, and whether a bound is passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

__all__ = ["Section", "sections"]

COLLECTIVES = "collectives.csv"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Attributes:
        passed: What passes its bound, in words.
    """

    heading: str
    lines: Sequence[str]
    passed: Sequence[str] = ()


def sections(folder: Path | None, bounds: Mapping[str, float]) -> Iterator[Section]:
    """Those whose tables are in ``folder``, if there is one.

    Args:
        bounds: Mean absolute errors that are asked for, by section.
    """
    if folder is not None and (folder / COLLECTIVES).is_file():
        yield _collectives(folder / COLLECTIVES, bounds["collectives"])


def _collectives(table: Path, bound: float) -> Section:
    """How far ``collective=auto`` is off on one host, on sizes that its calibration has not seen."""
    from runners.bench import simulated_us
    from runners.calibration_report import grouped, held_out_parts
    from runners.measured import read

    rows, _ = read(table)
    held = held_out_parts([row for row in rows if row.hosts == 1])["sizes between"]
    lines = [
        f"Asked for: a mean under {bound:.0%} on sizes that no fit has seen, on one host. docs/collectives.md has the",
        "rest, and what is fitted on what.",
        "",
        "| device | rows | error | bias |",
        "|---|---|---|---|",
    ]
    passed = []
    for device, own in grouped(held, lambda row: row.machine.device).items():
        errors = [simulated_us(row, None) / row.time_us - 1 for row in own]
        error = fmean(map(abs, errors))
        lines.append(f"| {device} | {len(own)} | {error:.1%} | {fmean(errors):+.1%} |")
        if error > bound:
            passed.append(f"collectives of {device}")
    return Section("Collectives on one host", lines, passed)
