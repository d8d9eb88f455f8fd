"""Times that were measured on the devices themselves, operator by operator or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Pass
from xsim.plan.operator import Exchange, Place, ShardedOperator
from xsim.plan.profile import PARTS, Reading, parse_table
from xsim.spec.cluster import DeviceSpec

__all__ = ["Profile"]

UNMEASURED = "not measured: the roofline"
UNEVEN = "measured on even parts, and taken in proportion"
LEAST_PART = 0.1  # of a measured layer that is left for its operators, whatever its collectives are thought to take

Read = tuple[float, str]  # picoseconds, and a doubt


@dataclass(frozen=True, slots=True)
class Profile:
    """A table of measured times; what it lacks is priced by the roofline, and said so.

    An operator with rows of its own takes their time. The others of a layer share the time of the layer in the
    proportion of their times by the roofline, and the two gradients of an operator that of its backward pass. Between
    micro-batches times are interpolated; rows of another ``tp`` or length are not used.

    Attributes:
        path: Of a table in CSV or Parquet, or of a file or folder of Metis, Sailor, Aceso or AICB. The commands read
            it into ``text``, so that a run is known by what it holds.
        text: What it holds, as CSV (``xsim.plan.profile``).
        collectives: ``inside``: times of layers hold the collectives of tensor parallelism, which are simulated
            besides: what a ring takes at the full rate of the devices' ports is taken off. ``apart``: they do not.
    """

    path: str = ""
    text: str = ""
    collectives: str = "apart"

    def __post_init__(self) -> None:
        if self.collectives not in {"apart", "inside"}:
            raise SpecError("collectives", self.collectives, "it is unknown", "choose one of apart, inside")
        if self.text:
            parse_table(self.text)

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        return int(self._read(device, operator, pass_)[0] + 0.5)

    def doubt(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> str:
        """What is to be said against a time; empty if it was measured, or lies between such."""
        return self._read(device, operator, pass_)[1]

    def _read(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> Read:
        own = Roofline().time_ps(device, operator, pass_)
        place = operator.place
        if not own:
            return 0.0, ""
        if not self.text or place is None:
            return own, UNMEASURED
        table, passes = parse_table(self.text), [name for name, parts in PARTS.items() if pass_ in parts]
        for names, whole in _scopes(operator, place):
            for name in passes:
                found = _sum([table.read(device.name, each, name, place) for each in names])
                if found is not None:
                    apart = self._apart(device, place, name, found) if whole is place.whole else found
                    return self._part(device, own, apart, whole, name, place)
        return own, UNMEASURED

    def _apart(self, device: DeviceSpec, place: Place, name: str, found: Reading) -> Reading:
        """The time of layers without their collectives."""
        if self.collectives == "apart":
            return found
        left = found.time_ps - self._inside_ps(device, place, name)
        return Reading(max(left, LEAST_PART * found.time_ps), found.doubt)

    def _part(
        self,
        device: DeviceSpec,
        own_ps: int,
        found: Reading,
        whole: Sequence[ShardedOperator],
        name: str,
        place: Place,
    ) -> Read:
        """The part of a time that an operator has by the roofline."""
        total = sum(Roofline().time_ps(device, each, pass_) for each in whole for pass_ in PARTS[name])
        return place.share * found.time_ps * own_ps / total, found.doubt or (UNEVEN if place.share != 1 else "")

    def _inside_ps(self, device: DeviceSpec, place: Place, name: str) -> float:
        """What rings of the layer's exchanges take in a pass."""
        port = device.scale_up or device.pcie
        sent = sum(_ring_bytes(each, name, place) for each in place.exchanges)
        return sent / port.bandwidth_bytes_per_s * 1e12


def _scopes(operator: ShardedOperator, place: Place) -> Iterator[tuple[Sequence[str], Sequence[ShardedOperator]]]:
    """What rows may tell an operator's time, the nearest first: their names, and the operators that share them."""
    yield (operator.name,), (operator,)
    last = next((at for at, each in enumerate(place.whole) if each.name == "attention_residual"), None)
    if last is not None:
        for name, block in (("attention_block", place.whole[: last + 1]), ("mlp_block", place.whole[last + 1 :])):
            if operator in block:
                yield (name,), block
    yield place.layers, place.whole


def _ring_bytes(exchange: Exchange, name: str, place: Place) -> float:
    kinds = []
    if "forward" in PARTS[name]:
        kinds.append(exchange.forward)
    if "input_gradient" in PARTS[name]:
        kinds.append(exchange.backward)
    rounds = sum(2 if kind == "all_reduce" else 1 for kind in kinds if kind is not None)
    return rounds * (place.tp - 1) / place.tp * exchange.cuts[-1] * place.element_bytes


def _sum(readings: Sequence[Reading | None]) -> Reading | None:
    """All of them, with the first doubt; none if one is missing."""
    found = [reading for reading in readings if reading is not None]
    if not found or len(found) < len(readings):
        return None
    return Reading(sum(each.time_ps for each in found), next((each.doubt for each in found if each.doubt), ""))
