"""Times of one device carried to others, by the ratios of their rooflines or by those of what both were measured at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from xsim.errors import SpecError
from xsim.plan.carry import carried
from xsim.plan.compute.profile import Profile
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Pass
from xsim.plan.operator import Place, ShardedOperator
from xsim.plan.profile import PARTS, parse_table
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain

__all__ = ["Scaled"]

# The largest means of carried kernels, measured on the target, rounded up.
COMPUTING_ERROR = 0.17  # docs/kernels.md: attention, a100_80 to h100_80
MOVING_ERROR = 0.31  # docs/kernels.md: element-wise, a100_80 to h100_80


@dataclass(frozen=True, slots=True)
class Scaled:
    """What ``device`` takes, by its profile or its efficiency curve, times the ratio of two rooflines per operator.

    As in HeteroSim: what computes goes by FLOP/s, what moves bytes by bandwidth. The roofline of the target is that of
    its peaks with the efficiency of ``device``; its own curve counts for nothing but the number of its processors.
    Where layers of another model were measured on both devices, a profile's times go by the ratio of those instead.

    Attributes:
        device: Of the device library; what was measured on it.
        path: Of a table of its times, as of ``profile``; without one its efficiency curve gives them.
        text: What the table holds.
        collectives: As of ``profile``.
        ratios: Of a table of another model's times, on ``device`` and on others, by which those of ``path`` go.
        ratios_text: What that holds.
    """

    device: str = "a100_80"
    path: str = ""
    text: str = ""
    collectives: str = "apart"
    ratios: str = ""
    ratios_text: str = ""

    def __post_init__(self) -> None:
        self._source()
        self._profile()
        if self.ratios_text:
            self._check_ratios()

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        source = self._source()
        found = self._profile().time_ps(source, operator, pass_) if self.text else None
        if device.name == source.name:
            return Roofline().time_ps(source, operator, pass_) if found is None else found
        if found is not None and (ratio := self._ratio(device, operator, pass_)):
            return int(found * ratio + 0.5)
        there = replace(device, efficiency=carried(source, device, operator.dtype))
        carried_ps = Roofline().time_ps(there, operator, pass_)
        if found is None or not carried_ps:
            return carried_ps
        return int(found * carried_ps / Roofline().time_ps(source, operator, pass_) + 0.5)

    def doubt(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> str:
        """What is to be said against a time: what the source's lacks, and how far off carrying is on average."""
        source = self._source()
        found = self._profile().doubt(source, operator, pass_) if self.text else ""
        if device.name == source.name:
            return found
        if self.text and self._ratio(device, operator, pass_):
            told = f"carried from {source.name} by the times of another model"
            return f"{told}; there {found}" if found else told
        error = COMPUTING_ERROR if operator.bound in {"matmul", "attention"} else MOVING_ERROR
        told = f"carried from {source.name}, {error:.0%} off on average"
        return f"{told}; there {found}" if found else told

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        """Whether collectives are in the times of these layers, and carried with them."""
        return self._profile().holds(self._source(), place)

    def _check_ratios(self) -> None:
        if not self.text:
            problem = "ratios carry measured times, and there are none"
            raise SpecError("path", self.path, problem, "name their table, or leave ratios out")
        if not any(device == self.device for device, *_ in parse_table(self.ratios_text).times):
            raise SpecError("device", self.device, "ratios have no times of it", "name one that both tables have")

    def _ratio(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> float | None:
        """What the layers that ``operator`` is in take on ``device``, over what they take on the source."""
        place = operator.place
        if not self.ratios_text or place is None:
            return None
        table = parse_table(self.ratios_text)
        for name in (name for name, parts in PARTS.items() if pass_ in parts):
            each = [
                [table.read(one, layer, name, place) for layer in place.layers] for one in (device.name, self.device)
            ]
            own, others = ([reading.time_ps for reading in readings if reading] for readings in each)
            if len(own) == len(others) == len(place.layers):
                return sum(own) / sum(others)
        return None

    def _source(self) -> DeviceSpec:
        return _of_library(self.device)

    def _profile(self) -> Profile:
        return Profile(self.path, self.text, self.collectives)


@cache
def _of_library(name: str) -> DeviceSpec:
    return from_plain(DeviceSpec, name, "device")
