"""Sections of a validation beside training runs: what is measured of kernels alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from runners.measurements import KERNELS, read_measured, table_of
from runners.report_text import as_table

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

    asked = [
        f"Asked for: a mean of at most {bound:.0%} on shapes that no fit has seen. docs/kernels.md has the rest, and",
        "what is fitted on what.",
    ]
    parts = [((fit.device,), fit.kind, met(found, fit.device, fit.kind)) for fit in FITS]
    return _judged("Kernels", asked, ("device",), parts, lambda place: f"of {place[0]}", bound)


def _scaled(found: KernelsFound, bound: float) -> Section:
    """How far a curve is off that ``compute=scaled`` carries to another device."""
    from runners.kernel_fit import CARRIED
    from runners.kernel_report import carried_off

    asked = [
        f"Asked for: a mean of at most {bound:.0%}, with the curve of one device carried to another, of whose kernels",
        "it has seen none.",
    ]
    parts = [
        ((source, target), kind, off)
        for source, target in CARRIED
        for kind, off in carried_off(found, source, target).items()
    ]
    heading = "Kernels carried to another device"
    return _judged(heading, asked, ("from", "to"), parts, lambda place: f"carried from {place[0]} to {place[1]}", bound)


def _judged(
    heading: str,
    asked: Sequence[str],
    columns: Sequence[str],
    parts: Iterable[tuple[tuple[str, ...], str, Sequence[float]]],
    named: Callable[[tuple[str, ...]], str],
    bound: float,
) -> Section:
    """A table of ``parts``, (where, kind of kernels, errors of each), of the kinds that a bound is for."""
    rows, passed = [], []
    for where, kind, off in parts:
        if kind in JUDGED and off:
            error = fmean(map(abs, off))
            rows.append((*where, kind, len(off), f"{error:.1%}", f"{fmean(off):+.1%}"))
            if error > bound:
                passed.append(f"kernels ({kind}) {named(where)}")
    return Section(heading, [*asked, "", *as_table((*columns, "kind", "rows", "error", "bias"), rows)], passed)
