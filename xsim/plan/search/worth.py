"""What a plan is worth: its time, its money, its energy; and which plans no other beats in all three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xsim.errors import SpecError
from xsim.plan.kinds import Sketch, whole_layers
from xsim.plan.search.contracts import Tables
from xsim.plan.search.price import Priced, pass_ps, seats
from xsim.spec.cluster import DeviceSpec
from xsim.units import PS_PER_S

__all__ = ["Objective", "Worth", "check_objective", "front", "worth"]

Objective = Literal["time", "cost", "energy", "pareto"]


@dataclass(frozen=True, slots=True)
class Worth:
    """Of one iteration; less is better.

    Attributes:
        usd: Hourly prices of the devices that the plan uses, for that time.
        energy_j: Full power while they compute or update, idle power else.
        idle_w: Idle power of all of them together.
    """

    time_ps: int
    usd: float
    energy_j: float
    idle_w: float = field(default=0.0, compare=False)

    def of(self, objective: str) -> float:
        """By one objective; of a Pareto set the time."""
        return {"cost": self.usd, "energy": self.energy_j}.get(objective, float(self.time_ps))

    def taking(self, time_ps: int) -> Worth:
        """The same plan if it takes another time: money follows, energy as far as devices do not compute."""
        ratio = time_ps / self.time_ps if self.time_ps else 1.0
        idle_j = self.idle_w * (time_ps - self.time_ps) / PS_PER_S
        return Worth(time_ps, self.usd * ratio, self.energy_j + idle_j, self.idle_w)

    def beats(self, other: Worth) -> bool:
        """Whether it is as good in all, and better in one."""
        own, others = ((each.time_ps, each.usd, each.energy_j) for each in (self, other))
        return own != others and all(a <= b for a, b in zip(own, others, strict=True))


def check_objective(objective: str, devices: Sequence[DeviceSpec]) -> None:
    """Refuse an objective by which all plans on these devices are equal.

    Raises:
        SpecError: No device has a price, or none takes any power.
    """
    needed = {"cost": "price_usd_per_hour", "energy": "power"}.get(objective)
    rates = [device.price_usd_per_hour if objective == "cost" else device.power_w for device in devices]
    if needed and not any(rates):
        names = ", ".join(dict.fromkeys(device.name for device in devices))
        problem = f"no device of {names} has a {needed} above 0: all plans are equal"
        raise SpecError("objective", objective, problem, f"give devices a {needed}, or choose time")


def worth(sketch: Sketch, priced: Priced, tables: Tables) -> Worth:
    """Of a plan by its price."""
    devices = {kind.name: kind.device for kind in tables.kinds}
    seconds = priced.iteration_ps / PS_PER_S
    usd, energy_j, idle_w = 0.0, 0.0, 0.0
    for pipeline in sketch.pipelines:
        for stage, held in zip(pipeline.stages, whole_layers(pipeline, tables.layers), strict=True):
            for seat in seats(stage, pipeline.micro_batch):
                device, count = devices[seat.kind], seat.tp * seat.width * pipeline.count
                busy_ps = pipeline.micro_batches * pass_ps(tables, seat, held, stage.recompute)
                busy = (busy_ps + tables.update_ps(seat.kind, seat.tp, held, seat.samples)) / PS_PER_S
                usd += count * device.price_usd_per_hour * seconds / 3600
                energy_j += count * (busy * device.power_w + (seconds - busy) * device.idle_power_w)
                idle_w += count * device.idle_power_w
    return Worth(priced.iteration_ps, usd, energy_j, idle_w)


def front(each: Sequence[Worth]) -> list[int]:
    """Positions of those that no other beats, the fastest first; of equals the first."""
    found = [i for i, own in enumerate(each) if own not in each[:i] and not any(other.beats(own) for other in each)]
    return sorted(found, key=lambda i: (each[i].time_ps, each[i].usd, each[i].energy_j))
