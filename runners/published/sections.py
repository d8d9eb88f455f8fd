"""Sections of a validation beside training runs: what is measured of kernels and of collectives alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

__all__ = ["Section", "sections"]

KERNELS, COLLECTIVES = "kernels.csv", "collectives.csv"
JUDGED = ("product", "attention")  # kinds of kernels that a bound is for


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
    for name, section in ((KERNELS, _kernels), (COLLECTIVES, _collectives)):
        if folder is not None and (folder / name).is_file():
            yield section(folder / name, bounds[Path(name).stem])


def _kernels(table: Path, bound: float) -> Section:
    """How far the library's curves are off on shapes that their calibration has not seen."""
    from runners.kernel_fit import FITS, errors
    from runners.kernel_report import KernelsFound, met
    from runners.kernels import read_kernels

    kernels, left_out = read_kernels(table)
    found = KernelsFound((), list(zip(kernels, errors(kernels), strict=True)), left_out)
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


def _collectives(table: Path, bound: float) -> Section:
    """How far ``collective=auto`` is off on one host, on sizes that its calibration has not seen."""
    from runners.bench import simulated_us
    from runners.calibration_report import held_out_parts
    from runners.measured import read
    from xsim.spec.protocols import generations

    rows, _ = read(table)
    held = held_out_parts([row for row in rows if row.hosts == 1])["sizes between"]
    lines = [
        f"Asked for: a mean under {bound:.0%} on sizes that no fit has seen, on one host. docs/collectives.md has the",
        "rest, and what is fitted on what.",
        "",
        "| generation | rows | error | bias |",
        "|---|---|---|---|",
    ]
    passed = []
    for name, generation in generations().items():
        own = [row for row in held if row.machine.device in generation.devices]
        if not own:
            continue
        errors = [simulated_us(row, None) / row.time_us - 1 for row in own]
        error = fmean(map(abs, errors))
        lines.append(f"| {name} | {len(own)} | {error:.1%} | {fmean(errors):+.1%} |")
        if error > bound:
            passed.append(f"collectives of {name}")
    return Section("Collectives on one host", lines, passed)
