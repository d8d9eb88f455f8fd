"""A schedule drawn as text: a line per stage, a column per unit of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xsim.plan.walk import Need, played
from xsim.plan.workload import Action

__all__ = ["UNITS", "picture"]

UNITS: Mapping[str, int] = {"F": 1, "B": 2, "I": 1, "W": 1}


def picture(orders: Sequence[Sequence[Action]], chunks: int = 1, units: Mapping[str, int] = UNITS) -> str:
    """The orders of a pipeline's stages as they run on equal stages without communication.

    An action stands where it begins and is drawn out with dashes, a dot is a unit of waiting.

    Args:
        units: What an action of each kind takes. All chunks take the same.
    """
    ends: dict[Need, int] = {}
    free = [0] * len(orders)
    width = max(len(str(action)) for order in orders for action in order) + 1
    lines = [""] * len(orders)
    for stage, action, needs in played(orders, chunks):
        start = max([free[stage], *(ends[need] for need in needs)])
        lines[stage] += ".".ljust(width) * (start - free[stage])
        lines[stage] += str(action).ljust(width * units[action.kind] - 1, "-") + " "
        ends[stage, action] = free[stage] = start + units[action.kind]
    makespan, digits = max(free), len(str(len(orders) - 1))
    for stage, end in enumerate(free):
        lines[stage] += ".".ljust(width) * (makespan - end)
    return "\n".join(f"{stage:>{digits}} | {line}".rstrip() for stage, line in enumerate(lines))
