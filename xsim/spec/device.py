"""One kind of accelerator: its rates, memory, ports, power and price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xsim.errors import SpecError
from xsim.spec.checks import at_least, not_negative, plausible, positive
from xsim.units import PS_PER_S

__all__ = ["DTYPES", "FASTEST", "SLOWEST", "DeviceSpec", "EfficiencyCurve", "LinkSpec", "check_link", "check_rate"]

LEAST_FLOPS_PER_S, MOST_FLOPS_PER_S, RATES = 1e6, 1e24, "0.001 GFLOPS and 1e9 PFLOPS"
SLOWEST, FASTEST = 0.01, 10.0  # clock over the nominal one
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """One direction of a link."""

    bandwidth_bytes_per_s: float
    latency_ps: int

    def __post_init__(self) -> None:
        check_link(self)


def check_link(value: object) -> None:
    """Refuse a bandwidth or latency that no link has."""
    positive(value, "bandwidth_bytes_per_s")
    not_negative(value, "latency_ps")
    plausible(value, "bandwidth_bytes_per_s", 1e3, 1e18, "1 KB/s and 1000 PB/s")
    plausible(value, "latency_ps", 0, 1000 * PS_PER_S, "0 s and 1000 s")


class _Rated(Protocol):
    @property
    def rate_flops_per_s(self) -> float | None: ...


def check_rate(value: _Rated) -> None:
    """Refuse an explicit rate that no device has."""
    if value.rate_flops_per_s is not None:
        positive(value, "rate_flops_per_s")
        plausible(value, "rate_flops_per_s", LEAST_FLOPS_PER_S, MOST_FLOPS_PER_S, RATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyCurve:
    """Which part of a device's peaks an operator of a given kind and shape reaches.

    A matrix product of ``f`` FLOPs runs at ``peak * matmul * f / (f + half_flops)``. With ``processors`` its shape
    counts instead: tiles are worked on in waves (``xsim.plan.tiles``). Attention's core runs likewise with
    ``attention`` and ``attention_half_flops``. With ``attention_half_keys`` its shape counts: for ``q`` queries of all
    heads and samples, with ``k`` keys each, its fraction is ``attention * k / (k + attention_half_keys) * q / (q +
    attention_half_queries)``. What is bound by memory moves bytes at ``memory_bandwidth * memory``, and a norm at
    ``memory_bandwidth * norm``. ``overhead_ps`` is added to each kernel.

    Attributes:
        matmul: Fraction of the dtype's peak that a very large matrix product reaches, 0..1.
        attention: The same for the fused attention core.
        memory: Fraction of the memory bandwidth that a large element-wise operator reaches, 0..1.
        half_flops: FLOPs of the product that reaches half of that.
        attention_half_flops: FLOPs of the attention core that reaches half of its own; absent: ``half_flops``.
        overhead_ps: Launch and framework time of each kernel.
        processors: How many tiles of a product the device works on at a time: its streaming multiprocessors.
        inner_ramp: Of the inner side of a product, what start and end of each tile take.
        edge_ramp: Rows and columns of a tile: what a tile smaller than the largest loses at its edges.
        attention_half_keys: Keys with which attention reaches half of its own.
        attention_half_queries: Queries, of all heads and samples together, with which it does.
        attention_backward: As ``attention``, for its gradients; absent: the same.
        norm: As ``memory``, for norms; absent: the same.
    """

    matmul: float
    attention: float
    memory: float
    half_flops: float = 0.0
    attention_half_flops: float | None = None
    overhead_ps: int = 0
    processors: int | None = None
    inner_ramp: float = 0.0
    edge_ramp: float = 0.0
    attention_half_keys: float | None = None
    attention_half_queries: float = 0.0
    attention_backward: float | None = None
    norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("matmul", "attention", "memory", "attention_backward", "norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise SpecError(name, value, "a fraction of the peak lies in (0, 1]", "write 0.6 for 60 %")
        for name in ("half_flops", "attention_half_flops", "inner_ramp", "edge_ramp", "attention_half_keys"):
            if getattr(self, name) is not None:
                not_negative(self, name)
        not_negative(self, "attention_half_queries")
        not_negative(self, "overhead_ps")
        if self.processors is not None:
            at_least(self, "processors", 1)
        plausible(self, "half_flops", 0, 1e18, "0 and 1e18")
        plausible(self, "overhead_ps", 0, 1000 * PS_PER_S, "0 s and 1000 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One kind of accelerator.

    Attributes:
        peak_flops_per_s: Pairs of dtype (``fp32 tf32 fp16 bf16 fp8``) and dense peak FLOP/s.
        scale_up: Its port to the scale-up fabric (NVLink, HCCS), one direction; absent if it has none. A path from
            device to device passes two ports, and has the latency of both.
        pcie: Its PCIe port, one direction.
        rate_flops_per_s: If set, every matrix product and attention core runs at this rate instead of peak and curve.
        speed: Its clock under load over that for which the other figures hold: below 1 where power or heat throttle it.
            What is bound by arithmetic takes so much longer, what is bound by memory does not (``xsim.plan.pace``).
    """

    name: str
    peak_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    pcie: LinkSpec
    efficiency: EfficiencyCurve
    power_w: float
    idle_power_w: float
    price_usd: float
    price_usd_per_hour: float
    scale_up: LinkSpec | None = None
    rate_flops_per_s: float | None = None
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not self.peak_flops_per_s:
            raise SpecError("peak", "", f"{self.name} has no peak rate", "write peak: {bf16: 312 TFLOPS}")
        for dtype, rate in self.peak_flops_per_s:
            if dtype not in DTYPES:
                offered = ", ".join(DTYPES)
                raise SpecError(f"peak.{dtype}", rate, "this dtype is unknown", f"choose one of {offered}")
            if not LEAST_FLOPS_PER_S <= rate <= MOST_FLOPS_PER_S:
                raise SpecError(f"peak.{dtype}", rate, f"it is not within {RATES}", "write such as 312 TFLOPS")
        for name in ("memory_bytes", "memory_bandwidth_bytes_per_s", "power_w"):
            positive(self, name)
        for name in ("idle_power_w", "price_usd", "price_usd_per_hour"):
            not_negative(self, name)
        plausible(self, "memory_bandwidth_bytes_per_s", 1e6, 1e18, "1 MB/s and 1000 PB/s")
        plausible(self, "speed", SLOWEST, FASTEST, f"{SLOWEST:g} and {FASTEST:g}")
        check_rate(self)

    def peak(self, dtype: str) -> float:
        """FLOP/s of ``dtype``; a device without bf16 runs it at its fp16 rate, and without that at fp32."""
        known = dict(self.peak_flops_per_s)
        for name in (dtype, *{"bf16": ("fp16", "fp32"), "fp16": ("fp32",), "tf32": ("fp32",)}.get(dtype, ())):
            if name in known:
                return known[name]
        offered = ", ".join(known)
        raise SpecError("precision", dtype, f"{self.name} has no peak rate for it", f"choose one of {offered}")
