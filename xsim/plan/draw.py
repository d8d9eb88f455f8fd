"""What one draw of noise makes of a cluster: how fast its devices and links are, and when its ranks stand still."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xsim.fabric.fabric import Fabric
from xsim.spec.device import FASTEST, SLOWEST, DeviceSpec

__all__ = ["Draw", "Stall"]


class Stall(NamedTuple):
    """A rank stands still for ``for_ps`` when it has computed for ``at_ps`` since the iteration began."""

    at_ps: int
    for_ps: int


def _none(_: int) -> Iterator[Stall]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Draw:
    """One iteration's.

    Attributes:
        speeds: Per rank, by what the speed of its device is multiplied; empty: by nothing.
        rates: Per link that is not what it should be, by what its bandwidth is multiplied.
        stalls: Of a rank, in order, each after the one before; they need not end.
    """

    speeds: tuple[float, ...] = ()
    rates: Mapping[int, float] = field(default_factory=dict)
    stalls: Callable[[int], Iterator[Stall]] = _none

    def devices(self, nominal: Sequence[DeviceSpec]) -> tuple[DeviceSpec, ...]:
        """The device of each rank as it runs, no slower and no faster than devices can be.

        What is alike stays one object, so that it is worked out once.
        """
        if not self.speeds:
            return tuple(nominal)
        made: dict[tuple[int, float], DeviceSpec] = {}
        for device, factor in zip(nominal, self.speeds, strict=True):
            key = (id(device), factor)
            if key not in made:
                speed = min(max(device.speed * factor, SLOWEST), FASTEST)
                made[key] = device if factor == 1.0 else replace(device, speed=speed)
        return tuple(made[id(device), factor] for device, factor in zip(nominal, self.speeds, strict=True))

    def fabric(self, nominal: Fabric) -> Fabric:
        """The wires as they run; their routes are the same."""
        if not self.rates:
            return nominal
        bandwidth_bytes_per_s = nominal.bandwidth_bytes_per_s.copy()
        for link, factor in self.rates.items():
            bandwidth_bytes_per_s[link] *= factor
        return replace(nominal, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
