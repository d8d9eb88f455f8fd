"""The report of a calibration of kernels: what was fitted on what, how far off it is, and what does not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from runners.kernel_fit import CARRIED, FITS, Fit, carried_errors, errors, fit_curve, library
from runners.kernels import KINDS, Kernel
from runners.report_text import as_table, grouped
from xsim.spec.cluster import EfficiencyCurve

__all__ = [
    "CARRIED_TARGET",
    "KERNEL_TARGET",
    "KernelsFound",
    "calibrate_kernels",
    "carried_off",
    "kernels_text",
    "met",
]

KERNEL_TARGET, CARRIED_TARGET = 0.10, 0.20  # mean absolute errors that are asked for, of products and attention
CLOSE = 0.02  # of a figure of the library to a fitted one


@dataclass(frozen=True, slots=True)
class KernelsFound:
    """What a calibration found.

    Attributes:
        fits: What was fitted, and the curve that came of it.
        errors: Of each kernel, its time with the library's curve over the measured one, less 1.
        left_out: By group of rows, how many do not count, and why.
    """

    fits: Sequence[tuple[Fit, EfficiencyCurve]]
    errors: Sequence[tuple[Kernel, float]]
    left_out: Mapping[str, tuple[int, str]]


def calibrate_kernels(kernels: Sequence[Kernel], left_out: Mapping[str, tuple[int, str]]) -> KernelsFound:
    """Fit on a part of the kernels, predict all."""
    curves = {fit.device: library(fit.device).efficiency for fit in FITS}
    fits = []
    for fit in FITS:
        curves[fit.device] = fit_curve(fit, kernels, curves[fit.device])
        fits.append((fit, curves[fit.device]))
    return KernelsFound(fits, list(zip(kernels, errors(kernels), strict=True)), left_out)


def met(found: KernelsFound, device: str, kind: str) -> list[float]:
    """Errors of the kernels of a kind on a device that no fit has seen, though it might have."""
    return [off for kernel, off in found.errors if _judged(kernel) == (device, kind) and kernel.held_out]


def _judged(kernel: Kernel) -> tuple[str, str] | None:
    """The curve and kind of operators that a kernel counts for."""
    for fit in FITS:
        if kernel.fitted and kernel.kind == fit.kind and kernel.group in fit.groups:
            return fit.device, fit.kind
    return None


def kernels_text(found: KernelsFound) -> str:
    """The report in Markdown."""
    sections = (_preface, _figures, _held_out, _carried, _operators, _left_out)
    return "\n\n".join("\n".join(section(found)) for section in sections) + "\n"


def _preface(found: KernelsFound) -> Iterator[str]:
    yield f"""# Kernels: what the roofline is calibrated on, and how far off it is

Written by `python -m runners.calibrate --kernels docs/kernels.md`. The model is in `xsim/plan/compute/roofline.py` and
`xsim/plan/tiles.py`, what its figures mean in `EfficiencyCurve` (`xsim/spec/device.py`), and the figures are those of
`xsim/spec/devices.yaml`.

{len(found.errors)} published times of single kernels count; none is of a training run. A fit sees every second shape,
by a checksum of it, and finds the figures with the least mean absolute error, each source weighing the same (of what
moves bytes, each pass of each operator). An error is the time with the library's figures over the measured one, less
1; means are of absolute errors, and the bias is the mean with signs. What was held out was not unseen by people: the
form of the model was chosen with all rows in view."""


def _figures(found: KernelsFound) -> Iterator[str]:
    yield "## What was fitted, and what the library has"
    yield ""
    rows = []
    for fit, curve in found.fits:
        own = library(fit.device).efficiency
        seen = sum(_judged(kernel) == (fit.device, fit.kind) and not kernel.held_out for kernel, _ in found.errors)
        for name in fit.begin:
            fitted, has = getattr(curve, name), getattr(own, name)
            note = "" if has and abs(fitted / has - 1) < CLOSE else f"{fitted / has - 1:+.0%}" if has else "yes"
            rows.append((fit.device, name, f"{fitted:.4g}", f"{has or 0:.4g}", note, seen, ", ".join(fit.groups)))
    yield from as_table(("device", "figure", "fitted", "library", "differs", "rows", "read from"), rows)


def _held_out(found: KernelsFound) -> Iterator[str]:
    yield "## On the shapes that were held out"
    yield ""
    yield f"Asked for: a mean of at most {KERNEL_TARGET:.0%} for products and attention of each device."
    yield ""
    rows = []
    for fit in FITS:
        off = met(found, fit.device, fit.kind)
        asked = fit.kind in {"product", "attention"}
        verdict = ("yes" if fmean(map(abs, off)) <= KERNEL_TARGET else "no") if asked else ""
        rows.append((fit.device, fit.kind, *_summary(off), verdict))
    yield from as_table(("device", "kind", "rows", "mean error", "bias", "95th percentile", "met"), rows)


def carried_off(found: KernelsFound, source: str, target: str) -> dict[str, list[float]]:
    """By kind, errors of the kernels of ``target`` if the curve of ``source`` is carried to it."""
    kernels = [kernel for kernel, _ in found.errors if kernel.device == target and kernel.fitted]
    off = zip(kernels, carried_errors(kernels, source), strict=True)
    return {kind: [error for _, error in own] for kind, own in grouped(off, lambda each: each[0].kind).items()}


def _carried(found: KernelsFound) -> Iterator[str]:
    yield "## Carried to another device: `compute=scaled`"
    yield ""
    yield "The curve of one device with the peaks, the bandwidth and the processors of another, against all kernels of"
    yield "the other, none of which it has seen."
    yield ""
    yield f"Asked for: a mean of at most {CARRIED_TARGET:.0%} for products and attention."
    yield ""
    rows = []
    for source, target in CARRIED:
        for kind, off in carried_off(found, source, target).items():
            asked = kind in {"product", "attention"}
            verdict = ("yes" if fmean(map(abs, off)) <= CARRIED_TARGET else "no") if asked else ""
            rows.append((source, target, kind, *_summary(off), verdict))
    yield from as_table(("from", "to", "kind", "rows", "mean error", "bias", "95th percentile", "met"), rows)


def _operators(found: KernelsFound) -> Iterator[str]:
    yield "## Operator by operator, all shapes"
    yield ""
    yield "No fit has seen at all: operators that training runs otherwise, and devices without a curve of their own."
    yield ""
    rows = []
    key = grouped(found.errors, lambda each: (KINDS.index(each[0].kind), each[0].group, each[0].name, each[0].passes))
    for (_, group, name, passes), own in key.items():
        first = own[0][0]
        seen = "yes" if _judged(first) else "no"
        way = "forward" if "forward" in passes else "backward"
        rows.append((first.device, first.kind, name, way, seen, *_summary([off for _, off in own]), group))
    head = (
        "device",
        "kind",
        "operator",
        "pass",
        "fitted",
        "rows",
        "mean error",
        "bias",
        "95th percentile",
        "read from",
    )
    yield from as_table(head, rows)


def _left_out(found: KernelsFound) -> Iterator[str]:
    yield "## What does not count"
    yield ""
    yield from as_table(("source", "rows", "why"), [(group, *why) for group, why in found.left_out.items()])


def _summary(off: Sequence[float]) -> tuple[int, str, str, str]:
    size = sorted(map(abs, off))
    return len(off), f"{fmean(size):.1%}", f"{fmean(off):+.1%}", f"{size[int(0.95 * (len(size) - 1))]:.0%}"
