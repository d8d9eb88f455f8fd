"""Times that were measured on the devices themselves, operator by operator or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Pass
from xsim.plan.operator import Place, ShardedOperator
from xsim.plan.profile import BLOCKS, PARTS, Reading, parse_table
from xsim.spec.cluster import DeviceSpec

__all__ = ["Profile"]

UNMEASURED = "not measured: the roofline"
UNEVEN = "measured on even parts, and taken in proportion"

Read = tuple[float, str]  # picoseconds, and a doubt


@dataclass(frozen=True, slots=True)
class Profile:
    """A table of measured times; what it lacks is priced by the roofline, and said so.

    An operator with rows of its own takes their time. The others of a layer share the time of the layer in the
    proportion of their times by the roofline, and the two gradients of an operator that of its backward pass. Between
    micro-batches times are interpolated; rows of another ``tp`` or length are not used.

    Attributes:
        path: Of a table in CSV or Parquet, or of a file or folder of Metis, Sailor, AMP, Aceso or AICB. The commands
            read it into ``text``, so that a run is known by what it holds.
        text: What it holds, as CSV (``xsim.plan.profile``).
        collectives: ``inside``: times of layers, and of their blocks, hold the collectives of tensor parallelism. They
            are simulated, and what each takes alone is taken off the operators. ``apart``: they do not.
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

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        """Whether collectives are in the times of these layers: they were measured whole, by several ranks."""
        if self.collectives == "apart" or not self.text or place.tp == 1:
            return False
        blocks = BLOCKS if "transformer" in place.layers else ()
        return parse_table(self.text).has(device.name, (*place.layers, *blocks), place.tp)

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
                    return self._part(device, own, found, whole, name, place)
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
        total = sum(Roofline().time_ps(device, each, pass_) for each in whole for pass_ in PARTS[name])
        return place.share * found.time_ps * own_ps / total, found.doubt or (UNEVEN if place.share != 1 else "")


def _scopes(operator: ShardedOperator, place: Place) -> Iterator[tuple[Sequence[str], Sequence[ShardedOperator]]]:
    """What rows may tell an operator's time, the nearest first: their names, and the operators that share them."""
    yield (operator.name,), (operator,)
    last = next((at for at, each in enumerate(place.whole) if each.name == "attention_residual"), None)
    if last is not None:
        for name, block in zip(BLOCKS, (place.whole[: last + 1], place.whole[last + 1 :]), strict=True):
            if operator in block:
                yield (name,), block
    yield place.layers, place.whole


def _sum(readings: Sequence[Reading | None]) -> Reading | None:
    """All of them, with the first doubt; none if one is missing."""
    found = [reading for reading in readings if reading is not None]
    if not found or len(found) < len(readings):
        return None
    return Reading(sum(each.time_ps for each in found), next((each.doubt for each in found if each.doubt), ""))
