"""Fits efficiency curves to published times of kernels, by the roofline that simulations use.

Of each device that was measured the fractions and ramps of its curve are those with the least mean absolute error,
each source weighing the same, or each operator of what moves bytes; a search sees every second shape. What moves bytes
comes first: memory bounds products too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np
from scipy.optimize import minimize

from runners.kernels import Kernel, Kind
from runners.report_text import grouped
from xsim.errors import SpecError
from xsim.plan.compute.roofline import Roofline
from xsim.plan.compute.scaled import Scaled
from xsim.plan.contracts import ComputeModel
from xsim.spec.cluster import DeviceSpec, EfficiencyCurve
from xsim.spec.codec import from_plain

__all__ = ["CARRIED", "FITS", "Fit", "carried_errors", "errors", "fit_curve", "library"]

PULL = 1e-3  # per squared logarithm from where a search begins: what the rows cannot tell stays near it
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Fit:
    """What is fitted on which rows.

    Attributes:
        device: Whose curve.
        kind: Of the kernels that tell.
        begin: Fields of the curve, and where their search begins.
        groups: Sources of rows.
    """

    device: str
    kind: Kind
    begin: Mapping[str, float]
    groups: tuple[str, ...]


MEMORY, NORM = {"memory": 0.75}, {"norm": 0.4}
PRODUCT = {"matmul": 0.8, "inner_ramp": 100.0, "edge_ramp": 10.0}
ATTENTION = {"attention": 0.5, "attention_half_keys": 700.0, "attention_half_queries": 2e4}
AMPERE, HOPPER = ("vidur_mlp_a100", "aceso_ops_A100-40"), ("vidur_mlp_h100", "aceso_ops_GH-96")

FITS = (
    Fit("a100_80", "element-wise", MEMORY, AMPERE),
    Fit("a100_80", "norm", NORM, AMPERE),
    Fit("a100_80", "product", PRODUCT, ("aic_gemm_a100_sxm", *AMPERE)),
    Fit("a100_80", "attention", ATTENTION, ("aic_attn_a100_sxm",)),
    Fit("h100_80", "element-wise", MEMORY, HOPPER),
    Fit("h100_80", "norm", NORM, HOPPER),
    Fit("h100_80", "product", PRODUCT, ("aic_gemm_h100_sxm", "vidur_mlp_h100")),
    Fit("h100_80", "attention", ATTENTION, ("aic_attn_h100_sxm",)),
    Fit("h200", "product", PRODUCT, ("aic_gemm_h200_sxm",)),
    Fit("h200", "attention", ATTENTION, ("aic_attn_h200_sxm",)),
    Fit("b200", "product", PRODUCT, ("aic_gemm_b200_sxm",)),
    Fit("b200", "attention", ATTENTION, ("aic_attn_b200_sxm",)),
)


CARRIED = (("a100_80", "h100_80"), ("h100_80", "b200"), ("h100_80", "h200"))  # from, to: none fitted on the target


@cache
def library(name: str) -> DeviceSpec:
    """A device of the library."""
    return from_plain(DeviceSpec, name)


def errors(kernels: Sequence[Kernel], curve: EfficiencyCurve | None = None) -> list[float]:
    """Of each kernel, its predicted time over the measured one, less 1.

    Args:
        curve: In place of those of the library.
    """
    devices = {name: library(name) for name in {kernel.device for kernel in kernels}}
    if curve is not None:
        devices = {name: replace(device, efficiency=curve) for name, device in devices.items()}
    return [_time_s(devices[kernel.device], kernel) / kernel.time_s - 1 for kernel in kernels]


def carried_errors(kernels: Sequence[Kernel], source: str) -> list[float]:
    """The same of ``compute=scaled``, from the efficiency curve of ``source``."""
    model = Scaled(source)
    return [_time_s(library(kernel.device), kernel, model) / kernel.time_s - 1 for kernel in kernels]


def _time_s(device: DeviceSpec, kernel: Kernel, model: ComputeModel = Roofline()) -> float:  # noqa: B008
    return sum(model.time_ps(device, kernel.operator, each) for each in kernel.passes) * 1e-12


def fit_curve(fit: Fit, kernels: Sequence[Kernel], curve: EfficiencyCurve) -> EfficiencyCurve:
    """The curve with its fields of ``fit`` searched for; the others are as they are."""
    of_kind = (kernel for kernel in kernels if kernel.kind == fit.kind and kernel.group in fit.groups)
    seen = [kernel for kernel in of_kind if kernel.fitted and not kernel.held_out]
    if not seen:
        problem = f"no row of a kernel ({fit.kind}) is there to fit"
        raise SpecError("XSIM_REFERENCE_DATA", fit.device, problem, "use the whole table")
    sources = grouped(seen, _weighs_as_one).values()
    begin = np.log(list(fit.begin.values()))

    def made(point: Sequence[float]) -> EfficiencyCurve:
        values = {name: float(np.exp(x)) for name, x in zip(fit.begin, point, strict=True)}
        for name in ("matmul", "attention", "memory", "norm"):
            if name in values:
                values[name] = min(values[name], 1.0)
        return replace(curve, **values)  # type: ignore[arg-type]

    def loss(point: Sequence[float]) -> float:
        off = fmean(fmean(map(abs, errors(rows, made(point)))) for rows in sources)
        return off + PULL * float(((np.asarray(point) - begin) ** 2).sum())

    return made(_least(loss, begin.tolist()))


def _weighs_as_one(kernel: Kernel) -> tuple[object, ...]:
    """A source; of what moves bytes each pass of each operator, for no two reach the same rate."""
    by_rate = kernel.kind in {"element-wise", "norm"}
    return (kernel.group, kernel.name, kernel.passes) if by_rate else (kernel.group,)


def _least(loss: Callable[[Sequence[float]], float], begin: Sequence[float]) -> list[float]:
    """Where a loss is least near ``begin``; searched twice, the second time from where the first ended."""
    options = {"xatol": TOLERANCE, "fatol": TOLERANCE / 10}
    first = minimize(loss, begin, method="Nelder-Mead", options=options)
    found: list[float] = minimize(loss, first.x, method="Nelder-Mead", options=options).x.tolist()
    return found
