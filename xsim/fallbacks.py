"""Where a run goes by figures that are not those of its hardware, because there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsim.plan.noted import NOT_SUMMED, Taken
from xsim.spec.cluster import DeviceSpec, rank_devices
from xsim.spec.codec import from_plain
from xsim.spec.library import MEASURED, device_names
from xsim.spec.protocols import is_listed
from xsim.spec.scenario import Scenario

__all__ = ["fallbacks"]


def fallbacks(scenario: Scenario, ranks: Sequence[int], taken: Sequence[Taken]) -> tuple[str, ...]:
    """One sentence for each; none where every figure is the hardware's own.

    Args:
        ranks: Those that the deployment uses.
        taken: Which ways collectives took.
    """
    devices = dict.fromkeys(rank_devices(scenario.cluster)[rank] for rank in ranks)
    told = (text for device in devices for text in _of_device(device, scenario.precision, taken))
    return tuple(dict.fromkeys((*told, *_of_collectives(taken))))


def _of_device(device: DeviceSpec, precision: str, taken: Sequence[Taken]) -> Iterator[str]:
    if device.rate_flops_per_s is None:
        if precision not in dict(device.peak_flops_per_s):
            yield f"{device.name} has no peak rate for {precision}: the next wider one that it has"
        if _curve_is_estimate(device):
            yield f"{device.name} has no measured efficiency curve: an estimate (xsim/spec/devices.yaml)"
    if any(each.protocol for each in taken) and not is_listed(device.name):
        yield f"{device.name} has no measured costs of protocols: those of others (xsim/spec/protocols.yaml)"


def _of_collectives(taken: Sequence[Taken]) -> Iterator[str]:
    rings = sum(each.way == NOT_SUMMED for each in taken)
    if rings:
        yield f"{rings} of {len(taken)} kinds of collectives go by rings: no switch sums for their ranks"


def _curve_is_estimate(device: DeviceSpec) -> bool:
    """Whether it is that of an entry of the library whose own was not measured."""
    if device.name in MEASURED or device.name not in device_names():
        return False
    return device.efficiency == from_plain(DeviceSpec, device.name).efficiency
