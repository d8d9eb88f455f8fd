"""Sections of a validation beside training runs: what is measured of kernels alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from runners.measurements import KERNELS, read_measured, table_of

if TYPE_CHECKING:
    from runners.kernel_report import KernelsFound

__all__ = ["Section", "sections"]

JUDGED = ("product", "attention")  # kinds of kernels that a bound is for


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Attributes:
        passed: What passes its bound, in words.
        points: By series (measured, predicted) seconds, where a figure shows them.
    """

    heading: str
    lines: Sequence[str]
    passed: Sequence[str] = ()
    points: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


def sections(folder: Path | None, bounds: Mapping[str, float]) -> Iterator[Section]:
    """Those of kernels, if ``folder`` has a table of them.

    Args:
        folder: Of the reference data, if there is one.
        bounds: Mean absolute errors that are asked for, by section.
    """
    if folder is not None and table_of(folder, KERNELS).is_file():
        found = _errors(folder)
        yield _kernels(found, bounds["kernels"])
        yield _scaled(found, bounds["scaled"])


def _errors(folder: Path) -> KernelsFound:
    """Of all kernels, with the library's curves."""
    from runners.kernel_fit import errors
    from runners.kernel_report import KernelsFound
    from runners.kernels import read_kernels

    kernels, left_out = read_measured(folder, KERNELS, read_kernels)
    return KernelsFound((), list(zip(kernels, errors(kernels), strict=True)), left_out)


def _kernels(found: KernelsFound, bound: float) -> Section:
    """How far the library's curves are off on shapes that their calibration has not seen."""
    from runners.kernel_fit import FITS
    from runners.kernel_report import met

    lines = [
        f"Asked for: a mean of at most {bound:.0%} on shapes that no fit has seen. docs/kernels.md has the rest, and",
        "what is fitted on what.",
        "",
        "| device | kind | rows | error | bias |",
        "|---|---|---|---|---|",
    ]
    passed = []
    for fit in FITS:
        off = met(found, fit.device, fit.kind) if fit.kind in JUDGED else []
        if off:
            error = fmean(map(abs, off))
            lines.append(f"| {fit.device} | {fit.kind} | {len(off)} | {error:.1%} | {fmean(off):+.1%} |")
            if error > bound:
                passed.append(f"kernels ({fit.kind}) of {fit.device}")
    return Section("Kernels", lines, passed)


def _scaled(found: KernelsFound, bound: float) -> Section:
    """How far a curve is off that ``compute=scaled`` carries to another device."""
    from runners.kernel_fit import CARRIED
    from runners.kernel_report import carried_off

    lines = [
        f"Asked for: a mean of at most {bound:.0%}, with the curve of one device carried to another, of whose kernels",
        "it has seen none.",
        "",
        "| from | to | kind | rows | error | bias |",
        "|---|---|---|---|---|---|",
    ]
    passed = []
    for source, target in CARRIED:
        for kind, off in carried_off(found, source, target).items():
            if kind in JUDGED:
                error = fmean(map(abs, off))
                lines.append(f"| {source} | {target} | {kind} | {len(off)} | {error:.1%} | {fmean(off):+.1%} |")
                if error > bound:
                    passed.append(f"kernels ({kind}) carried from {source} to {target}")
    return Section("Kernels carried to another device", lines, passed)
