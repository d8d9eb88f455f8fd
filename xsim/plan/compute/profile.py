"""Times that were measured on the devices themselves, operator by operator or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Pass
from xsim.plan.operator import PASSES, Exchange, Place, ShardedOperator
from xsim.plan.profile import BACKWARD, Reading, parse_table
from xsim.spec.cluster import DeviceSpec

__all__ = ["Profile"]

GRADIENTS: tuple[Pass, ...] = ("input_gradient", "weight_gradient")
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
        table, passes = parse_table(self.text), (pass_, BACKWARD) if pass_ in GRADIENTS else (pass_,)
        for name in passes:
            found = table.read(device.name, operator.name, name, place)
            if found is not None:
                return self._part(device, own, found, (operator,), name, place)
        for name in passes:
            readings = [table.read(device.name, layer, name, place) for layer in place.layers]
            whole = _sum([reading for reading in readings if reading is not None])
            if readings and None not in readings:
                inside = self._inside_ps(device, place, name) if self.collectives == "inside" else 0.0
                least = LEAST_PART * whole.time_ps
                apart = Reading(max(whole.time_ps - inside, least), whole.doubt)
                return self._part(device, own, apart, place.whole, name, place)
        return own, UNMEASURED

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
        passes = [pass_ for pass_ in PASSES if pass_ == name or (name == BACKWARD and pass_ in GRADIENTS)]
        total = sum(Roofline().time_ps(device, each, pass_) for each in whole for pass_ in passes)
        return place.share * found.time_ps * own_ps / total, found.doubt or (UNEVEN if place.share != 1 else "")

    def _inside_ps(self, device: DeviceSpec, place: Place, name: str) -> float:
        """What rings of the layer's exchanges take in a pass."""
        port = device.scale_up or device.pcie
        sent = sum(_ring_bytes(each, name, place) for each in place.exchanges)
        return sent / port.bandwidth_bytes_per_s * 1e12


def _ring_bytes(exchange: Exchange, name: str, place: Place) -> float:
    kind = exchange.forward if name == "forward" else None if name == "weight_gradient" else exchange.backward
    if kind is None:
        return 0.0
    rounds = 2 if kind == "all_reduce" else 1
    return rounds * (place.tp - 1) / place.tp * exchange.cuts[-1] * place.element_bytes


def _sum(readings: Sequence[Reading]) -> Reading:
    return Reading(sum(each.time_ps for each in readings), next(_doubts(readings), ""))


def _doubts(readings: Sequence[Reading]) -> Iterator[str]:
    yield from (each.doubt for each in readings if each.doubt)
